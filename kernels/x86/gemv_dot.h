// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, few rows, on vpdpbusd: I = sum of a * code over a group, see dot.h. Codes become its operand in registers.
// Panels are read side by side, for the sake of memory bandwidth: P of them in one step, a group of P in turn.
//
// Tile of R rows x P panels, up to half of the registers; a step is 8 k: a line of 4-bit codes, two of 8-bit ones.
//   d[R][P * kVectors]  int32 sums     w  16 columns x 4 k     a  4 k of a row, in every lane
// 64 bytes of 4-bit codes take 2 AND, a shift and, a row, 2 dots; of 8-bit codes 1 XOR (vpdpbssd: none) and a dot. One
// row reads 25 and 64 bytes/cycle on two ports of AVX-512, or half of that with AVX-VNNI: above what memory has.
#pragma once

#include "dot.h"

namespace qmm::isa {
namespace {

// d += the products of R rows and P panels over so many steps; prefetches as many, `ahead` bytes further on.
template <Codes T, int Steps, int R, int P>
QMM_INLINE void add_steps(LhsRows<R>& a, PanelCodes<kBits<T>, P>& codes, int64_t ahead, Int (&d)[R][P * kVectors]) {
  unroll<Steps * 2>([&](auto s) QMM_FLAT {
    codes.template prefetch_some<Steps * 8, s, Steps * 2>(ahead);
    Int av[R];
    unroll<R>([&](auto i) QMM_FLAT { av[i] = broadcast4(a[i] + s * 4); });
    unroll<P * kVectors>([&](auto v) QMM_FLAT {
      const uint8_t* from = codes.at[v / kVectors] + v % kVectors * kBytes;
      const Int w = T != Codes::U4 ? operand<T>(from + s * kLine)
                    : s % 2 == 0   ? low_nibbles(load(from + s / 2 * kLine))
                                   : high_nibbles(load_now(from + s / 2 * kLine));
      unroll<R>([&](auto i) QMM_FLAT { multiply<T>(d[i][v], w, av[i]); });
    });
  });
  a.advance(Steps * 8);
  codes.advance(Steps * 8);
}

// R rows, and the panels from `first` on, P at a time, a group of each in turn.
template <Codes T, Offset O, int R, int P>
QMM_NOINLINE void panels(const Block& b, int64_t row, int64_t first) {
  constexpr int64_t kAhead = 1024 / kBits<T>;  // k to prefetch ahead
  constexpr int V = P * kVectors;
  const int64_t width = b.panels * kPanel;
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const auto* lhs_sums = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride;
  auto* carry_of_rows = static_cast<int32_t*>(b.carry) + row * width;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for_panels<P>(b, first, [&](int64_t panel) QMM_FLAT {
      const auto lhs_sum = [&](int i) QMM_FLAT { return broadcast4(lhs_sums + i * b.lhs_group_stride + g.index); };
      int32_t* carry = carry_of_rows + panel * kPanel;
      Int d[R][V];
      unroll<R>([&](auto i) QMM_FLAT {
        const Int start = start_of<T>(O, lhs_sum(i));
        unroll<V>([&](auto v) QMM_FLAT { d[i][v] = g.resume ? load(carry + i * width + v * kColumns) : start; });
      });
      LhsRows<R> a(lhs + g.begin, b.lhs_stride);
      PanelCodes<kBits<T>, P> codes(b, panel, g.begin);
      int64_t k = opaque(g.begin);
      const auto add = [&]<int Steps>() QMM_FLAT {
        add_steps<T, Steps>(a, codes, distance_ahead<kBits<T>>(b, k, kAhead), d);
        k = opaque(k + Steps * 8);
      };
      while (k + 32 <= g.end) add.template operator()<4>();
      while (k < g.end) add.template operator()<1>();
      if (g.suspend) {
        unroll<R * V>([&](auto i) QMM_FLAT { store(carry + i / V * width + i % V * kColumns, d[i / V][i % V]); });
        return;
      }
      EndOfRows rows(b, g.index, row, panel);
      for_rows_with_sides<O, P, R>(b, g.index, panel, [&](auto i, const auto& sides) QMM_FLAT {
        rows.next([&](Int sum, Float scale, float* acc)
                      QMM_FLAT { add_row_dot<O>(sides, 0, row_terms(sum, scale), acc, d[i]); });
      });
    });
  });
}

template <Codes C, Tile T>
void gemv_dot(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() {
    for_few_rows<T, kRegisters / 2>(
        b, [&]<int R, int P>(int64_t row, int64_t first) { panels<C, O, R, P>(b, row, first); });
  });
}

}  // namespace
}  // namespace qmm::isa
