// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numerics contract in code. Every other kernel equals these two functions bit for bit.
#pragma once

#include "../kernel.h"

namespace qmm {
namespace {

// Calls close(row, column of the tile, group, panel, column of the panel, sum) for each group that ends in the block.
// Sum is int32_t or float; step(row, k, code, zero, sum) adds one k.
template <int Bits, class Sum, class Step, class Close>
inline void for_each_group(const Block& b, Step step, Close close) {
  const int64_t groups = (b.k + b.group - 1) / b.group;
  for (int64_t row = 0; row < b.rows; ++row)
    for (int64_t p = 0; p < b.panels; ++p)
      for (int64_t c = 0; c < kPanel; ++c) {
        const int64_t at = row * b.panels * kPanel + p * kPanel + c;
        Sum* carry = static_cast<Sum*>(b.carry) + at;
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t end = g + 1 < groups ? (g + 1) * b.group : b.k;
          const int zero = b.offset == Offset::Symmetric ? symmetric_zero(Bits)
                           : b.offset == Offset::Mins
                               ? 0
                               : static_cast<int8_t>(b.offsets[p * b.panel_stride + g * kPanel + c]);
          Sum sum = g == 0 && b.resume ? *carry : Sum(0);
          for (int64_t k = g * b.group; k < end; ++k)
            sum = step(row, k, code_at(Bits, b.codes + p * b.panel_stride, c, k), zero, sum);
          if (g + 1 == groups && b.suspend)
            *carry = sum;
          else
            close(row, at, g, p, g * kPanel + c, sum, zero);
        }
      }
}

// t = sum of fma(x, code - zero, t); acc = fma(t, scale, acc); with mins acc = fma(sum of x, min, acc)
template <int Bits>
void scalar_f32(const Block& b) {
  const auto* lhs = static_cast<const float*>(b.lhs);
  for_each_group<Bits, float>(
      b,
      [&](int64_t row, int64_t k, int code, int zero, float t) {
        return fma(lhs[row * b.lhs_stride + k], static_cast<float>(code - zero), t);
      },
      [&](int64_t row, int64_t at, int64_t g, int64_t p, int64_t side, float t, int) {
        float acc = fma(t, widen(b.scale, b.scales + p * b.panel_stride, side), b.acc[at]);
        if (b.offset == Offset::Mins)
          acc = fma(static_cast<const float*>(b.lhs_sums)[row * b.lhs_group_stride + g],
                    widen(b.scale, b.offsets + p * b.panel_stride, side), acc);
        b.acc[at] = acc;
      });
}

// I = sum of a * code - zero * sum of a; acc = fma(float(I) * scale_a, scale, acc); with mins
// acc = fma(float(sum of a) * scale_a, min, acc)
template <int Bits>
void scalar_s8(const Block& b) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs);
  for_each_group<Bits, int32_t>(
      b, [&](int64_t row, int64_t k, int code, int, int32_t sum) { return sum + lhs[row * b.lhs_stride + k] * code; },
      [&](int64_t row, int64_t at, int64_t g, int64_t p, int64_t side, int32_t sum, int zero) {
        const int64_t lhs_group = row * b.lhs_group_stride + g;
        const int32_t lhs_sum = static_cast<const int32_t*>(b.lhs_sums)[lhs_group];
        const float lhs_scale = b.lhs_scales[lhs_group];
        const float u = static_cast<float>(sum - zero * lhs_sum) * lhs_scale;
        float acc = fma(u, widen(b.scale, b.scales + p * b.panel_stride, side), b.acc[at]);
        if (b.offset == Offset::Mins)
          acc = fma(static_cast<float>(lhs_sum) * lhs_scale, widen(b.scale, b.offsets + p * b.panel_stride, side), acc);
        b.acc[at] = acc;
      });
}

}  // namespace
}  // namespace qmm
