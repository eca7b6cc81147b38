// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, both operands widened to int16 and multiplied by
// vpmaddwd, which is exact on the full range (vpmaddubsw would saturate).
//
// Tile of 4 rows x 16 columns; a step is 2 k, either the even or the odd two of four neighbours, so that bytes are
// widened by shifts and a column stays in one lane. The first tile of a block widens the panels for the others, and the
// rows of a tile are widened once for two panels.
//   d[4][2]  int32 sums     b0, b1  16 columns x 2 k of codes     a  2 k of a row, in every lane
// A step takes 8 vpmaddwd + 8 vpaddd for 128 MAC. Two multiply ports bound it at 32 MAC/cycle (Zen, which has four
// vector pipes), three vector ports for both at 24 (Intel).
#include "avx2.h"

namespace qmm::avx2 {
namespace {

constexpr Tile kTile = qmm_f32_s8_s8_4x32x8_avx2_tile;
constexpr int64_t kSides = sides_size(kTile);
constexpr int64_t kRow = kTile.block_k, kOdd = kRow / 2;  // a row of a tile in int16: even k, then odd k
static_assert(kSides + (kTile.block_k * kTile.nr + kTile.mr * kRow) * 2 <= kScratch);

// int16 of four k of a panel: even k of columns 0..7 and 8..15, odd k of the same.
constexpr int64_t kFourK = 4 * kPanel;

void widen_row(const int8_t* row, int64_t k, int16_t* to) {
  int64_t i = 0;
  for (; i + 32 <= k; i += 32) {
    const __m256i bytes = load(row + i);
    store(to + i / 2, even(bytes));
    store(to + kOdd + i / 2, odd(bytes));
  }
  for (; i < k; i += 8) {
    const __m256i bytes = _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + i)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i / 2), _mm256_castsi256_si128(even(bytes)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + kOdd + i / 2), _mm256_castsi256_si128(odd(bytes)));
  }
}

template <int R>
QMM_INLINE void step(const int16_t* a, __m256i b0, __m256i b1, __m256i (&d)[R][2]) {
  unroll<R>([&](auto i) QMM_FLAT {
    const __m256i av = broadcast4(a + i * kRow);
    add32(d[i][0], _mm256_madd_epi16(b0, av));
    add32(d[i][1], _mm256_madd_epi16(b1, av));
  });
}

// Two steps of four k. The first tile widens a line of codes to w, and the others find it there.
template <bool Unpack, int R>
QMM_INLINE void steps(const int16_t* a, const uint8_t* codes, int16_t* w, __m256i (&d)[R][2]) {
  if constexpr (Unpack) {
    const __m256i line0 = load(codes), line1 = load(codes + 32);
    const auto half = [&](const int16_t* from, int16_t* to, __m256i b0, __m256i b1) QMM_FLAT {
      store(to, b0), store(to + 16, b1);
      step<R>(from, b0, b1, d);
    };
    half(a, w, even(line0), even(line1));
    half(a + kOdd, w + kFourK / 2, odd(line0), odd(line1));
  } else {
    step<R>(a, load(w), load(w + 16), d);
    step<R>(a + kOdd, load(w + kFourK / 2), load(w + kFourK / 2 + 16), d);
  }
}

template <Offset O, int R, bool Unpack>
QMM_NOINLINE void tile(Block b, Sides sides, const int16_t* a, int16_t* w, int64_t row, int64_t panel) {
  const int64_t at = panel * b.panel_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    __m256i d[R][2] = {};
    const uint8_t* codes = b.codes + at + g.begin * kPanel;
    const int16_t* rows = a + g.begin / 2;
    int16_t* wide = w + g.begin * kPanel;
    for (int64_t left = g.end - g.begin; left > 0; left -= 8) {
      unroll<2>([&](auto s) QMM_FLAT {
        if constexpr (Unpack) prefetch(b.next_codes, at + (g.end - left) * kPanel + s * kLine);
        steps<Unpack>(rows + s * 2, codes + s * kLine, wide + s * kFourK, d);
      });
      codes += 2 * kLine, rows += 4, wide += 2 * kFourK;
    }
    unroll<R>([&](auto i) QMM_FLAT {
      end_row_s8<8, O>(b, g, sides, row + i, (g.index * b.panels + panel) * kPanel,
                       ((row + i) * b.panels + panel) * kPanel, d[i]);
    });
    if constexpr (Unpack) prefetch_sides(b, g.index, panel);
  });
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_f32_s8_s8_4x32x8_avx2(const Block& b) {
  using namespace avx2;
  auto* w = reinterpret_cast<int16_t*>(static_cast<uint8_t*>(b.scratch) + kSides);
  int16_t* a = w + b.panels * b.k * kPanel;
  const Sides sides = widen_sides(b, Lhs::S8);
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<4>(b.rows, [&]<int R>(int64_t row) {
      for (int64_t i = 0; i < R; ++i)
        widen_row(static_cast<const int8_t*>(b.lhs) + (row + i) * b.lhs_stride, b.k, a + i * kRow);
      for (int64_t p = 0; p < b.panels; ++p) {
        int16_t* wp = w + p * b.k * kPanel;
        row == 0 ? tile<O, R, true>(b, sides, a, wp, row, p) : tile<O, R, false>(b, sides, a, wp, row, p);
      }
    });
  });
}
