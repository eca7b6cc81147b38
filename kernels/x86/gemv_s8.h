// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMV: I = sum of a * code over a group, both operands widened to int16 in registers and
// multiplied by vpmaddwd, exact on the full range; four panels side by side for the sake of memory bandwidth.
//
// Tile of 1 row x P = 4 panels, of 2 vectors of AVX2 or one of AVX-512 each; a step is 4 k. Even and odd k are widened
// apart, by shifts, so that a column stays in one lane.
//   d[P][kVectors]  int32 sums          even, odd  k, k+2 and k+1, k+3 of the codes
//   a0, a1          the same of the row, in every lane
// 32 bytes of AVX2, 64 of AVX-512 take 3 shifts, 2 vpmaddwd, 2 vpaddd: 13 bytes/cycle on three vector ports, 18 on two.
#pragma once

#include "sides.h"

namespace qmm::isa {
namespace {

constexpr int64_t kAhead = 64;  // k to prefetch ahead

// A row, and the panels from `first` on, P at a time, a group of each in turn.
template <Offset O, int P>
QMM_NOINLINE void panels(const Block& b, int64_t row, int64_t first) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for_panels<P>(b, first, [&](int64_t panel) QMM_FLAT {
      Int d[1][P * kVectors];
      unroll<P * kVectors>([&](auto v) QMM_FLAT { d[0][v] = zero(); });
      const int8_t* a = opaque(lhs + g.begin);
      PanelCodes<8, P> codes(b, panel, g.begin);
      for (int64_t k = opaque(g.begin); k < g.end; k += 8) {
        const int64_t ahead = distance_ahead<8>(b, k, kAhead);
        unroll<2>([&](auto s) QMM_FLAT {
          codes.template prefetch_some<8, s, 2>(ahead);
          const Int av = broadcast4(a + s * 4), a0 = even(av), a1 = odd(av);
          unroll<P * kVectors>([&](auto v) QMM_FLAT {
            const Int w = load(codes.at[v / kVectors] + s * kLine + v % kVectors * kBytes);
            add32(d[0][v], multiply_s16(even(w), a0));
            add32(d[0][v], multiply_s16(odd(w), a1));
          });
        });
        a += 8;
        codes.advance(8);
      }
      if (carry_rows<P>(b, g, row, panel, d)) return;
      EndOfRows rows(b, g.index, row, panel);
      with_sides<O, P>(b, g.index, panel, [&](const auto& sides) QMM_FLAT { rows.add<8, O>(sides, 0, d[0]); });
    });
  });
}

template <Tile T>
void gemv_s8(const Block& b) {
  static_assert(T.mr == 1);
  for_offset(b.offset, [&]<Offset O>() {
    for_few_rows<T, kRegisters / 2>(b, [&]<int, int P>(int64_t row, int64_t first) { panels<O, P>(b, row, first); });
  });
}

}  // namespace
}  // namespace qmm::isa
