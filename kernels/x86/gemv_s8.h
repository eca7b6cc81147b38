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

template <Offset O, int P>
QMM_NOINLINE void panels(Block b) {
  for (int64_t row = 0; row < b.rows; ++row) {
    const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
    for_each_group(b, [&](const Group& g) QMM_FLAT {
      Int d[P][kVectors];
      unroll<P * kVectors>([&](auto i) QMM_FLAT { d[i / kVectors][i % kVectors] = zero(); });
      for (int64_t k = g.begin; k < g.end; k += 8) {
        unroll<P>([&](auto p) QMM_FLAT { prefetch_ahead<8>(b, p, k, kAhead, 2); });
        unroll<2>([&](auto s) QMM_FLAT {
          const Int a = broadcast4(lhs + k + s * 4), a0 = even(a), a1 = odd(a);
          unroll<P>([&](auto p) QMM_FLAT {
            unroll<kVectors>([&](auto v) QMM_FLAT {
              const Int w = load(b.codes + p * b.panel_stride + k * kPanel + s * kLine + v * kBytes);
              add32(d[p][v], multiply_s16(even(w), a0));
              add32(d[p][v], multiply_s16(odd(w), a1));
            });
          });
        });
      }
      unroll<P>([&](auto p) QMM_FLAT {
        end_row_s8<8, O>(b, g, packed_sides(b, g.index, p), row, 0, (row * P + p) * kPanel, d[p]);
        prefetch_sides(b, g.index, p);
      });
    });
  }
}

inline void gemv_s8(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() { for_each_tile<4>(b.panels, [&]<int P>(int64_t) { panels<O, P>(b); }); });
}

}  // namespace
}  // namespace qmm::isa
