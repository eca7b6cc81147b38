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

  // Eight k, in chains of int16. The first begin them.
  template <Codes C, bool First, int P, int R>
  static QMM_INLINE void step(const int8_t* lhs, int64_t stride, const uint8_t* codes, int64_t panel_stride,
                              int16x8_t (&x)[P][R][8]) {
    int8x16_t a[R][2];
    unroll<R>([&](auto i) QMM_FLAT {
      a[i][0] = broadcast4(lhs + i * stride);
      a[i][1] = broadcast4(lhs + i * stride + 4);
    });
    unroll<4 * P>([&](auto j) QMM_FLAT {
      constexpr int p = j / 4, v = j % 4;
      const EightK w = load_codes<C>(codes + p * panel_stride + v * 16);
      unroll<R>([&](auto i) QMM_FLAT { multiply<First>(a[i][0], w.low, x[p][i][2 * v], x[p][i][2 * v + 1]); });
      unroll<R>([&](auto i) QMM_FLAT { multiply<false>(a[i][1], w.high, x[p][i][2 * v], x[p][i][2 * v + 1]); });
    });
  }

  template <Codes C, int P, int R, class Prefetch>
  static QMM_INLINE void add(const int8_t* lhs, int64_t stride, const uint8_t* codes, int64_t panel_stride, int64_t k,
                             int32x4_t (&d)[P][R][4], Prefetch prefetch) {
    constexpr int kLines = 8 / line_k(C);  // of eight k
    const auto next = [&](auto first, int64_t at, int16x8_t(&x)[P][R][8]) QMM_FLAT {
      unroll<P>([&](auto p) QMM_FLAT { prefetch(p, at, kLines); });
      step<C, first>(lhs + at, stride, codes + at / 8 * kLines * kLine, panel_stride, x);
    };
    // Chains of 8 or 32 k.
    const auto chain = [&](int64_t at, auto steps) QMM_FLAT {
      int16x8_t x[P][R][8];
      next(Constant<true>(), at, x);
      unroll<steps - 1>([&](auto s) QMM_FLAT { next(Constant<false>(), at + 8 * (s + 1), x); });
      unroll<4 * P * R>([&](auto j) QMM_FLAT {
        constexpr int p = j / (4 * R), i = j / 4 % R, v = j % 4;
        d[p][i][v] = vpadalq_s16(d[p][i][v], vpaddq_s16(x[p][i][2 * v], x[p][i][2 * v + 1]));
      });
    };
    int64_t at = 0;
    for (; at + 32 <= k; at += 32) chain(at, Constant<4>());
    for (; at < k; at += 8) chain(at, Constant<1>());
  }

  // 8-bit codes. A sum is spread over two lanes while k goes on.
  template <Codes C, int P, int R, class Prefetch>
    requires(C == Codes::Bytes)
  static QMM_INLINE void add(const int8_t* lhs, int64_t stride, const uint8_t* codes, int64_t panel_stride, int64_t k,
                             int32x4_t (&d)[P][R][4], Prefetch prefetch) {
    int32x4_t e[P][R][8];
    unroll<4 * P * R>([&](auto j) QMM_FLAT {
      constexpr int p = j / (4 * R), i = j / 4 % R, v = j % 4;
      e[p][i][2 * v] = vzip1q_s32(d[p][i][v], vdupq_n_s32(0));
      e[p][i][2 * v + 1] = vzip2q_s32(d[p][i][v], vdupq_n_s32(0));
    });
    for (int64_t at = 0; at < k; at += 8) {
      int8x16_t a[R][2];
      unroll<R>([&](auto i) QMM_FLAT {
        a[i][0] = broadcast4(lhs + i * stride + at);
        a[i][1] = broadcast4(lhs + i * stride + at + 4);
      });
      unroll<P>([&](auto p) QMM_FLAT { prefetch(p, at, 2); });
      unroll<4 * P * R>([&](auto j) QMM_FLAT {
        constexpr int p = j / (4 * R), v = j / R % 4, i = j % R;
        const EightK w = load_codes<C>(codes + p * panel_stride + at * kPanel + v * 16);
        int16x8_t x0, x1;
        multiply<true>(a[i][0], w.low, x0, x1);
        multiply<false>(a[i][1], w.high, x0, x1);
        e[p][i][2 * v] = vpadalq_s16(e[p][i][2 * v], x0);
        e[p][i][2 * v + 1] = vpadalq_s16(e[p][i][2 * v + 1], x1);
      });
    }
    unroll<4 * P * R>([&](auto j) QMM_FLAT {
      constexpr int p = j / (4 * R), i = j / 4 % R, v = j % 4;
      d[p][i][v] = vpaddq_s32(e[p][i][2 * v], e[p][i][2 * v + 1]);
    });
  }
};

}  // namespace
}  // namespace qmm::neon
