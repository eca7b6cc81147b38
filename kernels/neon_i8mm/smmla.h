// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM by SMMLA: products of eight k of two rows with eight k of two columns, four sums in a register. Of a
// block, the panels are unpacked once, as column pairs, and the rows of a tile are paired once for its panels.
//
// Tile of 6 rows x 8 columns, half a panel:
//   d[3][4]    int32 sums of a pair of rows and a pair of columns     a[3]  8 k of 2 rows     w[4]  of 2 columns
//   acc[3][4]  float sums, of the same pairs as long as a block goes on
// 8 k take 12 SMMLA for 384 MAC beside 7 loads: 64 MAC/cycle on two pipes (Neoverse N2), 128 on four (Neoverse V1 and
// V2), whose latency of 3 the 12 sums hide. A group's end takes a conversion, FMUL and FMA for four sums: at group 32,
// 4 cycles of a pipe beside 4 of SMMLA, half of that; zeros of 8-bit codes add a MUL.
#pragma once

#include "../neon/pairs.h"

namespace qmm::neon {
namespace {

template <Offset O, int P, Tile T>
QMM_NOINLINE void tile_smmla(Block b, const Memory<T>& memory, int64_t row, int64_t panel, int64_t pair) {
  const auto acc_of = [&](int64_t r) QMM_FLAT { return b.acc + (r * b.panels + panel) * kPanel + pair * 2; };
  const auto carry_of = [&](int64_t i) QMM_FLAT {
    return static_cast<int32_t*>(b.carry) + (((row / 2 + i) * b.panels + panel) * kPanel + pair * 2) * 2;
  };
  int32x4_t d[P][4];
  float32x4_t acc[P][4] = {};
  if (!b.suspend)
    unroll<2 * P>([&](auto i) QMM_FLAT {
      constexpr int p = i / 2, v = i % 2;
      const int64_t first = row + 2 * p;
      const int32x4_t a0 = vreinterpretq_s32_f32(vld1q_f32(acc_of(first) + v * 4));
      const int32x4_t a1 = vreinterpretq_s32_f32(vld1q_f32(acc_of(second_row(b, first)) + v * 4));
      acc[p][2 * v] = vreinterpretq_f32_s32(low_halves(a0, a1));
      acc[p][2 * v + 1] = vreinterpretq_f32_s32(high_halves(a0, a1));
    });
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    unroll<4 * P>([&](auto j) QMM_FLAT {
      if (g.resume)
        d[j / 4][j % 4] = vld1q_s32(carry_of(j / 4) + j % 4 * 4);
      else if (O == Offset::Zeros)
        d[j / 4][j % 4] = vmulq_s32(vld1q_s32(memory.zeros[panel][g.index][pair + j % 4]),
                                    vld1q_s32(memory.row_sums[g.index][j / 4]));
      else
        d[j / 4][j % 4] = zero_now();
    });
    for (int64_t k = g.begin / 8; k < g.end / 8; ++k) {
      int8x16_t a[P], w[4];
      unroll<P>([&](auto i) QMM_FLAT { a[i] = load_s8(memory.rows[k][i]); });
      unroll<4>([&](auto j) QMM_FLAT { w[j] = load_s8(memory.panels[panel][k][pair + j]); });
      unroll<4 * P>([&](auto i) QMM_FLAT { d[i / 4][i % 4] = vmmlaq_s32(d[i / 4][i % 4], a[i / 4], w[i % 4]); });
    }
    if (g.suspend) {
      unroll<4 * P>([&](auto j) QMM_FLAT { vst1q_s32(carry_of(j / 4) + j % 4 * 4, d[j / 4][j % 4]); });
      return;
    }
    unroll<4>([&](auto j) QMM_FLAT {
      const float32x4_t scale = vld1q_f32(memory.scales[panel][g.index][pair + j]);
      unroll<P>([&](auto i) QMM_FLAT {
        const float32x4_t u = vmulq_f32(vcvtq_f32_s32(d[i][j]), vld1q_f32(memory.row_scales[g.index][i]));
        acc[i][j] = vfmaq_f32(acc[i][j], u, scale);
        if constexpr (O == Offset::Mins)
          acc[i][j] = vfmaq_f32(acc[i][j], vld1q_f32(memory.mins[panel][g.index][pair + j]),
                                vld1q_f32(memory.row_mins[g.index][i]));
      });
    });
  });
  if (!b.suspend)
    unroll<2 * P>([&](auto i) QMM_FLAT {
      constexpr int p = i / 2, v = i % 2;
      const int64_t first = row + 2 * p;
      const int32x4_t a0 = vreinterpretq_s32_f32(acc[p][2 * v]), a1 = vreinterpretq_s32_f32(acc[p][2 * v + 1]);
      vst1q_f32(acc_of(first) + v * 4, vreinterpretq_f32_s32(low_halves(a0, a1)));
      vst1q_f32(acc_of(second_row(b, first)) + v * 4, vreinterpretq_f32_s32(high_halves(a0, a1)));
    });
}

// The zeros of 4-bit codes are gone when they are unpacked.
template <int Bits, Tile T>
void gemm_smmla(const Block& b) {
  static_assert(sizeof(Memory<T>) <= kScratch && T.mr == 2 * kPairs);
  auto& memory = *static_cast<Memory<T>*>(b.scratch);
  pair_columns<Bits>(b, memory);
  for_offset(b.offset, [&]<Offset Any>() {
    constexpr Offset O = Bits == 4 && Any == Offset::Zeros ? Offset::Symmetric : Any;
    for_each_tile<kPairs>((b.rows + 1) / 2, [&]<int P>(int64_t first) {
      pair_rows<O, P>(b, 2 * first, memory);
      for (int64_t p = 0; p < b.panels; ++p)
        for (int64_t pair = 0; pair < kPanel / 2; pair += 4) tile_smmla<O, P>(b, memory, 2 * first, p, pair);
    });
  });
}

}  // namespace
}  // namespace qmm::neon
