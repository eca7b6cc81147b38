// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products by SMULL and SMLAL, which make int16 of bytes: of four k of a column with four k of a row, for all of R rows
// and P panels.
//   x[P][R][8]  int16 sums, the even k and the odd k of two columns each     a  four k of a row, in every lane
//   d[P][R][4]  int32 sums of 16 columns                                     w  four k, and the next four, of 4 columns
// 4-bit codes: |16 * 127| = 2032, so that eight products add in int16, and pairs of such sums do; 8-bit codes: two
// products, |2 * 128 * 127| = 32512.
#pragma once

#include "s8.h"

namespace qmm::neon {
namespace {

struct Mull {
  static constexpr int kTiles = 2;

  static QMM_INLINE int8x16_t broadcast4(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }

  // x = a * w for columns 4 * v ..., or x += that.
  template <bool First>
  static QMM_INLINE void multiply(int8x16_t a, int8x16_t w, int16x8_t& x0, int16x8_t& x1) {
    x0 = First ? vmull_s8(vget_low_s8(w), vget_low_s8(a)) : vmlal_s8(x0, vget_low_s8(w), vget_low_s8(a));
    x1 = First ? vmull_high_s8(w, a) : vmlal_high_s8(x1, w, a);
  }

  // Chains of int16 over as many k as walk takes at a time, 8 or 32.
  template <Codes C, int P, int R, class Walk>
  static QMM_INLINE void add(int64_t stride, Walk walk, int32x4_t (&d)[P][R][4]) {
    walk([&]<int Steps>(const int8_t* lhs, const uint8_t*(&codes)[P], auto prefetch) QMM_FLAT {
      constexpr int kLines = 8 / line_k(C);  // of eight k
      int16x8_t x[P][R][8];
      unroll<Steps>([&](auto s) QMM_FLAT {
        prefetch(s);
        int8x16_t a[R][2];
        unroll<2 * R>([&](auto i) QMM_FLAT { a[i / 2][i % 2] = broadcast4(lhs + i / 2 * stride + s * 8 + i % 2 * 4); });
        unroll<4 * P>([&](auto j) QMM_FLAT {
          constexpr int p = j / 4, v = j % 4;
          const EightK w = load_codes<C>(codes[p] + s * kLines * kLine + v * 16);
          unroll<R>([&](auto i) QMM_FLAT { multiply<s == 0>(a[i][0], w.low, x[p][i][2 * v], x[p][i][2 * v + 1]); });
          unroll<R>([&](auto i) QMM_FLAT { multiply<false>(a[i][1], w.high, x[p][i][2 * v], x[p][i][2 * v + 1]); });
        });
      });
      unroll<4 * P * R>([&](auto j) QMM_FLAT {
        constexpr int p = j / (4 * R), i = j / 4 % R, v = j % 4;
        d[p][i][v] = vpadalq_s16(d[p][i][v], vpaddq_s16(x[p][i][2 * v], x[p][i][2 * v + 1]));
      });
    });
  }

  // 8-bit codes. A sum is spread over two lanes while k goes on.
  template <Codes C, int P, int R, class Walk>
    requires(C == Codes::Bytes)
  static QMM_INLINE void add(int64_t stride, Walk walk, int32x4_t (&d)[P][R][4]) {
    int32x4_t e[P][R][8];
    unroll<4 * P * R>([&](auto j) QMM_FLAT {
      constexpr int p = j / (4 * R), i = j / 4 % R, v = j % 4;
      e[p][i][2 * v] = vzip1q_s32(d[p][i][v], vdupq_n_s32(0));
      e[p][i][2 * v + 1] = vzip2q_s32(d[p][i][v], vdupq_n_s32(0));
    });
    walk([&]<int Steps>(const int8_t* lhs, const uint8_t*(&codes)[P], auto prefetch) QMM_FLAT {
      unroll<Steps>([&](auto s) QMM_FLAT {
        prefetch(s);
        int8x16_t a[R][2];
        unroll<2 * R>([&](auto i) QMM_FLAT { a[i / 2][i % 2] = broadcast4(lhs + i / 2 * stride + s * 8 + i % 2 * 4); });
        unroll<4 * P * R>([&](auto j) QMM_FLAT {
          constexpr int p = j / (4 * R), v = j / R % 4, i = j % R;
          const EightK w = load_codes<C>(codes[p] + s * 2 * kLine + v * 16);
          int16x8_t x0, x1;
          multiply<true>(a[i][0], w.low, x0, x1);
          multiply<false>(a[i][1], w.high, x0, x1);
          e[p][i][2 * v] = vpadalq_s16(e[p][i][2 * v], x0);
          e[p][i][2 * v + 1] = vpadalq_s16(e[p][i][2 * v + 1], x1);
        });
      });
    });
    unroll<4 * P * R>([&](auto j) QMM_FLAT {
      constexpr int p = j / (4 * R), i = j / 4 % R, v = j % 4;
      d[p][i][v] = vpaddq_s32(e[p][i][2 * v], e[p][i][2 * v + 1]);
    });
  }
};

}  // namespace
}  // namespace qmm::neon
