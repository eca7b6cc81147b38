// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMM: t = sum of fma(x, code - zero, t) over a group, k ascending.
//
// Tile of 6 rows x 16 columns, the shape of an fp32 GEMM: a column's t is one chain of FMAs, and 12 chains fill the two
// FMA ports' latency. The panel is unpacked once a block, codes to float(code - zero), for all rows.
//   t[12]    float sums     w0, w1  16 columns of one k     x  one k of a row, in every lane
// A k takes 12 FMA for 96 MAC: 16 MAC/cycle on two FMA ports, less the group's end.
#pragma once

#include "decode_f32.h"

namespace qmm::avx2 {
namespace {

template <int Bits>
void unpack(const Block& b, float* to) {
  for_each_group(b, [&](const Group& g) {
    for (int c = 0; c < kPanel; c += 8) {
      const __m256 zero = zeros_f32<Bits>(b, g, 0, c);
      for (int64_t k = g.begin; k < g.end; k += 8) {
        const int64_t line = k * 2 * Bits + c * 4;
        if (c == 0)
          for (int64_t i = 0; i < 16 * Bits; i += kLine) prefetch(b.next_codes, line + i);
        unroll<4>([&](auto quarter) QMM_FLAT {
          const __m256i lanes = load_quarter<Bits>(b.codes + line, quarter);
          unroll<2>([&](auto j) QMM_FLAT {
            constexpr int bit = first_bit<Bits>(quarter) + j * 8;
            _mm256_storeu_ps(to + (k + quarter * 2 + j) * kPanel + c, Decoder<Bits>(bit)(lanes, bias<Bits>(zero, bit)));
          });
        });
      }
    }
    prefetch_sides(b, g.index, 0);
  });
}

template <int R>
QMM_NOINLINE void tile(Block b, Sides sides, const float* w, int64_t row) {
  const float* x = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    __m256 t[2 * R];
    unroll<2 * R>([&](auto i) QMM_FLAT { t[i] = begin_f32(b, g, row * kPanel + i * 8); });
    for (int64_t k = g.begin; k < g.end; k += 4)
      unroll<4>([&](auto j) QMM_FLAT {
        const __m256 w0 = _mm256_loadu_ps(w + (k + j) * kPanel), w1 = _mm256_loadu_ps(w + (k + j) * kPanel + 8);
        unroll<R>([&](auto i) QMM_FLAT {
          const __m256 xv = _mm256_broadcast_ss(x + i * b.lhs_stride + k + j);
          add_product(t[2 * i], xv, w0);
          add_product(t[2 * i + 1], xv, w1);
        });
      });
    unroll<2 * R>([&](auto i) QMM_FLAT {
      end_f32(b, g, sides, row + i / 2, g.index * kPanel + i % 2 * 8, row * kPanel + i * 8, t[i]);
    });
  });
}

template <int Bits, Tile T>
void gemm_f32(const Block& b) {
  static_assert(sides_size(T) + T.block_k * T.nr * 4 <= kScratch);
  auto* w = reinterpret_cast<float*>(static_cast<uint8_t*>(b.scratch) + sides_size(T));
  const Sides sides = widen_sides(b, Lhs::F32);
  unpack<Bits>(b, w);
  for_each_tile<6>(b.rows, [&]<int R>(int64_t row) { tile<R>(b, sides, w, row); });
}

}  // namespace
}  // namespace qmm::avx2
