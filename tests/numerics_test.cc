// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kernels/numerics.h against libm and against definitions.
#undef __FMA__  // the fma in software, even where the compiler may use the instruction
#include "kernels/numerics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

namespace qmm {
namespace {

class Random {
 public:
  uint32_t bits() { return static_cast<uint32_t>(engine_()); }
  // +-1.fraction * 2^exponent, exponent in [lo, hi] and within the range of float; -127 is subnormal.
  float real(int lo, int hi) {
    const uint32_t exponent = static_cast<uint32_t>(std::uniform_int_distribution<int>(lo, hi)(engine_) + 127);
    return bit_copy<float>((bits() & 0x807fffff) | exponent << 23);
  }
  int integer(int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(engine_); }

 private:
  std::mt19937_64 engine_{20240229};
};

testing::AssertionResult fma_is_right(float a, float b, float c) {
  const float got = fma(a, b, c), want = std::fma(a, b, c);
  if (std::isnan(want) ? std::isnan(got) : bit_copy<uint32_t>(got) == bit_copy<uint32_t>(want))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << std::hexfloat << "fma(" << a << ", " << b << ", " << c << ") is " << got
                                     << ", not " << want;
}

TEST(Fma, SpecialValues) {
  std::vector<float> values;
  for (const uint32_t bits :
       {0x00000000u, 0x00000001u, 0x00000002u, 0x00000003u, 0x00400000u, 0x007fffffu, 0x00800000u,
        0x00800001u, 0x00ffffffu, 0x01000000u, 0x1f800000u, 0x1fffffffu, 0x20000000u, 0x33800000u,
        0x33800001u, 0x34000000u, 0x3f000000u, 0x3f7fffffu, 0x3f800000u, 0x3f800001u, 0x3fffffffu,
        0x40000000u, 0x4b000000u, 0x4b800001u, 0x5f000000u, 0x5f7fffffu, 0x5f800000u, 0x7e7fffffu,
        0x7e800000u, 0x7f000000u, 0x7f7ffffeu, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u, 0x7f800001u})
    for (const uint32_t sign : {0u, 0x80000000u}) values.push_back(bit_copy<float>(bits | sign));
  for (const float a : values)
    for (const float b : values)
      for (const float c : values) ASSERT_TRUE(fma_is_right(a, b, c));
}

TEST(Fma, RandomBits) {
  Random random;
  for (int i = 0; i < 3000000; ++i)
    ASSERT_TRUE(
        fma_is_right(bit_copy<float>(random.bits()), bit_copy<float>(random.bits()), bit_copy<float>(random.bits())));
}

// Terms of like size, as in a dot product; and results that are subnormal, or just too large.
TEST(Fma, LikeSizes) {
  Random random;
  for (int i = 0; i < 2000000; ++i) {
    ASSERT_TRUE(fma_is_right(random.real(-3, 3), random.real(-3, 3), random.real(-30, 30)));
    ASSERT_TRUE(fma_is_right(random.real(-75, -70), random.real(-80, -50), random.real(-127, -120)));
    ASSERT_TRUE(fma_is_right(random.real(60, 67), random.real(55, 62), random.real(120, 127)));
  }
}

// c close to -a * b, and a rounding of it, so that little or nothing is left.
TEST(Fma, Cancellation) {
  Random random;
  for (int i = 0; i < 2000000; ++i) {
    const float a = random.real(-60, 60), b = random.real(-60, 60);
    const uint32_t bits = bit_copy<uint32_t>(-(a * b)) + static_cast<uint32_t>(random.integer(-2, 2));
    ASSERT_TRUE(fma_is_right(a, b, bit_copy<float>(bits)));
  }
}

// a * b is half a unit in the last place of c, or misses it by as little as can be: what a second rounding gets wrong.
TEST(Fma, Halfway) {
  Random random;
  for (int i = 0; i < 2000000; ++i) {
    const float c = random.real(-127, 100);
    const int unit = std::max(std::ilogb(c), -126) - 24;  // log2 of the half
    const int split = random.integer(-20, 20);
    const auto near_one = [&] { return bit_copy<float>(0x3f800000 + static_cast<uint32_t>(random.integer(-1, 1))); };
    const float a = std::ldexp(near_one(), unit / 2 + split), b = std::ldexp(near_one(), unit - unit / 2 - split);
    ASSERT_TRUE(fma_is_right(a, b, c));
    ASSERT_TRUE(fma_is_right(-a, b, c));
  }
}

// The value of a half by its definition; infinity is what comes after the largest, so that midpoints have a meaning.
double half_value(int magnitude, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = magnitude >> fraction_bits, fraction = magnitude & ((1 << fraction_bits) - 1);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                       : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

struct Half {
  int exponent_bits;
  float (*decode)(uint16_t);
  uint16_t (*encode)(float);
  int infinity;
};
void PrintTo(const Half& half, std::ostream* out) { *out << half.exponent_bits << " exponent bits"; }

class Halves : public testing::TestWithParam<Half> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Halves,
                         testing::Values(Half{5, from_f16, to_f16, 0x7c00}, Half{8, from_bf16, to_bf16, 0x7f80}),
                         [](const auto& info) { return info.param.exponent_bits == 5 ? "F16" : "BF16"; });

TEST_P(Halves, EveryValue) {
  const Half& half = GetParam();
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    const int magnitude = bits & 0x7fff;
    const float f = half.decode(h);
    ASSERT_EQ(std::signbit(f), bits >> 15 != 0) << bits;
    if (magnitude > half.infinity) {
      ASSERT_TRUE(std::isnan(f)) << bits;
      ASSERT_GT(half.encode(f) & 0x7fff, half.infinity) << bits;
      ASSERT_EQ(half.encode(f) >> 15, bits >> 15) << bits;
      continue;
    }
    if (magnitude == half.infinity)
      ASSERT_TRUE(std::isinf(f)) << bits;
    else
      ASSERT_EQ(std::fabs(static_cast<double>(f)), half_value(magnitude, half.exponent_bits)) << bits;
    ASSERT_EQ(half.encode(f), h);
  }
}

// Between each two neighbours: the middle goes to the even one, and a float beside it to the nearer one.
TEST_P(Halves, RoundsHalfToEven) {
  const Half& half = GetParam();
  const float infinity = std::numeric_limits<float>::infinity();
  for (int lower = 0; lower < half.infinity; ++lower) {
    const double sum = half_value(lower, half.exponent_bits) + half_value(lower + 1, half.exponent_bits);
    const auto middle = static_cast<float>(sum / 2);
    ASSERT_EQ(middle, sum / 2) << lower;
    for (const int sign : {0, 0x8000}) {
      const auto encode = [&](float magnitude) { return half.encode(sign != 0 ? -magnitude : magnitude) - sign; };
      ASSERT_EQ(encode(middle), lower % 2 == 0 ? lower : lower + 1) << lower;
      ASSERT_EQ(encode(std::nextafter(middle, 0.0f)), lower) << lower;
      ASSERT_EQ(encode(std::nextafter(middle, infinity)), lower + 1) << lower;
    }
  }
  EXPECT_EQ(half.encode(std::numeric_limits<float>::max()), half.infinity);
}

// A NaN whose payload lies in the low bits alone must not become infinity.
TEST_P(Halves, NanStaysNan) {
  const Half& half = GetParam();
  for (const uint32_t payload : {1u, 0x1fffu, 0x2000u, 0xffffu, 0x3fffffu, 0x400000u, 0x7fffffu})
    for (const uint32_t sign : {0u, 0x80000000u})
      EXPECT_GT(half.encode(bit_copy<float>(0x7f800000u | payload | sign)) & 0x7fff, half.infinity) << payload;
}

TEST(RoundEven, EqualsNearbyint) {
  Random random;
  for (int i = -40000; i <= 40000; ++i) {
    const float half = static_cast<float>(i) / 2;
    for (const float x : {half, std::nextafter(half, -1e9f), std::nextafter(half, 1e9f)})
      ASSERT_EQ(round_even(x), std::nearbyint(x)) << x;
  }
  for (int i = 0; i < 1000000; ++i) {
    const float x = random.real(-40, 21);
    ASSERT_EQ(round_even(x), std::nearbyint(x)) << x;
  }
  EXPECT_EQ(round_even(0x1p22f), 0x1p22f);
  EXPECT_EQ(round_even(-0x1p22f), -0x1p22f);
}

TEST(IsFinite, EqualsIsfinite) {
  Random random;
  for (int i = 0; i < 100000; ++i) {
    const float x = bit_copy<float>(random.bits());
    ASSERT_EQ(is_finite(x), std::isfinite(x)) << x;
  }
  for (const float x : {INFINITY, -INFINITY, NAN}) EXPECT_FALSE(is_finite(x));
  for (const float x : {0.0f, 1e-45f, std::numeric_limits<float>::max()}) EXPECT_TRUE(is_finite(x));
}

TEST(Widen, ReadsAtAnyAddress) {
  alignas(8) unsigned char bytes[16] = {};
  const float f = -1.25f;
  const uint16_t f16 = 0xbd00, bf16 = 0xbfa0;  // the same
  std::memcpy(bytes + 1 + 2 * 4, &f, 4);
  EXPECT_EQ(widen(Scale::F32, bytes + 1, 2), f);
  std::memcpy(bytes + 1 + 2 * 2, &f16, 2);
  EXPECT_EQ(widen(Scale::F16, bytes + 1, 2), f);
  std::memcpy(bytes + 1 + 2 * 2, &bf16, 2);
  EXPECT_EQ(widen(Scale::BF16, bytes + 1, 2), f);
}

}  // namespace
}  // namespace qmm
