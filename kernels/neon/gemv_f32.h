// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMV: t = sum of fma(x, code - zero, t) over a group, k ascending, the codes decoded in registers. Four
// panels are read in pairs, a group of each in turn.
//
// Tile of 1 row x 2 panels: a column's t is one chain of FMAs, and 8 chains of 4 columns are spread over the time that
// their codes take to decode.
//   t[8]     float sums     lanes  one k of 4 columns     x[2]  8 k of the row     bias  what a code has too much
//   (memory)
// Four weights take BIF, FSUB and FMLA, and an EOR if they have 8 bits, beside two loads: with 4 bits 2.7 MAC/cycle on
// two pipes (Cortex-A72, Neoverse N1), 5.3 on four (Neoverse V1 and V2, Apple M1).
#pragma once

#include "decode_f32.h"

namespace qmm::neon {
namespace {

// A group of P panels from `first`.
template <int Bits, int P>
QMM_INLINE void group_f32(const Block& b, const Group& g, int64_t row, int64_t first) {
  constexpr int64_t kAhead = 1024 / Bits;         // k to prefetch ahead: 2 KiB of a panel
  auto* biases = static_cast<float*>(b.scratch);  // [places][4 * P][4]
  float32x4_t t[4 * P];
  unroll<4 * P>([&](auto i) QMM_FLAT {
    const float32x4_t zero = zeros_f32<Bits>(b, g, first + i / 4, i % 4 * 4);
    unroll<kPlaces<Bits>>([&](auto place)
                              QMM_FLAT { vst1q_f32(biases + (place * 4 * P + i) * 4, bias<Bits>(zero, place)); });
    t[i] = begin_f32(b, g, (row * b.panels + first) * kPanel + i * 4);
  });
  const float* lhs = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  for (int64_t k = g.begin; k < g.end; k += 8) {
    const uint8_t* codes = b.codes + first * b.panel_stride + k * 2 * Bits;
    unroll<P>([&](auto p) QMM_FLAT { prefetch_ahead<Bits>(b, first + p, k, kAhead, Bits / 4); });
    const float32x4_t x[2] = {vld1q_f32(lhs + k), vld1q_f32(lhs + k + 4)};
    unroll<8>([&](auto j) QMM_FLAT {
      constexpr int place = place_of<Bits>(j);
      unroll<4 * P>([&](auto i) QMM_FLAT {
        const uint32x4_t lanes = load_lanes<Bits>(codes + i / 4 * b.panel_stride + i % 4 * 16, j);
        const float32x4_t w = decode<Bits>(lanes, place, load_now(biases + (place * 4 * P + i) * 4));
        t[i] = vfmaq_laneq_f32(t[i], w, x[j / 4], j % 4);
      });
    });
  }
  unroll<P>([&](auto p) QMM_FLAT {
    const PackedSides sides = packed_sides(b, g.index, first + p);
    unroll<4>([&](auto v) QMM_FLAT {
      end_f32(b, g, sides, row, v * 4, (row * b.panels + first + p) * kPanel + v * 4, t[4 * p + v]);
    });
    prefetch_sides(b, g.index, first + p);
  });
}

// The panels from `first` on, P at a time.
template <int Bits, int P>
QMM_NOINLINE void panels_f32(Block b, int64_t row, int64_t first) {
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = first; panel + P <= b.panels; panel += P) group_f32<Bits, P>(b, g, row, panel);
  });
}

template <int Bits>
void gemv_f32(const Block& b) {
  for (int64_t row = 0; row < b.rows; ++row) {
    if (b.panels >= 2) panels_f32<Bits, 2>(b, row, 0);
    if (b.panels % 2 == 1) panels_f32<Bits, 1>(b, row, b.panels - 1);
  }
}

}  // namespace
}  // namespace qmm::neon
