// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, by vpmaddubsw with u4 as the unsigned operand.
// |15 * 127 * 2| = 3810, so eight products add exactly in int16 before one vpmaddwd by ones widens them to int32.
//
// Tile of 4 rows x 16 columns; a step is 4 k. The first tile of a block unpacks the panel, nibbles to
// bytes, for the others.
//   x[4][2]  int16 sums of up to 8 steps       b0, b1  16 columns x 4 k of codes
//   d[4][2]  int32 sums of the group (memory)  a       4 k of a row, in every lane
// A step takes 8 vpmaddubsw + 8 vpaddw for 256 MAC, and 8 vpmaddwd + 8 vpaddd come every eight steps. Two multiply
// ports bound it at 2 * 32 * 8/9 = 57 MAC/cycle (Zen, which has four vector pipes), three vector ports for all at 43
// (Intel). A group's end adds 5 a sum: at group 32 three ports bound it at 38. Measured in L1 on Sapphire Rapids: 41
// per channel, 38 at group 128, 33 at group 32.
#include "avx2.h"

namespace qmm::avx2 {
namespace {

constexpr Tile kTile = qmm_f32_s8_u4_4x16x8_avx2_tile;
constexpr int64_t kSides = sides_size(kTile);
static_assert(kSides + kTile.block_k * kTile.nr <= kScratch);

// x = the sums of the first step, or += those of a later one.
template <bool First, int R>
QMM_INLINE void step(const int8_t* a, int64_t stride, __m256i b0, __m256i b1, __m256i (&x)[R][2]) {
  unroll<R>([&](auto i) QMM_FLAT {
    const __m256i av = broadcast4(a + i * stride);
    const __m256i y0 = _mm256_maddubs_epi16(b0, av), y1 = _mm256_maddubs_epi16(b1, av);
    if constexpr (First)
      x[i][0] = y0, x[i][1] = y1;
    else
      add16(x[i][0], y0), add16(x[i][1], y1);
  });
}

// Two steps. The first tile unpacks a line of 8 k to two lines of 4 k in w, and the others find it there.
template <bool Unpack, bool First, int R>
QMM_INLINE void steps(const int8_t* a, int64_t stride, const uint8_t* codes, uint8_t* w, __m256i (&x)[R][2]) {
  if constexpr (Unpack) {
    const __m256i mask = _mm256_set1_epi8(15), line0 = load(codes), line1 = load(codes + 32);
    const auto half = [&](uint8_t* to, const int8_t* a4, auto first, __m256i b0, __m256i b1) QMM_FLAT {
      store(to, b0), store(to + 32, b1);
      step<first>(a4, stride, b0, b1, x);
    };
    half(w, a, std::bool_constant<First>(), _mm256_and_si256(line0, mask), _mm256_and_si256(line1, mask));
    half(w + kLine, a + 4, std::false_type(), _mm256_and_si256(_mm256_srli_epi16(line0, 4), mask),
         _mm256_and_si256(_mm256_srli_epi16(line1, 4), mask));
  } else {
    step<First>(a, stride, load(w), load(w + 32), x);
    step<false>(a + 4, stride, load(w + kLine), load(w + kLine + 32), x);
  }
}

// Four lines: 32 k, as many as int16 holds. x = their sums.
template <bool Unpack, int R>
QMM_INLINE void lines(const int8_t* a, int64_t stride, const uint8_t* codes, const uint8_t* next, uint8_t* w,
                      __m256i (&x)[R][2]) {
  unroll<4>([&](auto s) QMM_FLAT {
    if constexpr (Unpack) prefetch(next, s * kLine);
    steps<Unpack, s == 0>(a + s * 8, stride, codes + s * kLine, w + s * 2 * kLine, x);
  });
}

// Groups of up to 32 k: nothing but acc leaves the registers.
template <Offset O, int R, bool Unpack>
QMM_NOINLINE void tile_of_chains(Block b, Sides sides, uint8_t* w, int64_t row) {
  const __m256i ones = _mm256_set1_epi16(1);
  const auto* a = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const auto* sum = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride;
  const float* scale = b.lhs_scales + row * b.lhs_group_stride;
  float* acc = b.acc + row * kPanel;
  for (int64_t left = b.k; left > 0; left -= b.group) {
    __m256i x[R][2];
    if (b.group == 32 && left >= 32) {
      lines<Unpack>(a, b.lhs_stride, b.codes, b.next_codes, w, x);
    } else {
      unroll<R>([&](auto i) QMM_FLAT { x[i][0] = x[i][1] = _mm256_setzero_si256(); });
      for (int64_t k = 0; k < b.group && k < left; k += 8)
        steps<Unpack, false>(a + k, b.lhs_stride, b.codes + k * 8, w + k * kPanel, x);
    }
    unroll<R>([&](auto i) QMM_FLAT {
      const __m256i d[2] = {_mm256_madd_epi16(x[i][0], ones), _mm256_madd_epi16(x[i][1], ones)};
      const int64_t at = i * b.lhs_group_stride;
      add_row_s8<4, O>(sides, 0, sum[at], scale[at], acc + i * kPanel, d);
    });
    if constexpr (Unpack) prefetch_sides(b, 0, 0);
    a += b.group, ++sum, ++scale;
    b.codes += b.group * 8, b.next_codes += b.group * 8, w += b.group * kPanel;
    sides.scales += kPanel, sides.zeros += kPanel, sides.mins += kPanel;
    b.next_scales += scales_size(b), b.next_offsets += offsets_size(b);
  }
}

template <Offset O, int R, bool Unpack>
QMM_NOINLINE void tile(Block b, Sides sides, uint8_t* w, int64_t row) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const __m256i ones = _mm256_set1_epi16(1);
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    __m256i x[R][2], d[R][2] = {};
    const auto widen = [&]() QMM_FLAT {
      unroll<R>([&](auto i) QMM_FLAT {
        for (int v = 0; v < 2; ++v) d[i][v] = _mm256_add_epi32(d[i][v], _mm256_madd_epi16(x[i][v], ones));
      });
    };
    int64_t k = g.begin;
    for (; k + 32 <= g.end; k += 32) {
      lines<Unpack>(lhs + k, b.lhs_stride, b.codes + k * 8, b.next_codes + k * 8, w + k * kPanel, x);
      widen();
    }
    if (k < g.end) {
      unroll<R>([&](auto i) QMM_FLAT { x[i][0] = x[i][1] = _mm256_setzero_si256(); });
      for (; k < g.end; k += 8) steps<Unpack, false>(lhs + k, b.lhs_stride, b.codes + k * 8, w + k * kPanel, x);
      widen();
    }
    unroll<R>([&](auto i)
                  QMM_FLAT { end_row_s8<4, O>(b, g, sides, row + i, g.index * kPanel, (row + i) * kPanel, d[i]); });
    if constexpr (Unpack) prefetch_sides(b, g.index, 0);
  });
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_f32_s8_u4_4x16x8_avx2(const Block& b) {
  using namespace avx2;
  auto* w = static_cast<uint8_t*>(b.scratch) + kSides;
  const Sides sides = widen_sides(b, Lhs::S8);
  const bool chains = b.group <= 32;
  const auto run = [&]<Offset O, int R, bool Unpack>(int64_t row) {
    chains ? tile_of_chains<O, R, Unpack>(b, sides, w, row) : tile<O, R, Unpack>(b, sides, w, row);
  };
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<4>(b.rows, [&]<int R>(int64_t row) {
      row == 0 ? run.template operator()<O, R, true>(row) : run.template operator()<O, R, false>(row);
    });
  });
}
