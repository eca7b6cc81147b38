// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The scalar arithmetic of the numerics contract, written out so that no libm and no compiler flag decides a bit.
// Compile everything that includes this with -ffp-contract=off.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__FAST_MATH__)
#error "-ffast-math would change the results"
#endif

namespace qmm {

enum class Scale : int { F32, F16, BF16 };  // QMM_F32 ...

// Files of different ISAs include this. Each has its own copy of what is in here, or else a linker could take the copy
// of one ISA for all.
namespace {

template <class To, class From>
inline To bit_copy(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Fused multiply-add, rounded once.
inline float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  // a*b is exact in double. The sum is rounded to odd (its error is found by TwoSum, and an inexact even significand
  // moves one step towards the error), after which the second rounding, to float, is as if it were the only one.
  const double p = static_cast<double>(a) * b;
  const double s = p + c;
  const double pp = s - c;
  const double error = (p - pp) + (c - (s - pp));
  auto bits = bit_copy<uint64_t>(s);
  const bool finite = (bits & 0x7ff0000000000000) != 0x7ff0000000000000;
  if (finite && error != 0 && (bits & 1) == 0) bits += (error > 0) == (s > 0) ? 1 : uint64_t(-1);
  return static_cast<float>(bit_copy<double>(bits));
#endif
}

// Rounds half to even, for |x| <= 2^22: adding 1.5 * 2^23 leaves no room for a fraction.
inline float round_even(float x) {
  const float magic = 12582912.0f;
  return (x + magic) - magic;
}

inline bool is_finite(float x) { return (bit_copy<uint32_t>(x) & 0x7f800000) != 0x7f800000; }

// IEEE binary16 to float, exact.
inline float from_f16(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, magnitude = h & 0x7fffu;
  // Shifted into place the exponent is 112 too small; a multiplication by 2^112 mends it, and subnormals with it.
  float f = bit_copy<float>(magnitude << 13) * 0x1p112f;
  if (magnitude >= 0x7c00) f = bit_copy<float>(0x7f800000u | (magnitude & 0x3ff) << 13);
  return bit_copy<float>(bit_copy<uint32_t>(f) | sign);
}

// Float to IEEE binary16, half to even; too large becomes infinity.
inline uint16_t to_f16(float f) {
  const uint32_t bits = bit_copy<uint32_t>(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // subnormal: in units of 2^-24, rounded by the addition of 0.5
    const float shifted = bit_copy<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bit_copy<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

inline float from_bf16(uint16_t h) { return bit_copy<float>(uint32_t(h) << 16); }

// Float to bfloat16, half to even, by integer rounding: subnormals are kept.
inline uint16_t to_bf16(float f) {
  const uint32_t bits = bit_copy<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Element i of an array of scales or mins.
inline float widen(Scale type, const void* values, int64_t i) {
  const auto* bytes = static_cast<const unsigned char*>(values);
  if (type == Scale::F32) {
    float f;
    std::memcpy(&f, bytes + i * 4, 4);
    return f;
  }
  uint16_t h;
  std::memcpy(&h, bytes + i * 2, 2);
  return type == Scale::F16 ? from_f16(h) : from_bf16(h);
}

}  // namespace
}  // namespace qmm
