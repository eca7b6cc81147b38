// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is measured: shapes and formats of weights, rows of activations.
#pragma once

#include <qmm/qmm.h>

#include <compare>
#include <cstdint>
#include <string>

namespace bench {

// W[n,k].
struct Shape {
  int64_t n, k;
  auto operator<=>(const Shape&) const = default;
};

inline std::string name_of(Shape shape) { return std::to_string(shape.n) + "x" + std::to_string(shape.k); }

// The shapes of two models: a layer of SmolLM2-135M (q and o; gate and up; down) with its vocabulary, and the
// attention of a model of 7 billion weights.
inline constexpr Shape kSmolLM2[] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
inline constexpr Shape kLlama7B = {4096, 4096};
inline constexpr int64_t kRows[] = {1, 4, 8, 16, 32, 128, 512};

// The narrowest weights, and the M, at which quantizing the lhs must be a small part.
inline constexpr Shape kNarrow = {1024, 4096};
inline constexpr int64_t kNarrowRows[] = {16, 128};

// Up to this M the weights come from memory, as in a model that is larger than the cache.
inline constexpr int64_t kMaxRotatedRows = 4;

// Shapes that divide by nothing, each after its round neighbour.
inline constexpr Shape kOdd[] = {{4096, 4096}, {4097, 4099}, {1024, 1024}, {1000, 1003}, {80, 320}, {77, 333}};
inline constexpr int64_t kOddRows[] = {1, 32, 128};

// Sweeps of one of M, N and K, the others as in kSweep.
inline constexpr int64_t kSweepRows = 32;
inline constexpr Shape kSweep = {2048, 2048};
inline constexpr int64_t kSweepOfRows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};
inline constexpr int64_t kSweepOfShape[] = {256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192};

struct Format {
  const char* name;
  int32_t bits;   // 32: floats, and no more is said
  int64_t group;  // 0: K, which is to say per channel
  int32_t offset;
  int32_t scale_dtype;
};

inline constexpr Format kF32 = {"f32", 32, 0, 0, 0};
inline constexpr Format kU4G32Mins = {"u4_g32_mins", 4, 32, QMM_MINS, QMM_F16};  // GGUF's Q4_1
inline constexpr Format kU4G32 = {"u4_g32", 4, 32, QMM_SYMMETRIC, QMM_F16};      // Q4_0
inline constexpr Format kU4G128 = {"u4_g128", 4, 128, QMM_SYMMETRIC, QMM_F16};   // GPTQ and AWQ
inline constexpr Format kU4Channel = {"u4_channel", 4, 0, QMM_SYMMETRIC, QMM_F32};
inline constexpr Format kS8G32 = {"s8_g32", 8, 32, QMM_SYMMETRIC, QMM_F16};  // Q8_0
inline constexpr Format kS8Channel = {"s8_channel", 8, 0, QMM_SYMMETRIC, QMM_F32};

constexpr qmm_rhs_desc describe(Shape shape, const Format& format) {
  const int64_t group = format.group == 0 ? shape.k : format.group;
  return {sizeof(qmm_rhs_desc), shape.n, shape.k, group, format.bits, format.offset, format.scale_dtype, 0};
}

}  // namespace bench
