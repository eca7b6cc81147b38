// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMM: t = sum of fma(x, code - zero, t) over a group, k ascending.
//
// Tile of 4 rows x 16 columns: a column's t is one chain of FMAs, and 16 chains fill the latency of four FMA pipes. The
// panel is unpacked once a block, codes to float(code - zero), for all rows.
//   t[4][4]  float sums     w  4 columns of one k     x[4]  4 k of a row
// 4 k take 64 FMA beside 20 loads: 8 MAC/cycle on two pipes (Cortex-A72, Neoverse N1), 16 on four (Neoverse V1 and V2,
// Apple M1), less an FMA a sum at the group's end.
#pragma once

#include "decode_f32.h"

namespace qmm::neon {
namespace {

template <int R>
QMM_NOINLINE void tile_f32(Block b, Sides sides, const float* w, int64_t row) {
  const float* lhs = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  float* acc = b.acc + row * kPanel;
  float* carry = static_cast<float*>(b.carry) + row * kPanel;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    float32x4_t t[R][4];
    unroll<4 * R>([&](auto i) QMM_FLAT { t[i / 4][i % 4] = g.resume ? vld1q_f32(carry + i * 4) : vdupq_n_f32(0); });
    for (int64_t k = g.begin; k < g.end; k += 4) {
      float32x4_t x[R];
      unroll<R>([&](auto i) QMM_FLAT { x[i] = vld1q_f32(lhs + i * b.lhs_stride + k); });
      unroll<16>([&](auto j) QMM_FLAT {
        const float32x4_t wv = vld1q_f32(w + k * kPanel + j * 4);
        unroll<R>([&](auto i) QMM_FLAT { t[i][j % 4] = vfmaq_laneq_f32(t[i][j % 4], wv, x[i], j / 4); });
      });
    }
    const Sides here = sides.of_group(g.index);
    const float* lhs_sums = static_cast<const float*>(b.lhs_sums) + row * b.lhs_group_stride + g.index;
    unroll<4 * R>([&](auto i) QMM_FLAT {
      if (g.suspend)
        vst1q_f32(carry + i * 4, t[i / 4][i % 4]);
      else
        end_f32(b.offset, here, i % 4 * 4, lhs_sums + i / 4 * b.lhs_group_stride, acc + i * 4, t[i / 4][i % 4]);
    });
  });
}

template <int Bits, Tile T>
void gemm_f32(const Block& b) {
  static_assert(T.nr == kPanel && (sides_count(T) + T.block_k * kPanel) * 4 <= kScratch);
  auto* scratch = static_cast<float*>(b.scratch);
  float* w = scratch + sides_count(T);
  const Sides sides = widen_sides(b, 0, scratch);
  unpack_f32<Bits>(b, 0, w);
  for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) { tile_f32<R>(b, sides, w, row); });
}

}  // namespace
}  // namespace qmm::neon
