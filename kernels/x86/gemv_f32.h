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

// A group of P panels from `first`.
template <int Bits, int P>
QMM_INLINE void group(const Block& b, const Group& g, const float* x, int64_t row, int64_t first) {
  constexpr int C = P * kVectors;
  auto* biases = static_cast<float*>(b.scratch);  // [places][C][columns]
  Float t[C];
  unroll<C>([&](auto i) QMM_FLAT {
    const Float zero = zeros_f32<Bits>(b, g, first + i / kVectors, i % kVectors * kColumns);
    unroll<16 / kStep<Bits>>([&](auto place) QMM_FLAT {
      store_aligned(biases + (place * C + i) * kColumns, bias<Bits>(zero, place * kStep<Bits>));
    });
    t[i] = begin_f32(b, g, (row * b.panels + first) * kPanel + i * kColumns);
  });
  for (int64_t k = g.begin; k < g.end; k += 8) {
    const uint8_t* codes = b.codes + first * b.panel_stride + k * 2 * Bits;
    unroll<P>([&](auto p) QMM_FLAT { prefetch_ahead<Bits>(b, first + p, k, kAhead, Bits / 4); });
    unroll<4>([&](auto quarter) QMM_FLAT {
      Int lanes[C];
      unroll<C>([&](auto i) QMM_FLAT {
        lanes[i] = load_quarter<Bits>(codes + i / kVectors * b.panel_stride + i % kVectors * kColumns * 4, quarter);
      });
      unroll<2>([&](auto j) QMM_FLAT {
        constexpr int bit = first_bit<Bits>(quarter) + j * 8;
        const Decoder<Bits> decode(bit);
        const Float xv = broadcast_f32(x + k + quarter * 2 + j);
        unroll<C>([&](auto i) QMM_FLAT {
          add_product(t[i], xv, decode(lanes[i], load_aligned(biases + (bit / kStep<Bits> * C + i) * kColumns)));
        });
      });
    });
  }
  unroll<P>([&](auto p) QMM_FLAT {
    const PackedSides sides = packed_sides(b, g.index, first + p);
    unroll<kVectors>([&](auto v) QMM_FLAT {
      end_f32(b, g, sides, row, v * kColumns, (row * b.panels + first + p) * kPanel + v * kColumns,
              t[p * kVectors + v]);
    });
    prefetch_sides(b, g.index, first + p);
  });
}

// The panels from `first` on, P at a time.
template <int Bits, int P>
QMM_NOINLINE void panels(Block b, int64_t row, int64_t first) {
  const float* x = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = first; panel + P <= b.panels; panel += P) group<Bits, P>(b, g, x, row, panel);
  });
}

template <int Bits>
void gemv_f32(const Block& b) {
  for (int64_t row = 0; row < b.rows; ++row) {
    constexpr int P = 4 / kVectors;
    if (b.panels >= P) panels<Bits, P>(b, row, 0);
    if (b.panels % P != 0) panels<Bits, 1>(b, row, b.panels / P * P);
  }
}

}  // namespace
}  // namespace qmm::isa
