// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights that own their arrays, and calls on them, for the tests of the C ABI.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "qmm/qmm.h"
#include "runtime/error.h"

namespace qmm::test {

inline qmm_rhs_desc make_desc(int64_t n, int64_t k, int64_t group, int bits, int offset = QMM_SYMMETRIC,
                              int scale_dtype = QMM_F32) {
  auto desc = sized<qmm_rhs_desc>();
  desc.n = n;
  desc.k = k;
  desc.group = group;
  desc.bits = bits;
  desc.offset = offset;
  desc.scale_dtype = scale_dtype;
  return desc;
}

// Calls use(bits, offset, scale dtype) for every format.
template <class Use>
void for_each_format(Use use) {
  for (const int bits : {4, 8})
    for (const int offset : {QMM_SYMMETRIC, QMM_ZEROS, QMM_MINS})
      for (const int scale_dtype : {QMM_F32, QMM_F16, QMM_BF16}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, offset " << offset << ", scale dtype " << scale_dtype);
        use(bits, offset, scale_dtype);
      }
}

// Stored as f32, f16 or bf16, for values that all of them hold exactly and f16 holds as a normal number, or 0.
inline void store(int dtype, void* values, size_t i, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t sign = bits >> 16 & 0x8000;
  const auto half = static_cast<uint16_t>(dtype == QMM_BF16  ? bits >> 16
                                          : (bits << 1) == 0 ? sign
                                                             : sign | ((bits & 0x7fffffff) - 0x38000000) >> 13);
  if (dtype == QMM_F32)
    std::memcpy(static_cast<uint8_t*>(values) + i * 4, &bits, 4);
  else
    std::memcpy(static_cast<uint8_t*>(values) + i * 2, &half, 2);
}

// Canonical weights: dense arrays, filled with `fill`.
struct Weights {
  explicit Weights(const qmm_rhs_desc& d, uint8_t fill = 0)
      : desc(d),
        groups(d.k == 0 ? 0 : (d.k + d.group - 1) / d.group),
        row_bytes((d.k * d.bits + 7) / 8),
        scale_size(d.scale_dtype == QMM_F32 ? 4 : 2),
        codes(static_cast<size_t>(d.n * row_bytes), fill),
        scales(static_cast<size_t>(d.n * groups * scale_size), fill),
        offsets(static_cast<size_t>(d.offset == QMM_SYMMETRIC ? 0
                                    : d.offset == QMM_ZEROS   ? d.n * groups
                                                              : d.n * groups * scale_size),
                fill) {}

  qmm_weights view() {
    auto view = sized<qmm_weights>();
    view.codes = codes.data();
    view.codes_stride = row_bytes;
    view.scales = scales.data();
    view.scales_stride = groups;
    view.offsets = offsets.empty() ? nullptr : offsets.data();
    view.offsets_stride = groups;
    return view;
  }

  void set_code(int64_t n, int64_t k, int code) {
    uint8_t& byte = codes[static_cast<size_t>(n * row_bytes + k * desc.bits / 8)];
    if (desc.bits == 8)
      byte = static_cast<uint8_t>(code);
    else
      byte = static_cast<uint8_t>(k % 2 == 0 ? (byte & 0xf0) | code : (byte & 0x0f) | code << 4);
  }
  void set_scale(int64_t n, int64_t g, float scale) {
    store(desc.scale_dtype, scales.data(), static_cast<size_t>(n * groups + g), scale);
  }
  void set_zero(int64_t n, int64_t g, int zero) {
    offsets[static_cast<size_t>(n * groups + g)] = static_cast<uint8_t>(zero);
  }
  void set_min(int64_t n, int64_t g, float min) {
    store(desc.scale_dtype, offsets.data(), static_cast<size_t>(n * groups + g), min);
  }

  // Any codes and zeros that are allowed; scales are powers of two and mins are eighths, which every dtype holds.
  void randomize(uint32_t seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    for (int64_t n = 0; n < desc.n; ++n) {
      for (int64_t k = 0; k < desc.k; ++k) set_code(n, k, desc.bits == 4 ? pick(0, 15) : pick(-128, 127));
      for (int64_t g = 0; g < groups; ++g) {
        set_scale(n, g, 1.0f / static_cast<float>(1 << pick(0, 6)));
        if (desc.offset == QMM_ZEROS) set_zero(n, g, desc.bits == 4 ? pick(0, 16) : pick(-128, 127));
        if (desc.offset == QMM_MINS) set_min(n, g, static_cast<float>(pick(-16, 16)) / 8);
      }
    }
  }

  qmm_rhs_desc desc;
  int64_t groups, row_bytes, scale_size;
  std::vector<uint8_t> codes, scales, offsets;
};

inline std::vector<uint8_t> pack(Weights& weights) {
  size_t size = 0;
  EXPECT_EQ(qmm_packed_size(&weights.desc, &size), QMM_OK) << qmm_last_error();
  std::vector<uint8_t> packed(size);
  const qmm_weights view = weights.view();
  EXPECT_EQ(qmm_pack(&weights.desc, &view, packed.data(), size), QMM_OK) << qmm_last_error();
  return packed;
}

inline qmm_rhs open(const std::vector<uint8_t>& packed) {
  auto rhs = sized<qmm_rhs>();
  EXPECT_EQ(qmm_rhs_open(packed.data(), packed.size(), &rhs), QMM_OK) << qmm_last_error();
  return rhs;
}

// Small integers, so that sums of products of them are exact in f32. The first of a row is 127: an lhs quantized to 8
// bits, of one group, is then exact too.
inline std::vector<float> integers(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<size_t>(rows * columns));
  for (float& value : x) value = static_cast<float>(std::uniform_int_distribution<int>(-127, 127)(random));
  for (size_t i = 0; i < x.size(); i += static_cast<size_t>(columns)) x[i] = 127;
  return x;
}

inline qmm_matmul_args make_args(int lhs_kind, int64_t m, const float* x, const qmm_rhs* rhs, float* y) {
  auto args = sized<qmm_matmul_args>();
  args.lhs_kind = lhs_kind;
  args.m = m;
  args.x = x;
  args.x_row_stride = rhs->desc.k;
  args.rhs = rhs;
  args.y = y;
  args.y_row_stride = rhs->desc.n;
  return args;
}

inline std::vector<float> matmul(int lhs_kind, int64_t m, const std::vector<float>& x, const qmm_rhs& rhs,
                                 const qmm_threads* threads = nullptr) {
  std::vector<float> y(static_cast<size_t>(m * rhs.desc.n));
  qmm_matmul_args args = make_args(lhs_kind, m, x.data(), &rhs, y.data());
  args.threads = threads;
  EXPECT_EQ(qmm_matmul(&args), QMM_OK) << qmm_last_error();
  return y;
}

// Whether a call failed as it should: with this status, and a sentence that holds all of `words`.
inline testing::AssertionResult refused(qmm_status got, qmm_status want, std::initializer_list<const char*> words) {
  if (got != want)
    return testing::AssertionFailure() << qmm_status_name(got) << " instead of " << qmm_status_name(want);
  const std::string sentence = qmm_last_error();
  for (const char* word : words)
    if (sentence.find(word) == std::string::npos)
      return testing::AssertionFailure() << "no '" << word << "' in '" << sentence << "'";
  return testing::AssertionSuccess();
}

}  // namespace qmm::test
