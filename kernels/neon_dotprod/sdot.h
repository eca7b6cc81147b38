// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products by SDOT, of four k of a column in each lane with four k of a row, for all of R rows and P panels.
//   d[P][R][4]  int32 sums of 16 columns     a[R]  16 k of a row     w  four k, and the next four, of 4 columns
// 4 x 16 sums in 16 registers hide SDOT's latency of 3, 1 from sum to sum, behind the four pipes of Neoverse V1 and V2
// (LLVM 19's models).
#pragma once

#include "../neon/s8.h"

namespace qmm::neon {
namespace {

struct Sdot {
  static constexpr int kTiles = 4;

  // Eight k: those of a[R] from 8 * Half on.
  template <Codes C, int Half, int P, int R>
  static QMM_INLINE void step(const int8x16_t (&a)[R], const uint8_t* codes, int64_t panel_stride,
                              int32x4_t (&d)[P][R][4]) {
    unroll<4 * P>([&](auto j) QMM_FLAT {
      constexpr int p = j / 4, v = j % 4;
      const EightK w = load_codes<C>(codes + p * panel_stride + v * 16);
      unroll<R>([&](auto i) QMM_FLAT { d[p][i][v] = vdotq_laneq_s32(d[p][i][v], w.low, a[i], 2 * Half); });
      unroll<R>([&](auto i) QMM_FLAT { d[p][i][v] = vdotq_laneq_s32(d[p][i][v], w.high, a[i], 2 * Half + 1); });
    });
  }

  template <Codes C, int P, int R, class Prefetch>
  static QMM_INLINE void add(const int8_t* lhs, int64_t stride, const uint8_t* codes, int64_t panel_stride, int64_t k,
                             int32x4_t (&d)[P][R][4], Prefetch prefetch) {
    constexpr int kLines = 8 / line_k(C);  // of eight k
    int8x16_t a[R];
    int64_t at = 0;
    for (; at + 16 <= k; at += 16) {
      unroll<P>([&](auto p) QMM_FLAT { prefetch(p, at, 2 * kLines); });
      unroll<R>([&](auto i) QMM_FLAT { a[i] = load_s8(lhs + i * stride + at); });
      step<C, 0>(a, codes, panel_stride, d);
      step<C, 1>(a, codes + kLines * kLine, panel_stride, d);
      codes += 2 * kLines * kLine;
    }
    if (at < k) {
      unroll<P>([&](auto p) QMM_FLAT { prefetch(p, at, kLines); });
      unroll<R>([&](auto i) QMM_FLAT { a[i] = vcombine_s8(vld1_s8(lhs + i * stride + at), vdup_n_s8(0)); });
      step<C, 0>(a, codes, panel_stride, d);
    }
  }
};

}  // namespace
}  // namespace qmm::neon
