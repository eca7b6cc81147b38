// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMV: t = sum of fma(x, code - zero, t) over a group, k ascending, the codes decoded in registers.
//
// Tile of 1 row x 4 panels: a column's t is one chain of FMAs, and 8 chains of 8 columns fill the two FMA ports'
// latency.
//   t[8]     float sums     code - zero  8 columns of one k     x  one k of the row, in every lane
// Eight weights take two operations to extract, a conversion, a subtraction and an FMA: 5/3 cycles on three vector
// ports.
#pragma once

#include "decode_f32.h"

namespace qmm::avx2 {
namespace {

// The block comes by value, so that stores to acc can not be taken for changes of it.
template <int Bits, int P>
void panels(Block b, Sides<float> sides) {
  for (int64_t row = 0; row < b.rows; ++row) {
    const float* x = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
    for_each_group(b, [&](const Group& g) QMM_FLAT {
      __m256 t[2 * P];
      unroll<2 * P>([&](auto i) QMM_FLAT { t[i] = begin_f32(b, g, row * P * kPanel + i * 8); });
      const float* zeros = sides.zeros + g.index * P * kPanel;
      for (int64_t k = g.begin; k < g.end; k += 8) {
        const uint8_t* codes = b.codes + k * 2 * Bits;
        unroll<8>([&](auto j) QMM_FLAT {
          const __m256 xv = _mm256_broadcast_ss(x + k + j);
          unroll<2 * P>([&](auto i) QMM_FLAT {
            const __m256 code = decode<Bits>(codes + i / 2 * b.panel_stride + i % 2 * 32, j);
            fma(t[i], xv, _mm256_sub_ps(code, _mm256_loadu_ps(zeros + i * 8)));
          });
        });
      }
      unroll<2 * P>([&](auto i) QMM_FLAT {
        end_f32(b, g, sides, row, g.index * P * kPanel + i * 8, row * P * kPanel + i * 8, t[i]);
      });
    });
  }
}

template <int Bits>
void gemv_f32(const Block& b) {
  const auto sides = widen_sides<Bits, float>(b);
  for_each_tile<4>(b.panels, [&]<int P>(int64_t) { panels<Bits, P>(b, sides); });
}

}  // namespace
}  // namespace qmm::avx2
