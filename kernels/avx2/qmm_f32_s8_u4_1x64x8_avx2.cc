// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, GEMV: as the GEMM kernel, with the nibbles unpacked in registers, and four panels side by
// side, because one stream of reads leaves memory bandwidth unused and four do not.
//
// Tile of 1 row x 4 panels; a step is one line of 8 k, 32 bytes for 8 columns.
//   x[4][2]  int16 sums of up to 4 lines       a0, a1  k..k+3 and k+4..k+7 of the row, in every lane
//   d[8]     int32 sums of the group (memory)  line    codes, split by mask and shift
// 32 bytes take 2 vpmaddubsw, 2 vpaddw, 2 vpand, 1 vpsrlw: about 12 bytes/cycle on three vector ports, above what one
// core reads from memory.
#include "avx2.h"

namespace qmm::avx2 {
namespace {

// Adds `lines` <= 4 lines to d.
template <int P>
QMM_INLINE void chain(const int8_t* a, const uint8_t* w, int64_t stride, int64_t lines, __m256i (&d)[2 * P]) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i x[P][2] = {};
  for (int64_t s = 0; s < lines; ++s) {
    const __m256i a0 = broadcast4(a + s * 8), a1 = broadcast4(a + s * 8 + 4);
    for (int p = 0; p < P; ++p)
      for (int v = 0; v < 2; ++v) {
        const __m256i line = load(w + p * stride + s * kLine + v * 32);
        const __m256i lo = _mm256_and_si256(line, mask), hi = _mm256_and_si256(_mm256_srli_epi16(line, 4), mask);
        add16(x[p][v], _mm256_maddubs_epi16(lo, a0));
        add16(x[p][v], _mm256_maddubs_epi16(hi, a1));
      }
  }
  const __m256i ones = _mm256_set1_epi16(1);
  for (int p = 0; p < P; ++p)
    for (int v = 0; v < 2; ++v) d[2 * p + v] = _mm256_add_epi32(d[2 * p + v], _mm256_madd_epi16(x[p][v], ones));
}

// The block comes by value, so that stores to acc can not be taken for changes of it.
template <Offset O, int P>
void panels(Block b, Sides<int32_t> sides) {
  for (int64_t row = 0; row < b.rows; ++row) {
    const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
    for_each_group(b, [&](const Group& g) QMM_FLAT {
      __m256i d[2 * P] = {};
      int64_t k = g.begin;
      for (; k + 32 <= g.end; k += 32) chain<P>(lhs + k, b.codes + k * 8, b.panel_stride, 4, d);
      if (k < g.end) chain<P>(lhs + k, b.codes + k * 8, b.panel_stride, (g.end - k) / 8, d);
      end_row_s8<4, O>(b, g, sides, row, g.index * P * kPanel, row * P * kPanel, d);
    });
  }
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_f32_s8_u4_1x64x8_avx2(const Block& b) {
  using namespace avx2;
  const auto sides = widen_sides<4, int32_t>(b);
  for_offset(b.offset,
             [&]<Offset O>() { for_each_tile<4>(b.panels, [&]<int P>(int64_t) { panels<O, P>(b, sides); }); });
}
