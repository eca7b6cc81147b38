// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is measured: the weights of two models, in the formats that such models come in.
#pragma once

#include <qmm/qmm.h>

#include <cstdint>

namespace bench {

// W[n,k].
struct Shape {
  int64_t n, k;
};

inline constexpr Shape kSmolLM2[] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
inline constexpr Shape kLlama7B[] = {{4096, 4096}, {11008, 4096}, {4096, 11008}};
inline constexpr int64_t kRows[] = {1, 4, 32, 128, 512};

// Up to this M the weights come from memory, as in a model that is larger than the cache.
inline constexpr int64_t kMaxRotatedRows = 4;

struct Format {
  const char* name;
  int32_t bits;
  int64_t group;
  int32_t offset;
};

inline constexpr Format kU4G32Mins = {"u4_g32_mins", 4, 32, QMM_MINS};  // GGUF's Q4_1
inline constexpr Format kU4G32 = {"u4_g32", 4, 32, QMM_SYMMETRIC};      // Q4_0
inline constexpr Format kU4G128 = {"u4_g128", 4, 128, QMM_SYMMETRIC};   // GPTQ and AWQ
inline constexpr Format kS8G32 = {"s8_g32", 8, 32, QMM_SYMMETRIC};      // Q8_0

inline constexpr Format kSmolLM2Formats[] = {kU4G32Mins, kU4G128, kS8G32};
inline constexpr Format kLlama7BFormats[] = {kU4G32, kU4G128, kS8G32};

constexpr qmm_rhs_desc describe(Shape shape, const Format& format) {
  return {sizeof(qmm_rhs_desc), shape.n, shape.k, format.group, format.bits, format.offset, QMM_F16, 0};
}

struct LhsKind {
  const char* name;
  int32_t kind;
};
inline constexpr LhsKind kLhsKinds[] = {{"lhs_f32", QMM_LHS_F32}, {"lhs_s8", QMM_LHS_S8}};

}  // namespace bench
