// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMV: t = sum of fma(x, code - zero, t) over a group, k ascending, the codes decoded in registers. Panels
// are read side by side, for the sake of memory bandwidth: four, or pairs of two, a group of each in turn.
//
// Tile of 1 row x C vectors of columns: a column's t is one chain of FMAs, and 4 chains, with those of the next panels
// that run ahead, fill the two FMA ports' latency.
//   t[C]     float sums     lanes[C]  two k of a vector's columns     x  one k of the row, in every lane
// A vector of weights takes AND, OR, SUB and an FMA, and a quarter of a shift; AVX-512 has AND and OR in one. AVX2, 11
// registers and the rest in memory: 17/12 cycles on three vector ports, 5.6 MAC/cycle; with them come 2 loads, so that
// four ports and two loads a cycle (Zen 3) reach 8 MAC/cycle at most. AVX-512: 13/8 cycles on two ports, 9.8 MAC/cycle.
// Signed codes take half an XOR more.
#pragma once

#include "decode_f32.h"

namespace qmm::isa {
namespace {

constexpr int64_t kAhead = 256;  // k to prefetch ahead

// A row, and the panels from `first` on, P at a time, a group of each in turn.
template <int Bits, Offset O, int P>
QMM_NOINLINE void panels(const Block& b, int64_t row, int64_t first) {
  constexpr int C = P * kVectors;
  const float* lhs = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for_panels<P>(b, first, [&](int64_t panel) QMM_FLAT {
      auto* biases = opaque(static_cast<float*>(b.scratch));  // [places][C][columns]
      const int64_t at = (row * b.panels + panel) * kPanel;
      Float t[C];
      unroll<C>([&](auto i) QMM_FLAT {
        const Float zero = zeros_f32<Bits>(b, O, g, panel + i / kVectors, i % kVectors * kColumns);
        unroll<16 / kStep<Bits>>([&](auto place) QMM_FLAT {
          store_aligned(biases + (place * C + i) * kColumns, bias<Bits>(zero, place * kStep<Bits>));
        });
        t[i] = begin_f32(b, g, at + i * kColumns);
      });
      const float* x = opaque(lhs + g.begin);
      PanelCodes<Bits, P> codes(b, panel, g.begin);
      for (int64_t k = opaque(g.begin); k < g.end; k += 8) {
        const int64_t ahead = distance_ahead<Bits>(b, k, kAhead);
        unroll<4>([&](auto quarter) QMM_FLAT {
          codes.template prefetch_some<8, quarter, 4>(ahead);
          Int lanes[C];
          unroll<C>([&](auto i) QMM_FLAT {
            lanes[i] = load_quarter<Bits>(codes.at[i / kVectors] + i % kVectors * kBytes, quarter);
          });
          unroll<2>([&](auto j) QMM_FLAT {
            constexpr int bit = first_bit<Bits>(quarter) + j * 8;
            const Decoder<Bits> decode(bit);
            const Float xv = broadcast_f32(x + quarter * 2 + j);
            unroll<C>([&](auto i) QMM_FLAT {
              add_product(t[i], xv, decode(lanes[i], load_aligned(biases + (bit / kStep<Bits> * C + i) * kColumns)));
            });
          });
        });
        x += 8;
        codes.advance(8);
      }
      with_sides<O, P>(b, g.index, panel, [&](const auto& sides) QMM_FLAT {
        unroll<C>([&](auto i) QMM_FLAT { end_f32(b, O, g, sides, row, i * kColumns, at + i * kColumns, t[i]); });
      });
    });
  });
}

template <int Bits, Tile T>
void gemv_f32(const Block& b) {
  constexpr int kSums = 4;  // vectors: a vector of weights takes several instructions before its FMA
  static_assert(T.mr == 1 && 16 / kStep<Bits> * kSums * kBytes <= kScratch);
  for_offset(b.offset, [&]<Offset O>() {
    for_few_rows<T, kSums>(b, [&]<int, int P>(int64_t row, int64_t first) { panels<Bits, O, P>(b, row, first); });
  });
}

}  // namespace
}  // namespace qmm::isa
