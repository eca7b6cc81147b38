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

  template <Codes C, int P, int R, class Walk>
  static QMM_INLINE void add(int64_t stride, Walk walk, int32x4_t (&d)[P][R][4]) {
    walk([&]<int Steps>(const int8_t* lhs, const uint8_t*(&codes)[P], auto prefetch) QMM_FLAT {
      constexpr int kLines = 8 / line_k(C);  // of eight k
      int8x16_t a[R];
      unroll<Steps>([&](auto s) QMM_FLAT {
        constexpr int half = s % 2 * 2;
        prefetch(s);
        if constexpr (half == 0)
          unroll<R>([&](auto i) QMM_FLAT {
            const int8_t* from = lhs + i * stride + s * 8;
            a[i] = s + 1 < Steps ? load_s8(from) : vcombine_s8(vld1_s8(from), vdup_n_s8(0));
          });
        unroll<4 * P>([&](auto j) QMM_FLAT {
          constexpr int p = j / 4, v = j % 4;
          const EightK w = load_codes<C>(codes[p] + s * kLines * kLine + v * 16);
          unroll<R>([&](auto i) QMM_FLAT { d[p][i][v] = vdotq_laneq_s32(d[p][i][v], w.low, a[i], half); });
          unroll<R>([&](auto i) QMM_FLAT { d[p][i][v] = vdotq_laneq_s32(d[p][i][v], w.high, a[i], half + 1); });
        });
      });
    });
  }
};

}  // namespace
}  // namespace qmm::neon
