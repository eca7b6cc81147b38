// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, both operands widened to int16 and multiplied by
// vpmaddwd, which is exact on the full range (vpmaddubsw would saturate).
//
// Tile of 2 rows x 16 columns; a step is 4 k. The panel is widened once a block for all rows.
//   d[2][4]  int32 sums, two lanes a column: k, k+1 and k+2, k+3     b  4 columns x 4 k of codes
//   a        4 k of a row as int16, four times
// A step takes 8 vpmaddwd + 8 vpaddd and 2 vpmovsxbw for 128 MAC. Two multiply ports bound it at 32 MAC/cycle (Zen,
// which has four vector pipes), three vector ports for all 18 at 21 (Intel).
#include "avx2.h"

namespace qmm::avx2 {
namespace {

void unpack(const Block& b, int16_t* to) {
  for (int64_t i = 0; i < b.k * kPanel; i += 16)
    store(to + i, _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b.codes + i))));
}

// The block comes by value, so that stores to acc can not be taken for changes of it.
template <Offset O, int R>
void tile(Block b, Sides<int32_t> sides, const int16_t* w, int64_t row) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    __m256i d[R][4] = {};
    for (int64_t k = g.begin; k < g.end; k += 4)
      for (int i = 0; i < R; ++i) {
        const __m256i a = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(broadcast4(lhs + i * b.lhs_stride + k)));
        for (int v = 0; v < 4; ++v)
          d[i][v] = _mm256_add_epi32(d[i][v], _mm256_madd_epi16(load(w + k * kPanel + v * 16), a));
      }
    for (int i = 0; i < R; ++i) {
      // Adds the two lanes of a column; vphaddd leaves columns 0 1 4 5 2 3 6 7.
      __m256i sums[2] = {_mm256_permute4x64_epi64(_mm256_hadd_epi32(d[i][0], d[i][1]), 0xd8),
                         _mm256_permute4x64_epi64(_mm256_hadd_epi32(d[i][2], d[i][3]), 0xd8)};
      end_row_s8<8, O>(b, g, sides, row + i, g.index * kPanel, (row + i) * kPanel, sums);
    }
  });
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_f32_s8_s8_2x16x8_avx2(const Block& b) {
  using namespace avx2;
  auto* w = reinterpret_cast<int16_t*>(static_cast<uint8_t*>(b.scratch) + kSidesBytes);
  const auto sides = widen_sides<8, int32_t>(b);
  unpack(b, w);
  for_offset(b.offset,
             [&]<Offset O>() { for_each_tile<2>(b.rows, [&]<int R>(int64_t row) { tile<O, R>(b, sides, w, row); }); });
}
