// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, both operands widened to int16 and multiplied by
// vpmaddwd, which is exact on the full range (vpmaddubsw would saturate).
//
// Tile of R rows x one panel, which is 2 vectors of AVX2 or one of AVX-512; a step is 2 k, either the even or the odd
// two of four neighbours, so that bytes are widened by shifts and a column stays in one lane. The first tile of a block
// widens the panels for the others, and the rows of a tile are widened once for two panels.
//   d[R][kVectors]  int32 sums     b[kVectors]  16 columns x 2 k of codes     a  2 k of a row, in every lane
// AVX2, R = 4: a step takes 8 vpmaddwd + 8 vpaddd for 128 MAC. Two multiply ports bound it at 32 MAC/cycle (Zen, which
// has four vector pipes), three vector ports for both at 24 (Intel). AVX-512, R = 12: two ports for both, 32 MAC/cycle.
#pragma once

#include "sides.h"

namespace qmm::isa {
namespace {

constexpr int64_t kRow = 256, kOdd = kRow / 2;  // a row of a tile in int16: even k, then odd k

// int16 of four k of a panel: even k of columns 0..7 and 8..15, odd k of the same.
constexpr int64_t kFourK = 4 * kPanel;

inline void widen_row(const int8_t* row, int64_t k, int16_t* to) {
  int64_t i = 0;
  for (; i + kBytes <= k; i += kBytes) {
    const Int bytes = load(row + i);
    store(to + i / 2, even(bytes));
    store(to + kOdd + i / 2, odd(bytes));
  }
  for (; i < k; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + i));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i / 2), _mm_srai_epi16(_mm_slli_epi16(bytes, 8), 8));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + kOdd + i / 2), _mm_srai_epi16(bytes, 8));
  }
}

template <int R>
QMM_INLINE void step(const int16_t* a, const Int (&b)[kVectors], Int (&d)[R][kVectors]) {
  unroll<R>([&](auto i) QMM_FLAT {
    const Int av = broadcast4(a + i * kRow);
    unroll<kVectors>([&](auto v) QMM_FLAT { add32(d[i][v], multiply_s16(b[v], av)); });
  });
}

// Two steps of four k. The first tile widens a line of codes to w, and the others find it there.
template <bool Unpack, int R>
QMM_INLINE void steps(const int16_t* a, const uint8_t* codes, int16_t* w, Int (&d)[R][kVectors]) {
  Int line[kVectors], b[kVectors];
  if constexpr (Unpack) unroll<kVectors>([&](auto v) QMM_FLAT { line[v] = load(codes + v * kBytes); });
  unroll<2>([&](auto half) QMM_FLAT {
    unroll<kVectors>([&](auto v) QMM_FLAT {
      int16_t* at = w + half * (kFourK / 2) + v * kBytes / 2;
      if constexpr (Unpack) {
        b[v] = half == 0 ? even(line[v]) : odd(line[v]);
        store(at, b[v]);
      } else {
        b[v] = load(at);
      }
    });
    step<R>(a + half * kOdd, b, d);
  });
}

template <Offset O, int R, bool Unpack>
QMM_NOINLINE void tile(Block b, Sides sides, const int16_t* a, int16_t* w, int64_t row, int64_t panel) {
  const uint8_t* codes = b.codes + panel * b.panel_stride;
  const uint8_t* next = b.next_codes + panel * b.panel_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    Int d[R][kVectors];
    unroll<R * kVectors>([&](auto i) QMM_FLAT { d[i / kVectors][i % kVectors] = zero(); });
    int64_t left = g.end - g.begin;
    const auto add_lines = [&]<int Lines>() QMM_FLAT {  // of four k each
      unroll<Lines>([&](auto s) QMM_FLAT {
        if constexpr (Unpack) prefetch(next, s * kLine);
        steps<Unpack>(a + s * 2, codes + s * kLine, w + s * kFourK, d);
      });
      if constexpr (Unpack) codes += Lines * kLine, next += Lines * kLine;
      a += Lines * 2, w += Lines * kFourK, left = opaque(left - Lines * 4);
    };
    // AVX2's four rows are few enough for what a loop takes to be felt.
    if constexpr (R <= 4) {
      while (left >= 32) add_lines.template operator()<8>();
    }
    while (left > 0) add_lines.template operator()<2>();
    if (!carry_rows<1>(b, g, row, panel, d)) {
      EndOfRows ends(b, g.index, row, panel);
      const int64_t side = (g.index * b.panels + panel) * kPanel;
      unroll<R>([&](auto i) QMM_FLAT { ends.add<8, O>(sides, side, d[i]); });
    }
    if constexpr (Unpack) prefetch_sides(b, g.index, panel);
  });
}

template <Tile T>
void gemm_s8(const Block& b) {
  constexpr int64_t kSides = sides_size(T);
  static_assert(T.block_k <= kRow && kSides + (T.block_k * T.nr + T.mr * kRow) * 2 <= kScratch);
  auto* w = reinterpret_cast<int16_t*>(static_cast<uint8_t*>(b.scratch) + kSides);
  int16_t* a = w + b.panels * b.k * kPanel;
  const Sides sides = widen_sides(b, Lhs::S8);
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) {
      for (int64_t i = 0; i < R; ++i)
        widen_row(static_cast<const int8_t*>(b.lhs) + (row + i) * b.lhs_stride, b.k, a + i * kRow);
      for (int64_t p = 0; p < b.panels; ++p) {
        int16_t* wp = w + p * b.k * kPanel;
        row == 0 ? tile<O, R, true>(b, sides, a, wp, row, p) : tile<O, R, false>(b, sides, a, wp, row, p);
      }
    });
  });
}

}  // namespace
}  // namespace qmm::isa
