// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numerics contract of an 8-bit lhs: inverse = 127 / amax, code = round-half-even(x * inverse), scale = amax / 127.
// amax is taken on the bits of |x|, so that a NaN is the largest. Where it is 0, or so small that the inverse
// overflows, codes and scale are 0; where it is not finite, codes are 0 and the scale is NaN.
#include "../kernel.h"

namespace qmm {
namespace {

struct Factors {
  float inverse;  // 0: all codes are 0
  float scale;
};

Factors factors(const float* x, int64_t stride, int64_t count) {
  uint32_t bits = 0;
  for (int64_t k = 0; k < count; ++k) {
    const uint32_t magnitude = bit_copy<uint32_t>(x[k * stride]) & 0x7fffffff;
    bits = magnitude > bits ? magnitude : bits;
  }
  const auto amax = bit_copy<float>(bits);
  if (!is_finite(amax)) return {0, __builtin_nanf("")};
  const float inverse = 127.0f / amax;
  if (!is_finite(inverse)) return {0, 0};
  return {inverse, amax / 127.0f};
}

// Returns the sum of the codes.
int32_t quantize(const float* x, int64_t stride, int64_t count, float inverse, int8_t* codes) {
  int32_t sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    const int32_t code = inverse == 0 ? 0 : static_cast<int32_t>(round_even(x[k * stride] * inverse));
    codes[k] = static_cast<int8_t>(code);
    sum += code;
  }
  return sum;
}

}  // namespace
}  // namespace qmm

void qmm::qmm_s8_f32_1x1_scalar(const QuantizedRow& r) {
  Factors f = {};
  if (r.token_scale != nullptr) {
    f = factors(r.x, r.stride, r.k);
    *r.token_scale = f.scale;
    f.scale = 1;
  }
  for_each_segment(r, [&](int64_t segment, int64_t k, int64_t count, bool first, int64_t group) {
    if (first && r.token_scale == nullptr) f = factors(r.x + k * r.stride, r.stride, group);
    r.sums[segment] = quantize(r.x + k * r.stride, r.stride, count, f.inverse, r.codes + k);
    r.scales[segment] = f.scale;
  });
}
