// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The matmul a second time, from the words of qmm.h alone: nothing here is shared with the library. Each number is kept
// twice, as the float that the contract asks for and as the value that no rounding has touched, with a proven bound on
// how far apart they may be. The first tests the order of operations, the second what they compute.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "qmm/qmm.h"

namespace qmm::test {

struct Number {
  float contract = 0;
  long double value = 0;
  long double error = 0;  // |contract - value| <= error
  bool exact = true;      // contract == value

  Number() = default;
  explicit Number(float x) : contract(x), value(x) {}
  explicit Number(int64_t i) : contract(static_cast<float>(i)), value(static_cast<long double>(i)) {
    error = std::fabs(contract - value);
    exact = error == 0;
  }
};

// a * b + c, rounded once.
//
// The operands' errors carry over to |a| eb + |b| ea + ea eb + ec. Then the result is rounded: where the operands are
// exact, by just what the rounding takes off; otherwise by up to half a unit in the last place, 2^-24 of the magnitude
// or 2^-150 where subnormal. Long double rounds, too: at most 2^-63 of each term here, whatever comes after.
inline Number fma(const Number& a, const Number& b, const Number& c) {
  Number r;
  r.contract = std::fma(a.contract, b.contract, c.contract);
  const long double product = a.value * b.value;
  r.value = product + c.value;
  const long double carried = std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error + c.error;
  const bool exact = a.exact && b.exact && c.exact;
  const long double rounding =
      exact ? std::fabs(static_cast<float>(r.value) - r.value) : 0x1p-24L * (std::fabs(r.value) + carried) + 0x1p-150L;
  r.error = carried + rounding + 0x1p-62L * (std::fabs(product) + std::fabs(c.value));
  r.exact = exact && rounding == 0;
  return r;
}

// a * b: -0 is what can be added to anything without a trace.
inline Number multiply(const Number& a, const Number& b) { return fma(a, b, Number(-0.0f)); }
inline Number add(const Number& a, const Number& b) { return fma(a, Number(1.0f), b); }

// IEEE binary16 and bfloat16 by their definitions.
inline float decode_half(uint16_t h, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, largest = (1 << exponent_bits) - 1, bias = largest / 2;
  const int exponent = h >> fraction_bits & largest, fraction = h & ((1 << fraction_bits) - 1);
  float magnitude;
  if (exponent == largest)
    magnitude = fraction == 0 ? HUGE_VALF : NAN;
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits);
  else
    magnitude = std::ldexp(static_cast<float>(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
  return h >> 15 != 0 ? -magnitude : magnitude;
}
inline float decode_f16(uint16_t h) { return decode_half(h, 5); }
inline float decode_bf16(uint16_t h) { return decode_half(h, 8); }

// Canonical weights, read element by element.
struct CanonicalWeights {
  qmm_rhs_desc desc;
  qmm_weights arrays;

  int code(int64_t n, int64_t k) const {
    const auto* row = static_cast<const uint8_t*>(arrays.codes) + n * arrays.codes_stride;
    if (desc.bits == 8) return row[k] < 128 ? row[k] : row[k] - 256;
    return k % 2 == 0 ? row[k / 2] % 16 : row[k / 2] / 16;
  }
  int zero(int64_t n, int64_t g) const {
    if (desc.offset == QMM_ZEROS) return static_cast<const int8_t*>(arrays.offsets)[n * arrays.offsets_stride + g];
    return desc.offset == QMM_SYMMETRIC && desc.bits == 4 ? 8 : 0;
  }
  float scale(int64_t n, int64_t g) const { return real(arrays.scales, n * arrays.scales_stride + g); }
  float min(int64_t n, int64_t g) const { return real(arrays.offsets, n * arrays.offsets_stride + g); }

 private:
  float real(const void* array, int64_t i) const {
    if (desc.scale_dtype == QMM_F32) return static_cast<const float*>(array)[i];
    const uint16_t h = static_cast<const uint16_t*>(array)[i];
    return desc.scale_dtype == QMM_F16 ? decode_f16(h) : decode_bf16(h);
  }
};

// A run of x as 8-bit codes.
struct QuantizedRun {
  std::vector<int> codes;
  float scale = 0;
};
inline QuantizedRun quantize_run(const float* x, int64_t count) {
  float amax = 0;
  bool finite = true;
  for (int64_t k = 0; k < count; ++k) {
    finite = finite && std::isfinite(x[k]);
    amax = std::fmax(amax, std::fabs(x[k]));
  }
  QuantizedRun run = {std::vector<int>(static_cast<size_t>(count), 0), 0};
  if (!finite) {
    run.scale = NAN;
  } else if (amax > 0 && std::isfinite(127 / amax)) {
    run.scale = amax / 127;
    const float inverse = 127 / amax;
    for (int64_t k = 0; k < count; ++k)
      run.codes[static_cast<size_t>(k)] = static_cast<int>(std::lrint(x[k] * inverse));
  }
  return run;
}

// Y[., n] for n = 0 .. N-1, of one row x[k].
inline std::vector<Number> oracle_row(const CanonicalWeights& w, int32_t lhs_kind, const float* x, const float* bias) {
  const qmm_rhs_desc& d = w.desc;
  const int64_t groups = d.k == 0 ? 0 : (d.k + d.group - 1) / d.group;
  const auto group_end = [&](int64_t g) { return std::min((g + 1) * d.group, d.k); };

  std::vector<int> a;           // lhs codes
  std::vector<float> a_scales;  // by group
  QuantizedRun token;
  if (lhs_kind == QMM_LHS_S8_TOKEN) {
    token = quantize_run(x, d.k);
    a = token.codes;
    a_scales.assign(static_cast<size_t>(groups), 1.0f);
  } else if (lhs_kind == QMM_LHS_S8) {
    for (int64_t g = 0; g < groups; ++g) {
      const QuantizedRun run = quantize_run(x + g * d.group, group_end(g) - g * d.group);
      a.insert(a.end(), run.codes.begin(), run.codes.end());
      a_scales.push_back(run.scale);
    }
  }

  std::vector<Number> y;
  for (int64_t n = 0; n < d.n; ++n) {
    Number acc;
    for (int64_t g = 0; g < groups; ++g) {
      const Number scale(w.scale(n, g));
      const int zero = w.zero(n, g);
      if (lhs_kind == QMM_LHS_F32) {
        Number t, sum;
        for (int64_t k = g * d.group; k < group_end(g); ++k) {
          t = fma(Number(x[k]), Number(int64_t(w.code(n, k) - zero)), t);
          if (d.offset == QMM_MINS) sum = add(Number(x[k]), sum);
        }
        acc = fma(t, scale, acc);
        if (d.offset == QMM_MINS) acc = fma(sum, Number(w.min(n, g)), acc);
        continue;
      }
      const Number a_scale(a_scales[static_cast<size_t>(g)]);
      for (int64_t begin = g * d.group; begin < group_end(g); begin += 16384) {
        int64_t products = 0, sum = 0;
        for (int64_t k = begin; k < std::min(begin + 16384, group_end(g)); ++k) {
          products += int64_t(a[static_cast<size_t>(k)]) * (w.code(n, k) - zero);
          sum += a[static_cast<size_t>(k)];
        }
        acc = fma(multiply(Number(products), a_scale), scale, acc);
        if (d.offset == QMM_MINS) acc = fma(multiply(Number(sum), a_scale), Number(w.min(n, g)), acc);
      }
    }
    if (lhs_kind == QMM_LHS_S8_TOKEN) acc = multiply(acc, Number(token.scale));
    if (bias != nullptr) acc = add(acc, Number(bias[n]));
    y.push_back(acc);
  }
  return y;
}

}  // namespace qmm::test
