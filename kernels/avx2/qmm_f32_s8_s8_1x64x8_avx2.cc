// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMV: I = sum of a * code over a group, both operands widened to int16 in registers and
// multiplied by vpmaddwd, exact on the full range; four panels side by side for the sake of memory bandwidth.
//
// Tile of 1 row x 4 panels; a step is 4 k, 32 bytes for 8 columns. Even and odd k are widened apart, by shifts, so that
// a column stays in one lane.
//   d[8]     int32 sums     even, odd  k, k+2 and k+1, k+3 of the codes     a0, a1  the same of the row, in every lane
// 32 bytes take 3 shifts, 2 vpmaddwd, 2 vpaddd: about 13 bytes/cycle on three vector ports.
#include "avx2.h"

namespace qmm::avx2 {
namespace {

// The block comes by value, so that stores to acc can not be taken for changes of it.
template <Offset O, int P>
void panels(Block b, Sides<int32_t> sides) {
  for (int64_t row = 0; row < b.rows; ++row) {
    const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
    for_each_group(b, [&](const Group& g) QMM_FLAT {
      __m256i d[2 * P] = {};
      for (int64_t k = g.begin; k < g.end; k += 4) {
        const __m256i a = broadcast4(lhs + k), a0 = even(a), a1 = odd(a);
        for (int p = 0; p < P; ++p)
          for (int v = 0; v < 2; ++v) {
            const __m256i w = load(b.codes + p * b.panel_stride + k * kPanel + v * 32);
            add32(d[2 * p + v], _mm256_madd_epi16(even(w), a0));
            add32(d[2 * p + v], _mm256_madd_epi16(odd(w), a1));
          }
      }
      end_row_s8<8, O>(b, g, sides, row, g.index * P * kPanel, row * P * kPanel, d);
    });
  }
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_f32_s8_s8_1x64x8_avx2(const Block& b) {
  using namespace avx2;
  const auto sides = widen_sides<8, int32_t>(b);
  for_offset(b.offset,
             [&]<Offset O>() { for_each_tile<4>(b.panels, [&]<int P>(int64_t) { panels<O, P>(b, sides); }); });
}
