// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, few rows: as the GEMM kernel, with the nibbles unpacked in registers and the scales widened
// where they are used. Panels are read side by side, P in one step or a group of P in turn, because one stream of reads
// leaves memory bandwidth unused and four do not.
//
// Tile of R rows x P panels, up to half of the registers; a step is one line of 8 k.
//   x[R][P * kVectors]  int16 sums of up to 4 lines          a  4 k of a row, in every lane
//   sums                int32 sums of a long group (memory)  w  16 columns x 4 k, from the line by mask and shift
// AVX2: 32 bytes take 2 vpand, 1 vpsrlw and, a row, 2 vpmaddubsw and 2 vpaddw; with the ends of chains one row reads 13
// bytes/cycle on three vector ports, above what one core reads from memory, and four rows multiply at 38 MAC/cycle.
// AVX-512: half as many instructions on two ports, 17 bytes/cycle and 50 MAC/cycle.
#pragma once

#include "sides.h"

namespace qmm::isa {
namespace {

constexpr int64_t kAhead = 256;  // k to prefetch ahead

// x = the products of R rows and P panels over so many lines, or += those; prefetches as many, `ahead` bytes further
// on.
template <bool First, int Lines, int R, int P>
QMM_INLINE void add_lines(LhsRows<R>& a, PanelCodes<4, P>& codes, int64_t ahead, Int (&x)[R][P * kVectors]) {
  unroll<2 * Lines>([&](auto s) QMM_FLAT {
    codes.template prefetch_some<Lines * 8, s, 2 * Lines>(ahead);
    const auto row = [&](int i) QMM_FLAT { return broadcast4(a[i] + s * 4); };
    const auto column = [&](int v) QMM_FLAT {
      const uint8_t* line = codes.at[v / kVectors] + s / 2 * kLine + v % kVectors * kBytes;
      return s % 2 == 0 ? low_nibbles(load(line)) : high_nibbles(load_now(line));
    };
    const auto multiply = [&](auto i, auto v, Int w, Int av) QMM_FLAT {
      const Int y = multiply_bytes(w, av);
      if constexpr (First && s == 0)
        x[i][v] = y;
      else
        add16(x[i][v], y);
    };
    // The fewer ones wait in registers for the others.
    constexpr int V = P * kVectors;
    if constexpr (R <= V) {
      Int av[R];
      unroll<R>([&](auto i) QMM_FLAT { av[i] = row(i); });
      unroll<V>([&](auto v) QMM_FLAT {
        const Int w = column(v);
        unroll<R>([&](auto i) QMM_FLAT { multiply(i, v, w, av[i]); });
      });
    } else {
      Int w[V];
      unroll<V>([&](auto v) QMM_FLAT { w[v] = column(v); });
      unroll<R>([&](auto i) QMM_FLAT {
        const Int av = row(i);
        unroll<V>([&](auto v) QMM_FLAT { multiply(i, v, w[v], av); });
      });
    }
  });
  a.advance(Lines * 8);
  codes.advance(Lines * 8);
}

// R rows, and the panels from `first` on, P at a time, a group of each in turn. The sums of groups of up to 32 k stay
// in registers.
template <Offset O, bool Short, int R, int P>
QMM_NOINLINE void panels(const Block& b, int64_t row, int64_t first) {
  constexpr int V = P * kVectors;
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  auto* sums = static_cast<int32_t*>(b.scratch);
  const Int ones = set1_s16(1);
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for_panels<P>(b, first, [&](int64_t panel) QMM_FLAT {
      LhsRows<R> a(lhs + g.begin, b.lhs_stride);
      PanelCodes<4, P> codes(b, panel, g.begin);
      int64_t k = opaque(g.begin);
      Int x[R][V];
      const auto add_to_x = [&]<bool First, int Lines>() QMM_FLAT {
        add_lines<First, Lines>(a, codes, distance_ahead<4>(b, k, kAhead), x);
        k = opaque(k + Lines * 8);
      };
      if constexpr (Short) {
        if (g.end - k == 32) {
          add_to_x.template operator()<true, 4>();
        } else {
          add_to_x.template operator()<true, 1>();
          while (k < g.end) add_to_x.template operator()<false, 1>();
        }
        EndOfRows rows(b, g.index, row, panel);
        for_rows_with_sides<O, P, R>(b, g.index, panel, [&](auto i, const auto& sides) QMM_FLAT {
          Int d[V];
          unroll<V>([&](auto v) QMM_FLAT { d[v] = multiply_s16(x[i][v], ones); });
          rows.add<4, O>(sides, 0, d);
        });
      } else {
        unroll<R * V>([&](auto i) QMM_FLAT { store(sums + i * kColumns, zero()); });
        const auto add_chain = [&]<int Lines>() QMM_FLAT {
          add_to_x.template operator()<true, Lines>();
          unroll<R * V>([&](auto i) QMM_FLAT {
            const Int sum = multiply_s16(x[i / V][i % V], ones);
            store(sums + i * kColumns, add(sum, load(sums + i * kColumns)));
          });
        };
        while (k + 32 <= g.end) add_chain.template operator()<4>();
        while (k < g.end) add_chain.template operator()<1>();
        Int d[R][V];
        unroll<R * V>([&](auto i) QMM_FLAT { d[i / V][i % V] = load(sums + i * kColumns); });
        if (carry_rows<P>(b, g, row, panel, d)) return;
        EndOfRows rows(b, g.index, row, panel);
        for_rows_with_sides<O, P, R>(b, g.index, panel,
                                     [&](auto i, const auto& sides) QMM_FLAT { rows.add<4, O>(sides, 0, d[i]); });
      }
    });
  });
}

template <Tile T>
void gemv_u4(const Block& b) {
  static_assert(kRegisters / 2 * kBytes <= kScratch);
  for_offset(b.offset, [&]<Offset O>() {
    for_few_rows<T, kRegisters / 2>(b, [&]<int R, int P>(int64_t row, int64_t first) {
      b.group <= 32 ? panels<O, true, R, P>(b, row, first) : panels<O, false, R, P>(b, row, first);
    });
  });
}

}  // namespace
}  // namespace qmm::isa
