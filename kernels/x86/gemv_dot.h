// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, few rows, on vpdpbusd: I = sum of a * code over a group, see dot.h. Codes become its operand in registers.
// Panels are read side by side, for the sake of memory bandwidth: P of them in one step, a group of P in turn.
//
// Tile of R rows x P panels; a step is 8 k: a line of 4-bit codes, two of 8-bit ones.
//   d[R][P][kVectors]  int32 sums     w  16 columns x 4 k     a  4 k of a row, in every lane
// 64 bytes of 4-bit codes take 2 AND, a shift and, a row, 2 dots; of 8-bit codes 1 XOR (vpdpbssd: none) and a dot. One
// row reads 25 and 64 bytes/cycle on two ports of AVX-512, or half of that with AVX-VNNI: above what memory has.
#pragma once

#include "dot.h"

namespace qmm::isa {
namespace {

// Panels [first, first + P) of a tile of rows.
template <Codes T, Offset O, int R, int P>
QMM_INLINE void group(const Block& b, const Group& g, int64_t row, int64_t first) {
  constexpr int64_t kSize = kPanel * kBits<T> / 8, kAhead = 1024 / kBits<T>;  // bytes of one k; k to prefetch ahead
  const auto* a = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const auto* lhs_sums = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride + g.index;
  const auto lhs_sum = [&](int i) QMM_FLAT { return broadcast4(lhs_sums + i * b.lhs_group_stride); };
  const auto place = [&](int i, int p) { return ((row + i) * b.panels + first + p) * kPanel; };
  auto* carry = static_cast<int32_t*>(b.carry);
  Int d[R][P][kVectors];
  unroll<R>([&](auto i) QMM_FLAT {
    const Int start = start_of<T>(O, lhs_sum(i));
    unroll<P * kVectors>([&](auto v) QMM_FLAT {
      Int& sum = d[i][v / kVectors][v % kVectors];
      sum = g.resume ? load(carry + place(i, v / kVectors) + v % kVectors * kColumns) : start;
    });
  });
  for (int64_t k = g.begin; k < g.end; k += 8) {
    const uint8_t* codes = b.codes + first * b.panel_stride + k * kSize;
    unroll<P>([&](auto p) QMM_FLAT { prefetch_ahead<kBits<T>>(b, first + p, k, kAhead, kBits<T> / 4); });
    unroll<2>([&](auto s) QMM_FLAT {
      Int av[R];
      unroll<R>([&](auto i) QMM_FLAT { av[i] = broadcast4(a + i * b.lhs_stride + k + s * 4); });
      unroll<P * kVectors>([&](auto v) QMM_FLAT {
        const uint8_t* from = codes + v / kVectors * b.panel_stride + v % kVectors * kBytes;
        const Int line = load(T == Codes::U4 ? from : from + s * kLine);
        const Int w = T != Codes::U4 ? operand<T>(line) : s == 0 ? low_nibbles(line) : high_nibbles(line);
        unroll<R>([&](auto i) QMM_FLAT { multiply<T>(d[i][v / kVectors][v % kVectors], w, av[i]); });
      });
    });
  }
  asm volatile("" : "+r"(lhs_sums));  // or else they are loaded before the loop, and spilled over it
  unroll<R>([&](auto i) QMM_FLAT {
    const float* scale = b.lhs_scales + (row + i) * b.lhs_group_stride + g.index;
    const RowTerms terms = row_terms(lhs_sum(i), broadcast_f32(scale));
    unroll<P>([&](auto p) QMM_FLAT {
      if (g.suspend)
        unroll<kVectors>([&](auto v) QMM_FLAT { store(carry + place(i, p) + v * kColumns, d[i][p][v]); });
      else
        add_row_dot<O>(packed_sides(b, g.index, first + p), 0, terms, b.acc + place(i, p), d[i][p]);
    });
  });
  unroll<P>([&](auto p) QMM_FLAT { prefetch_sides(b, g.index, first + p); });
}

// The panels from `first` on, P at a time.
template <Codes T, Offset O, int R, int P>
QMM_NOINLINE void panels(Block b, int64_t row, int64_t first) {
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = first; panel + P <= b.panels; panel += P) group<T, O, R, P>(b, g, row, panel);
  });
}

// MR rows and P panels at a time.
template <Codes T, int MR, int P>
void gemv_dot(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<MR>(b.rows, [&]<int R>(int64_t row) {
      if (b.panels >= P) panels<T, O, R, P>(b, row, 0);
      if (b.panels % P != 0) panels<T, O, R, 1>(b, row, b.panels / P * P);
    });
  });
}

}  // namespace
}  // namespace qmm::isa
