// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMV: t = sum of fma(x, code - zero, t) over a group, k ascending, the codes decoded in registers.
//
// Tile of 1 row x 4 panels: a column's t is one chain of FMAs, and 8 chains of 8 columns fill the two FMA ports'
// latency.
//   t[4][2]  float sums     code - zero  8 columns of one k     x  one k of the row, in every lane
// Eight weights take a shift, a mask, a conversion, a subtraction and an FMA: 5/3 cycles on three vector ports.
#pragma once

#include "decode_f32.h"

namespace qmm::avx2 {

template <int Bits, int P>
void panels(const Block& b, const Sides<float>& sides) {
  for (int64_t row = 0; row < b.rows; ++row) {
    const float* x = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
    for_each_group(b, [&](const Group& g) {
      __m256 t[P][2];
      for (int i = 0; i < 2 * P; ++i) t[i / 2][i % 2] = begin_f32(b, g, row * P * kPanel + i * 8);
      for (int64_t k = g.begin; k < g.end; k += 8)
        for (int i = 0; i < 2 * P; ++i) {
          const __m256 zero = _mm256_loadu_ps(sides.zero + g.index * P * kPanel + i * 8);
          decode<Bits>(b.codes + i / 2 * b.panel_stride + k * 2 * Bits + i % 2 * 32, [&](int j, __m256 code) {
            t[i / 2][i % 2] =
                _mm256_fmadd_ps(_mm256_broadcast_ss(x + k + j), _mm256_sub_ps(code, zero), t[i / 2][i % 2]);
          });
        }
#pragma GCC unroll 16  // GCC leaves long loops rolled, and an indexed array in memory
      for (int c = 0; c < P * kPanel; c += 8)
        end_f32(b, g, sides, row, g.index * P * kPanel + c, row * P * kPanel + c, t[c / 16][c / 8 % 2]);
    });
  }
}

template <int Bits>
void gemv_f32(const Block& b) {
  const auto sides = widen_sides<Bits, float>(b);
  for_each_tile<4>(b.panels, [&]<int P>(int64_t) { panels<Bits, P>(b, sides); });
}

}  // namespace qmm::avx2
