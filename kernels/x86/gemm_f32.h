// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMM: t = sum of fma(x, code - zero, t) over a group, k ascending.
//
// Tile of R rows x C vectors of columns, the shape of an fp32 GEMM: a column's t is one chain of FMAs, and R * C chains
// fill the FMA ports' latency. The panels are unpacked once a block, codes to float(code - zero), for all rows.
//   t[R][C]  float sums     w[C]  the columns of one k     x  one k of a row, in every lane
// AVX2: 6 rows x 2 vectors of 8, 15 registers of 16. A k takes 12 FMA for 96 MAC: 16 MAC/cycle on two FMA ports.
// AVX-512: 12 rows x 2 vectors of 16, 27 registers of 32. A k takes 24 FMA and 14 loads for 384 MAC: 32 MAC/cycle on
// two FMA ports. Both less the group's end, which takes an FMA, three loads and a store of each sum.
#pragma once

#include "decode_f32.h"

namespace qmm::isa {
namespace {

// Panel p of the block to w[k][NR].
template <int Bits, int64_t NR>
void unpack(const Block& b, int64_t p, float* w) {
  const uint8_t* codes = b.codes + p * b.panel_stride;
  for_each_group(b, [&](const Group& g) {
    for (int c = 0; c < kPanel; c += kColumns) {
      const Float zero = zeros_f32<Bits>(b, b.offset, g, p, c);
      for (int64_t k = g.begin; k < g.end; k += 8) {
        const int64_t line = k * 2 * Bits + c * 4;
        if (c == 0)
          for (int64_t i = 0; i < 16 * Bits; i += kLine) prefetch(b.next_codes, p * b.panel_stride + line + i);
        unroll<4>([&](auto quarter) QMM_FLAT {
          const Int lanes = load_quarter<Bits>(codes + line, quarter);
          unroll<2>([&](auto j) QMM_FLAT {
            constexpr int bit = first_bit<Bits>(quarter) + j * 8;
            store_f32(w + (k + quarter * 2 + j) * NR + p * kPanel + c,
                      Decoder<Bits>(bit)(lanes, bias<Bits>(zero, bit)));
          });
        });
      }
    }
    prefetch_sides(b, g.index, p);
  });
}

template <int R, int C, int64_t NR>
QMM_NOINLINE void tile(Block b, Sides sides, const float* w, int64_t row) {
  constexpr int64_t columns = C * kColumns;
  RowsOfThree<R, float> x(static_cast<const float*>(b.lhs) + row * b.lhs_stride, b.lhs_stride);
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    Float t[R * C];
    unroll<R * C>([&](auto i) QMM_FLAT { t[i] = begin_f32(b, g, row * columns + i * kColumns); });
    for (int64_t k = g.begin; k < g.end; k += 4, x.advance(4))
      unroll<4>([&](auto j) QMM_FLAT {
        Float wk[C];
        unroll<C>([&](auto c) QMM_FLAT { wk[c] = load_f32(w + (k + j) * NR + c * kColumns); });
        unroll<R>([&](auto i) QMM_FLAT {
          const Float xv = broadcast_f32(x[i] + j);
          unroll<C>([&](auto c) QMM_FLAT { add_product(t[i * C + c], xv, wk[c]); });
        });
      });
    unroll<R * C>([&](auto i) QMM_FLAT {
      end_f32(b, b.offset, g, sides, row + i / C, g.index * columns + i % C * kColumns, row * columns + i * kColumns,
              t[i]);
    });
  });
}

template <int Bits, Tile T>
void gemm_f32(const Block& b) {
  static_assert(sides_size(T) + T.block_k * T.nr * 4 <= kScratch);
  auto* w = reinterpret_cast<float*>(static_cast<uint8_t*>(b.scratch) + sides_size(T));
  const Sides sides = widen_sides(b, Lhs::F32);
  for (int64_t p = 0; p < b.panels; ++p) unpack<Bits, T.nr>(b, p, w);
  for_each_tile<T.nr / kPanel>(b.panels, [&]<int P>(int64_t) {
    for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) { tile<R, P * kVectors, T.nr>(b, sides, w, row); });
  });
}

}  // namespace
}  // namespace qmm::isa
