// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, by vpmaddubsw with u4 as the unsigned operand.
// |15 * 127 * 2| = 3810, so eight products add exactly in int16 before one vpmaddwd by ones widens them to int32.
//
// Tile of R rows x one panel, which is 2 vectors of AVX2 or one of AVX-512; a step is 4 k. The first tile of a block
// unpacks the panel, nibbles to bytes, for the others. AVX2 has d in memory.
//   x[R][kVectors]  int16 sums of up to 8 steps       b[kVectors]  16 columns x 4 k of codes
//   d[R][kVectors]  int32 sums of the group           a            4 k of a row, in every lane
// AVX2, R = 4: a step takes 8 vpmaddubsw + 8 vpaddw for 256 MAC, of eight steps the first without vpaddw, which then
// take 8 vpmaddwd + 8 vpaddd. Two multiply ports bound it at 2 * 32 * 8/9 = 57 MAC/cycle (Zen, which has four vector
// pipes), three vector ports for all at 45 (Intel). A group's end adds 3 a sum, and at group 32 saves the vpaddd: 39.
// AVX-512, R = 8, 20 registers of 32: two ports for all, 64 MAC in 17/8 of an instruction, 60 MAC/cycle; in group 32
// 19/8, 54. bench/model/results.md has what the code leaves of it.
#pragma once

#include "sides.h"

namespace qmm::isa {
namespace {

// x = the sums of the first step, or += those of a later one.
template <bool First, int R>
QMM_INLINE void step(const LhsRows<R>& a, int k, const Int (&b)[kVectors], Int (&x)[R][kVectors]) {
  unroll<R>([&](auto i) QMM_FLAT {
    const Int av = broadcast4(a[i] + k);
    unroll<kVectors>([&](auto v) QMM_FLAT {
      const Int y = multiply_bytes(b[v], av);
      if constexpr (First)
        x[i][v] = y;
      else
        add16(x[i][v], y);
    });
  });
}

template <int R>
QMM_INLINE void clear(Int (&x)[R][kVectors]) {
  unroll<R * kVectors>([&](auto i) QMM_FLAT { x[i / kVectors][i % kVectors] = zero(); });
}

QMM_INLINE void load_line(const uint8_t* from, Int (&b)[kVectors]) {
  unroll<kVectors>([&](auto v) QMM_FLAT { b[v] = load(from + v * kBytes); });
}

// Two steps. The first tile unpacks a line of 8 k to two lines of 4 k in w, and the others find it there.
template <bool Unpack, bool First, int R>
QMM_INLINE void steps(const LhsRows<R>& a, int k, const uint8_t* codes, uint8_t* w, Int (&x)[R][kVectors]) {
  Int line[kVectors], b[kVectors];
  if constexpr (Unpack) load_line(codes, line);
  unroll<2>([&](auto half) QMM_FLAT {
    if constexpr (Unpack) {
      unroll<kVectors>([&](auto v) QMM_FLAT {
        b[v] = half == 0 ? low_nibbles(line[v]) : high_nibbles(line[v]);
        store(w + half * kLine + v * kBytes, b[v]);
      });
    } else {
      load_line(w + half * kLine, b);
    }
    step<First && half == 0>(a, k + half * 4, b, x);
  });
}

// Four lines: 32 k, as many as int16 holds. x = their sums. `a` goes on.
template <bool Unpack, int R>
QMM_INLINE void lines(LhsRows<R>& a, const uint8_t* codes, const uint8_t* next, uint8_t* w, Int (&x)[R][kVectors]) {
  unroll<4>([&](auto s) QMM_FLAT {
    if constexpr (Unpack) prefetch(next, s * kLine);
    steps<Unpack, s == 0>(a, s * 8, codes + s * kLine, w + s * 2 * kLine, x);
  });
  a.advance(32);
}

// x += the sums of so many k, of fewer lines.
template <bool Unpack, int R>
QMM_INLINE void rest(LhsRows<R>& a, const uint8_t* codes, uint8_t* w, int64_t count, Int (&x)[R][kVectors]) {
  for (int64_t k = 0; k < count; k += 8, a.advance(8)) steps<Unpack, false>(a, 0, codes + k * 8, w + k * kPanel, x);
}

// Groups of up to 32 k: nothing but acc leaves the registers.
template <Offset O, int R, bool Unpack>
QMM_NOINLINE void tile_of_chains(Block b, Sides sides, uint8_t* w, int64_t row) {
  const Int ones = set1_s16(1);
  LhsRows<R> a(static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride, b.lhs_stride);
  const auto* sum = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride;
  const float* scale = b.lhs_scales + row * b.lhs_group_stride;
  float* acc = b.acc + row * kPanel;
  for (int64_t left = b.k; left > 0; left -= b.group) {
    Int x[R][kVectors];
    if (b.group == 32 && left >= 32) {
      lines<Unpack>(a, b.codes, b.next_codes, w, x);
    } else {
      clear(x);
      rest<Unpack>(a, b.codes, w, b.group < left ? b.group : left, x);
    }
    unroll<R>([&](auto i) QMM_FLAT {
      Int d[kVectors];
      unroll<kVectors>([&](auto v) QMM_FLAT { d[v] = multiply_s16(x[i][v], ones); });
      const int64_t at = i * b.lhs_group_stride;
      add_row_s8<4, O>(sides, 0, broadcast4(sum + at), broadcast_f32(scale + at), acc + i * kPanel, d);
    });
    if constexpr (Unpack) prefetch_sides(b, 0, 0);
    ++sum, ++scale;
    b.codes += b.group * 8, b.next_codes += b.group * 8, w += b.group * kPanel;
    sides.scales += kPanel, sides.zeros += kPanel, sides.mins += kPanel;
    b.next_scales += scales_size(b.scale), b.next_offsets += offsets_size(b.scale, b.offset);
  }
}

template <Offset O, int R, bool Unpack>
QMM_NOINLINE void tile(Block b, Sides sides, uint8_t* w, int64_t row) {
  LhsRows<R> a(static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride, b.lhs_stride);
  const Int ones = set1_s16(1);
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    Int x[R][kVectors], d[R][kVectors];
    clear(d);
    const auto widen = [&]() QMM_FLAT {
      unroll<R>([&](auto i) QMM_FLAT {
        for (int v = 0; v < kVectors; ++v) d[i][v] = add(d[i][v], multiply_s16(x[i][v], ones));
      });
    };
    int64_t k = g.begin;
    for (; k + 32 <= g.end; k += 32) {
      lines<Unpack>(a, b.codes + k * 8, b.next_codes + k * 8, w + k * kPanel, x);
      widen();
    }
    if (k < g.end) {
      clear(x);
      rest<Unpack>(a, b.codes + k * 8, w + k * kPanel, g.end - k, x);
      widen();
    }
    if (!carry_rows<1>(b, g, row, 0, d)) {
      EndOfRows ends(b, g.index, row, 0);
      unroll<R>([&](auto i) QMM_FLAT { ends.add<4, O>(sides, g.index * kPanel, d[i]); });
    }
    if constexpr (Unpack) prefetch_sides(b, g.index, 0);
  });
}

template <Tile T>
void gemm_u4(const Block& b) {
  constexpr int64_t kSides = sides_size(T);
  static_assert(T.nr == kPanel && kSides + T.block_k * T.nr <= kScratch);
  auto* w = static_cast<uint8_t*>(b.scratch) + kSides;
  const Sides sides = widen_sides(b, Lhs::S8);
  const bool chains = b.group <= 32;
  const auto run = [&]<Offset O, int R, bool Unpack>(int64_t row) {
    chains ? tile_of_chains<O, R, Unpack>(b, sides, w, row) : tile<O, R, Unpack>(b, sides, w, row);
  };
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) {
      row == 0 ? run.template operator()<O, R, true>(row) : run.template operator()<O, R, false>(row);
    });
  });
}

}  // namespace
}  // namespace qmm::isa
