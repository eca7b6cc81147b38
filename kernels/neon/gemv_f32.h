// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMV: t = sum of fma(x, code - zero, t) over a group, k ascending, the codes decoded in registers. Four
// panels are read in pairs, a group of each in turn.
//
// Tile of 1 row x 2 panels: a column's t is one chain of FMAs, and 8 chains of 4 columns are spread over the time that
// their codes take to decode.
//   t[8]  float sums     lanes  one k of 4 columns     x[2]  8 k of the row
//   bias  what a code has too much: of a place of the byte, and in memory where columns have zeros
// Four weights take BIF, FSUB and FMLA, and an EOR if they have 8 bits, beside a load: with 4 bits 2.7 MAC/cycle on two
// pipes (Cortex-A72, Neoverse N1), 5.3 on four (Neoverse V1 and V2, Apple M1).
#pragma once

#include "decode_f32.h"

namespace qmm::neon {
namespace {

// A group of P panels from `first`.
template <int Bits, Offset O, int P>
QMM_INLINE void group_f32(const Block& b, const Group& g, int64_t row, int64_t first) {
  constexpr int64_t kAhead = 1024 / Bits;  // k to prefetch ahead
  static_assert(kPlaces<Bits> * 4 * P * 16 <= kScratch);
  auto* biases = static_cast<float*>(b.scratch);  // [places][4 * P][4]
  const int64_t at = (row * b.panels + first) * kPanel;
  float* acc = opaque(b.acc + at);
  float* carry = opaque(static_cast<float*>(b.carry) + at);
  float32x4_t t[4 * P];
  unroll<4 * P>([&](auto i) QMM_FLAT {
    t[i] = g.resume ? vld1q_f32(carry + i * 4) : vdupq_n_f32(0);
    if constexpr (O == Offset::Zeros) {
      const float32x4_t zero = zeros_f32<Bits>(b, O, g, first + i / 4, i % 4 * 4);
      unroll<kPlaces<Bits>>([&](auto place)
                                QMM_FLAT { vst1q_f32(biases + (place * 4 * P + i) * 4, bias<Bits>(zero, place)); });
    }
  });
  const auto bias_of = [&](int place, int i) QMM_FLAT {
    if constexpr (O == Offset::Zeros) return vreinterpretq_f32_u8(load_now(biases + (place * 4 * P + i) * 4));
    return bias<Bits>(zeros_f32<Bits>(b, O, g, 0, 0), place);
  };
  const float* lhs = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  PanelCodes<Bits, P> codes(b, first, g.begin);
  for (int64_t k = g.begin; k < g.end; k += 8) {
    const int64_t ahead = distance_ahead<Bits>(b, k, kAhead);
    float32x4_t x[2] = {vld1q_f32(lhs + k), vld1q_f32(lhs + k + 4)};
    codes.template prefetch_some<8, 0, 1>(ahead);
    unroll<8>([&](auto j) QMM_FLAT {
      constexpr int place = place_of<Bits>(j);
      unroll<4 * P>([&](auto i) QMM_FLAT {
        const float32x4_t w = decode<Bits>(load_lanes<Bits>(codes.at[i / 4] + i % 4 * 16, j), place, bias_of(place, i));
        x[j / 4] = opaque_vector(x[j / 4]);
        t[i] = vfmaq_laneq_f32(t[i], w, x[j / 4], j % 4);
      });
    });
    codes.advance(8);
  }
  if (g.suspend) {
    unroll<4 * P>([&](auto i) QMM_FLAT { vst1q_f32(carry + i * 4, t[i]); });
    return;
  }
  const float* lhs_sum = static_cast<const float*>(b.lhs_sums) + row * b.lhs_group_stride + g.index;
  for_sides<O, P>(b, g.index, first, [&](auto p, const PackedSides& sides) QMM_FLAT {
    unroll<4>([&](auto v) QMM_FLAT { end_f32(O, sides, v * 4, lhs_sum, acc + p * kPanel + v * 4, t[4 * p + v]); });
  });
}

// The panels from `first` on, P at a time.
template <int Bits, Offset O, int P>
QMM_NOINLINE void panels_f32(Block b, int64_t row, int64_t first) {
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = first; panel + P <= b.panels; panel += P) group_f32<Bits, O, P>(b, g, row, panel);
  });
}

template <int Bits>
void gemv_f32(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() {
    for (int64_t row = 0; row < b.rows; ++row) {
      if (b.panels >= 2) panels_f32<Bits, O, 2>(b, row, 0);
      if (b.panels % 2 == 1) panels_f32<Bits, O, 1>(b, row, b.panels - 1);
    }
  });
}

}  // namespace
}  // namespace qmm::neon
