// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, by vpmaddubsw with u4 as the unsigned operand.
// |15 * 127 * 2| = 3810, so eight products add exactly in int16 before one vpmaddwd by ones widens them to int32.
//
// Tile of 4 rows x 16 columns; a step is 4 k. The panel is unpacked once a block, nibbles to bytes, for all rows.
//   x[4][2]  int16 sums of up to 8 steps       b0, b1  16 columns x 4 k of codes
//   d[4][2]  int32 sums of the group (memory)  a       4 k of a row, in every lane
// A step takes 8 vpmaddubsw + 8 vpaddw for 256 MAC, and 8 vpmaddwd + 8 vpaddd come every eight steps. Two multiply
// ports bound it at 2 * 32 * 8/9 = 57 MAC/cycle (Zen, which has four vector pipes), three vector ports for all at 43
// (Intel); the group's end comes on top.
#include "avx2.h"

namespace qmm::avx2 {
namespace {

// A line of 8 k becomes two lines of 4 k.
void unpack(const Block& b, uint8_t* to) {
  const __m256i mask = _mm256_set1_epi8(15);
  for (int64_t i = 0; i < b.k / 8; ++i)
    for (int64_t half = 0; half < kLine; half += 32) {
      const __m256i line = load(b.codes + i * kLine + half);
      store(to + 2 * i * kLine + half, _mm256_and_si256(line, mask));
      store(to + (2 * i + 1) * kLine + half, _mm256_and_si256(_mm256_srli_epi16(line, 4), mask));
    }
}

// Adds `steps` <= 8 steps to d.
template <int R>
QMM_INLINE void chain(const int8_t* a, int64_t stride, const uint8_t* w, int64_t steps, __m256i (&d)[R][2]) {
  __m256i x[R][2] = {};
  for (int64_t s = 0; s < steps; ++s) {
    __m256i b0 = load(w + s * kLine), b1 = load(w + s * kLine + 32);
    pin(b0), pin(b1);
    for (int i = 0; i < R; ++i) {
      const __m256i av = broadcast4(a + i * stride + s * 4);
      x[i][0] = _mm256_add_epi16(x[i][0], _mm256_maddubs_epi16(b0, av));
      x[i][1] = _mm256_add_epi16(x[i][1], _mm256_maddubs_epi16(b1, av));
      pin(x[i][0]), pin(x[i][1]);
    }
  }
  const __m256i ones = _mm256_set1_epi16(1);
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < 2; ++v) d[i][v] = _mm256_add_epi32(d[i][v], _mm256_madd_epi16(x[i][v], ones));
}

// The block comes by value, so that stores to acc can not be taken for changes of it.
template <Offset O, int R>
void tile(Block b, Sides<int32_t> sides, const uint8_t* w, int64_t row) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    __m256i d[R][2] = {};
    int64_t k = g.begin;
    for (; k + 32 <= g.end; k += 32) chain<R>(lhs + k, b.lhs_stride, w + k * kPanel, 8, d);
    if (k < g.end) chain<R>(lhs + k, b.lhs_stride, w + k * kPanel, (g.end - k) / 4, d);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) end_row_s8<4, O>(b, g, sides, row + i, g.index * kPanel, (row + i) * kPanel, d[i]);
  });
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_f32_s8_u4_4x16x8_avx2(const Block& b) {
  using namespace avx2;
  auto* w = static_cast<uint8_t*>(b.scratch) + kSidesBytes;
  const auto sides = widen_sides<4, int32_t>(b);
  unpack(b, w);
  for_offset(b.offset,
             [&]<Offset O>() { for_each_tile<4>(b.rows, [&]<int R>(int64_t row) { tile<O, R>(b, sides, w, row); }); });
}
