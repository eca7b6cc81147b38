// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numerics contract of an 8-bit lhs: inverse = 127 / amax, code = round-half-even(x * inverse), scale = amax / 127.
// amax is taken on the bits of |x|, so that a NaN is the largest. Where it is 0, or so small that the inverse
// overflows, codes and scale are 0; where it is not finite, codes are 0 and the scale is NaN.
#pragma once

#include "kernel.h"

namespace qmm {

// A row of X to quantize, and where its codes go. A segment is a group, or kMaxSegment of its k where it is longer.
struct QuantizedRow {
  const float* x;
  int64_t stride;  // elements
  int64_t k;
  int64_t group;       // a multiple of 8
  int8_t* codes;       // room for k rounded up to a multiple of 8
  float* scales;       // [segments]; 1 where the row has one scale
  int32_t* sums;       // [segments], of the codes
  float* token_scale;  // the scale of the row, or nullptr where each group has its own
};

namespace {

struct Factors {
  float inverse;  // 0: all codes are 0
  float scale;
};

inline Factors factors_of(float amax) {
  if (!is_finite(amax)) return {0, __builtin_nanf("")};
  const float inverse = 127.0f / amax;
  if (!is_finite(inverse)) return {0, 0};
  return {inverse, amax / 127.0f};
}

// Quantizes a row with an ISA's find_amax(x, count) and quantize(x, count, inverse, codes), which returns the sum.
template <class FindAmax, class Quantize>
inline __attribute__((always_inline)) void quantize_row(const QuantizedRow& r, FindAmax find_amax, Quantize quantize) {
  Factors f = {};
  if (r.token_scale != nullptr) {
    f = factors_of(find_amax(r.x, r.k));
    *r.token_scale = f.scale;
    f.scale = 1;
  }
  int64_t segment = 0;
  for (int64_t begin = 0; begin < r.k; begin += r.group) {
    const int64_t end = r.k - begin < r.group ? r.k : begin + r.group;
    if (r.token_scale == nullptr) f = factors_of(find_amax(r.x + begin * r.stride, end - begin));
    for (int64_t k = begin; k < end; k += kMaxSegment, ++segment) {
      const int64_t count = end - k < kMaxSegment ? end - k : kMaxSegment;
      r.sums[segment] = quantize(r.x + k * r.stride, count, f.inverse, r.codes + k);
      r.scales[segment] = f.scale;
    }
  }
}

}  // namespace
}  // namespace qmm
