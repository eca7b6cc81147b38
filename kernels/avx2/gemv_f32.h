// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMV: t = sum of fma(x, code - zero, t) over a group, k ascending, the codes decoded in registers. Four
// panels are read in pairs, a group of each in turn.
//
// Tile of 1 row x 2 panels: a column's t is one chain of FMAs, and 4 chains of 8 columns, with those of the next pair
// that run ahead, fill the two FMA ports' latency.
//   t[4]     float sums     lanes[4]  two k of 8 columns     x  one k of the row, in every lane
// Eight weights take vpand, vpor, vsubps and an FMA, and a shift for every eighth: 4/3 cycles on three vector ports, 6
// MAC/cycle; with them come 2 loads, so that four ports and two loads a cycle (Zen 3) reach 8 MAC/cycle at most.
#pragma once

#include "decode_f32.h"

namespace qmm::avx2 {
namespace {

constexpr int64_t kAhead = 256;  // k to prefetch ahead

// A group of P panels from `first`.
template <int Bits, int P>
QMM_INLINE void group(const Block& b, const Group& g, const float* x, int64_t row, int64_t first) {
  auto* biases = static_cast<float*>(b.scratch);  // [places][2 * P][8]
  __m256 t[2 * P];
  unroll<2 * P>([&](auto i) QMM_FLAT {
    const __m256 zero = zeros_f32<Bits>(b, g, first + i / 2, i % 2 * 8);
    unroll<16 / kStep<Bits>>([&](auto place) QMM_FLAT {
      _mm256_store_ps(biases + (place * 2 * P + i) * 8, bias<Bits>(zero, place * kStep<Bits>));
    });
    t[i] = begin_f32(b, g, (row * b.panels + first) * kPanel + i * 8);
  });
  for (int64_t k = g.begin; k < g.end; k += 8) {
    const uint8_t* codes = b.codes + first * b.panel_stride + k * 2 * Bits;
    unroll<P>([&](auto p) QMM_FLAT { prefetch_ahead<Bits>(b, first + p, k, kAhead, Bits / 4); });
    unroll<4>([&](auto quarter) QMM_FLAT {
      __m256i lanes[2 * P];
      unroll<2 * P>([&](auto i) QMM_FLAT {
        lanes[i] = load_quarter<Bits>(codes + i / 2 * b.panel_stride + i % 2 * 32, quarter);
      });
      unroll<2>([&](auto j) QMM_FLAT {
        constexpr int bit = first_bit<Bits>(quarter) + j * 8;
        const Decoder<Bits> decode(bit);
        const __m256 xv = _mm256_broadcast_ss(x + k + quarter * 2 + j);
        unroll<2 * P>([&](auto i) QMM_FLAT {
          add_product(t[i], xv, decode(lanes[i], _mm256_load_ps(biases + (bit / kStep<Bits> * 2 * P + i) * 8)));
        });
      });
    });
  }
  unroll<P>([&](auto p) QMM_FLAT {
    const PackedSides sides = packed_sides(b, g, first + p);
    unroll<2>([&](auto v) QMM_FLAT {
      end_f32(b, g, sides, row, v * 8, (row * b.panels + first + p) * kPanel + v * 8, t[2 * p + v]);
    });
    prefetch_sides(b, g.index, first + p);
  });
}

// The panels from `first` on, P at a time.
template <int Bits, int P>
QMM_NOINLINE void panels(Block b, int64_t row, int64_t first) {
  const float* x = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = first; panel + P <= b.panels; panel += P) group<Bits, P>(b, g, x, row, panel);
  });
}

template <int Bits>
void gemv_f32(const Block& b) {
  for (int64_t row = 0; row < b.rows; ++row) {
    if (b.panels >= 2) panels<Bits, 2>(b, row, 0);
    if (b.panels % 2 == 1) panels<Bits, 1>(b, row, b.panels - 1);
  }
}

}  // namespace
}  // namespace qmm::avx2
