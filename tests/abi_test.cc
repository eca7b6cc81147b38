// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C functions: each refuses what qmm.h says it refuses, with a sentence that has the numbers, and writes nothing;
// and what they promise of themselves beside the arithmetic.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <limits>
#include <thread>

#include "guarded.h"
#include "oracle.h"
#include "weights.h"

// The linker sends all calls in this program here (--wrap): what allocates can be counted, and made to fail.
namespace {
std::atomic<int64_t> allocations{0};
std::atomic<bool> no_memory{false};
}  // namespace
extern "C" {
#define QMM_COUNT(name, parameters, ...)                     \
  void* __real_##name parameters;                            \
  void* __wrap_##name parameters;                            \
  void* __wrap_##name parameters {                           \
    allocations.fetch_add(1);                                \
    return no_memory ? nullptr : __real_##name(__VA_ARGS__); \
  }
QMM_COUNT(malloc, (size_t size), size)
QMM_COUNT(calloc, (size_t count, size_t size), count, size)
QMM_COUNT(realloc, (void* memory, size_t size), memory, size)
QMM_COUNT(aligned_alloc, (size_t alignment, size_t size), alignment, size)
#undef QMM_COUNT
}

namespace qmm::test {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr int64_t kMany = int64_t(1) << 40;  // the largest extent
constexpr float kInf = std::numeric_limits<float>::infinity();

// ---- what every function refuses of a desc and of weights ----------------------------------------------------------

struct BadDesc {
  const char* name;
  std::function<void(qmm_rhs_desc&)> damage;
  std::initializer_list<const char*> words;
};

const BadDesc kBadDescs[] = {
    {"struct_size", [](auto& d) { d.struct_size = sizeof d - 1; }, {"struct_size of desc is 47", "48"}},
    {"unset struct_size", [](auto& d) { d.struct_size = 0; }, {"struct_size of desc is 0"}},
    {"negative n", [](auto& d) { d.n = -3; }, {"[-3, 40]"}},
    {"negative k", [](auto& d) { d.k = d.group = -8; }, {"[20, -8]"}},
    {"n too large", [](auto& d) { d.n = kMany + 1; }, {"1099511627777", "2^40"}},
    {"k too large", [](auto& d) { d.k = kHuge; }, {"9223372036854775807", "2^40"}},
    {"size overflows", [](auto& d) { d.n = d.k = kMany; }, {"[1099511627776, 1099511627776]", "2^63"}},
    {"bits 0", [](auto& d) { d.bits = 0; }, {"bits is 0"}},
    {"bits 5", [](auto& d) { d.bits = 5; }, {"bits is 5", "4 or 8"}},
    {"offset below", [](auto& d) { d.offset = -1; }, {"offset is -1"}},
    {"offset above", [](auto& d) { d.offset = 3; }, {"offset is 3", "0 to 2"}},
    {"scale_dtype below", [](auto& d) { d.scale_dtype = -1; }, {"scale_dtype is -1"}},
    {"scale_dtype above", [](auto& d) { d.scale_dtype = 3; }, {"scale_dtype is 3", "0 to 2"}},
    {"group 0", [](auto& d) { d.group = 0; }, {"group is 0", "k = 40"}},
    {"group negative", [](auto& d) { d.group = -8; }, {"group is -8"}},
    {"group odd", [](auto& d) { d.group = 12; }, {"group is 12", "multiple of 8"}},
    {"group above k", [](auto& d) { d.group = 48; }, {"group is 48", "k = 40"}},
    {"group of no k", [](auto& d) { d.k = 0; }, {"group is 8", "k = 0"}},
    {"reserved", [](auto& d) { d.reserved = 7; }, {"reserved is 7"}},
};

// Calls use(desc, words) with every bad desc.
void for_each_bad_desc(const std::function<void(const qmm_rhs_desc*, std::initializer_list<const char*>)>& use) {
  use(nullptr, {"desc is null"});
  for (const BadDesc& bad : kBadDescs) {
    SCOPED_TRACE(bad.name);
    qmm_rhs_desc desc = make_desc(20, 40, 8, 4);
    bad.damage(desc);
    use(&desc, bad.words);
  }
}

struct BadWeights {
  const char* name;
  std::function<void(qmm_weights&)> damage;
  std::initializer_list<const char*> words;
};

const BadWeights kBadWeights[] = {
    {"struct_size", [](auto& w) { w.struct_size = 55; }, {"struct_size of weights is 55", "56"}},
    {"no codes", [](auto& w) { w.codes = nullptr; }, {"codes of shape [20, 20] are null"}},
    {"no scales", [](auto& w) { w.scales = nullptr; }, {"scales of shape [20, 5] are null"}},
    {"no zeros", [](auto& w) { w.offsets = nullptr; }, {"zeros of shape [20, 5] are null"}},
    {"negative stride", [](auto& w) { w.scales_stride = -5; }, {"stride of scales is -5", "negative"}},
    {"codes_stride", [](auto& w) { w.codes_stride = 19; }, {"stride of codes is 19", "[20, 20]"}},
    {"scales_stride", [](auto& w) { w.scales_stride = 4; }, {"stride of scales is 4", "[20, 5]"}},
    {"offsets_stride", [](auto& w) { w.offsets_stride = 4; }, {"stride of zeros is 4", "[20, 5]"}},
    {"codes overflow", [](auto& w) { w.codes_stride = kHuge; }, {"stride of codes is 9223372036854775807"}},
    {"scales overflow", [](auto& w) { w.scales_stride = kHuge / 19 - 5; }, {"stride of scales is", "overflow"}},
    {"zeros overflow", [](auto& w) { w.offsets_stride = kHuge / 2; }, {"stride of zeros is", "overflow"}},
};

const qmm_rhs_desc kDesc = make_desc(20, 40, 8, 4, QMM_ZEROS);

void for_each_bad_weights(Weights& weights,
                          const std::function<void(const qmm_weights*, std::initializer_list<const char*>)>& use) {
  use(nullptr, {"weights is null"});
  for (const BadWeights& bad : kBadWeights) {
    SCOPED_TRACE(bad.name);
    qmm_weights view = weights.view();
    bad.damage(view);
    use(&view, bad.words);
  }
}

bool all_are(const std::vector<uint8_t>& bytes, uint8_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](uint8_t byte) { return byte == value; });
}
bool all_are(const Weights& w, uint8_t value) {
  return all_are(w.codes, value) && all_are(w.scales, value) && all_are(w.offsets, value);
}

// ---- refusals, function by function --------------------------------------------------------------------------------

TEST(PackedSize, Refuses) {
  size_t size = 77;
  for_each_bad_desc([&](const qmm_rhs_desc* desc, auto words) {
    EXPECT_TRUE(refused(qmm_packed_size(desc, &size), QMM_INVALID_ARGUMENT, words));
    EXPECT_TRUE(refused(QMM_INVALID_ARGUMENT, QMM_INVALID_ARGUMENT, {"qmm_packed_size: "}));
  });
  EXPECT_EQ(size, 77u);
  EXPECT_TRUE(refused(qmm_packed_size(&kDesc, nullptr), QMM_INVALID_ARGUMENT, {"qmm_packed_size: size is null"}));
}

TEST(Pack, Refuses) {
  Weights weights(kDesc);
  std::vector<uint8_t> packed(1 << 14, 0xa5);
  const qmm_weights view = weights.view();
  for_each_bad_desc([&](const qmm_rhs_desc* desc, auto words) {
    EXPECT_TRUE(refused(qmm_pack(desc, &view, packed.data(), packed.size()), QMM_INVALID_ARGUMENT, words));
  });
  for_each_bad_weights(weights, [&](const qmm_weights* bad, auto words) {
    EXPECT_TRUE(refused(qmm_pack(&kDesc, bad, packed.data(), packed.size()), QMM_INVALID_ARGUMENT, words));
  });
  EXPECT_TRUE(refused(qmm_pack(&kDesc, &view, nullptr, packed.size()), QMM_INVALID_ARGUMENT, {"packed is null"}));
  size_t size;
  ASSERT_EQ(qmm_packed_size(&kDesc, &size), QMM_OK);
  EXPECT_TRUE(refused(qmm_pack(&kDesc, &view, packed.data(), size - 1), QMM_INVALID_ARGUMENT,
                      {std::to_string(size - 1).c_str(), std::to_string(size).c_str()}));
  for (const int zero : {-1, 17, 127, -128}) {
    weights.set_zero(19, 4, zero);
    EXPECT_TRUE(refused(qmm_pack(&kDesc, &view, packed.data(), packed.size()), QMM_INVALID_ARGUMENT,
                        {("[19, 4] is " + std::to_string(zero)).c_str(), "0 to 16"}));
  }
  weights.set_zero(19, 4, 16);
  EXPECT_TRUE(all_are(packed, 0xa5));
  EXPECT_EQ(qmm_pack(&kDesc, &view, packed.data(), size), QMM_OK);

  const qmm_rhs_desc symmetric = make_desc(20, 40, 8, 4);
  EXPECT_TRUE(refused(qmm_pack(&symmetric, &view, packed.data(), packed.size()), QMM_INVALID_ARGUMENT,
                      {"offsets are given", "QMM_SYMMETRIC"}));
}

// Strides of a single row are not read.
TEST(Pack, AcceptsAnyStrideOfOneRow) {
  Weights weights(make_desc(1, 40, 8, 4, QMM_ZEROS));
  weights.randomize(1);
  const std::vector<uint8_t> expected = pack(weights);
  qmm_weights view = weights.view();
  view.codes_stride = view.scales_stride = 0;
  view.offsets_stride = kHuge;
  std::vector<uint8_t> packed(expected.size());
  EXPECT_EQ(qmm_pack(&weights.desc, &view, packed.data(), packed.size()), QMM_OK) << qmm_last_error();
  EXPECT_EQ(packed, expected);
}

TEST(RhsOpen, Refuses) {
  Weights weights(kDesc);
  const std::vector<uint8_t> packed = pack(weights);
  qmm_rhs rhs = {};
  rhs.struct_size = sizeof rhs - 1;
  EXPECT_TRUE(refused(qmm_rhs_open(packed.data(), packed.size(), &rhs), QMM_INVALID_ARGUMENT,
                      {("struct_size of rhs is " + std::to_string(sizeof rhs - 1)).c_str()}));
  rhs.struct_size = sizeof rhs;
  EXPECT_TRUE(refused(qmm_rhs_open(nullptr, packed.size(), &rhs), QMM_INVALID_ARGUMENT, {"packed is null"}));
  EXPECT_TRUE(refused(qmm_rhs_open(packed.data(), packed.size(), nullptr), QMM_INVALID_ARGUMENT, {"rhs is null"}));
  EXPECT_TRUE(refused(qmm_rhs_open(packed.data(), 255, &rhs), QMM_INVALID_PACKED, {"255", "256"}));
  EXPECT_EQ(rhs.packed, nullptr);
  EXPECT_EQ(rhs.desc.struct_size, 0u);
  // What a blob may hold, layout_test asks.
}

// Damages of an opened rhs, as every function that takes one sees them.
void for_each_bad_rhs(const qmm_rhs& good,
                      const std::function<void(const qmm_rhs*, std::initializer_list<const char*>)>& use) {
  use(nullptr, {"rhs is null"});
  qmm_rhs rhs = good;
  rhs.packed = nullptr;
  use(&rhs, {"rhs->packed is null"});
  rhs = good;
  rhs.struct_size = 8;
  use(&rhs, {"struct_size of rhs is 8"});
  rhs = good;
  --rhs.packed_size;
  use(&rhs, {std::to_string(rhs.packed_size).c_str(), std::to_string(good.packed_size).c_str()});
  rhs = good;
  rhs.desc.n += 16;
  use(&rhs, {"qmm_rhs_open"});
  rhs = good;
  rhs.desc.bits = 3;
  use(&rhs, {"bits is 3"});
}

TEST(RhsVerify, Refuses) {
  Weights weights(kDesc);
  const std::vector<uint8_t> packed = pack(weights);
  for_each_bad_rhs(open(packed), [](const qmm_rhs* rhs, auto words) {
    EXPECT_TRUE(refused(qmm_rhs_verify(rhs), QMM_INVALID_ARGUMENT, words));
  });
}

TEST(Unpack, Refuses) {
  Weights weights(kDesc), out(kDesc, 0xa5);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  const qmm_weights view = out.view();
  for_each_bad_rhs(rhs, [&](const qmm_rhs* bad, auto words) {
    EXPECT_TRUE(refused(qmm_unpack(bad, &view), QMM_INVALID_ARGUMENT, words));
  });
  for_each_bad_weights(out, [&](const qmm_weights* bad, auto words) {
    EXPECT_TRUE(refused(qmm_unpack(&rhs, bad), QMM_INVALID_ARGUMENT, words));
  });
  EXPECT_TRUE(all_are(out, 0xa5));
}

TEST(Quantize, Refuses) {
  Weights out(kDesc, 0xa5);
  std::vector<float> w(20 * 40, 1.0f);
  const qmm_weights view = out.view();
  for_each_bad_desc([&](const qmm_rhs_desc* desc, auto words) {
    EXPECT_TRUE(refused(qmm_quantize(desc, w.data(), 40, &view), QMM_INVALID_ARGUMENT, words));
  });
  for_each_bad_weights(out, [&](const qmm_weights* bad, auto words) {
    EXPECT_TRUE(refused(qmm_quantize(&kDesc, w.data(), 40, bad), QMM_INVALID_ARGUMENT, words));
  });
  EXPECT_TRUE(
      refused(qmm_quantize(&kDesc, nullptr, 40, &view), QMM_INVALID_ARGUMENT, {"w of shape [20, 40] are null"}));
  for (const int64_t stride : {int64_t(39), int64_t(-40), kHuge, kHuge / 64})
    EXPECT_TRUE(refused(qmm_quantize(&kDesc, w.data(), stride, &view), QMM_INVALID_ARGUMENT,
                        {("stride of w is " + std::to_string(stride)).c_str()}));
  for (const float bad : {kInf, -kInf, NAN}) {
    w[19 * 40 + 39] = bad;
    EXPECT_TRUE(refused(qmm_quantize(&kDesc, w.data(), 40, &view), QMM_INVALID_ARGUMENT, {"w[19, 39] is not finite"}));
  }
  EXPECT_TRUE(all_are(out, 0xa5));
}

// 65504 is the largest f16; what rounds to more must not become infinity.
TEST(Quantize, RefusesScalesBeyondTheirDtype) {
  const auto quantize = [](int bits, int offset, int scale_dtype, float lo, float hi) {
    const qmm_rhs_desc desc = make_desc(2, 8, 8, bits, offset, scale_dtype);
    std::vector<float> w(16);
    w[14] = lo;
    w[15] = hi;
    Weights out(desc, 0xa5);
    const qmm_weights view = out.view();
    const qmm_status status = qmm_quantize(&desc, w.data(), 8, &view);
    EXPECT_TRUE(status == QMM_OK || all_are(out, 0xa5));
    return status;
  };
  EXPECT_EQ(quantize(4, QMM_SYMMETRIC, QMM_F16, 0, 7 * 65504.0f), QMM_OK);
  EXPECT_TRUE(refused(quantize(4, QMM_SYMMETRIC, QMM_F16, 0, 7 * 65520.0f), QMM_INVALID_ARGUMENT,
                      {"row 1, group 0", "scale_dtype 1"}));
  EXPECT_EQ(quantize(8, QMM_ZEROS, QMM_F16, 0, 255 * 65504.0f), QMM_OK);
  EXPECT_TRUE(refused(quantize(8, QMM_ZEROS, QMM_F16, 0, 255 * 65520.0f), QMM_INVALID_ARGUMENT, {"row 1, group 0"}));
  EXPECT_EQ(quantize(4, QMM_MINS, QMM_F16, -65504, 0), QMM_OK);
  EXPECT_TRUE(refused(quantize(4, QMM_MINS, QMM_F16, -65520, 0), QMM_INVALID_ARGUMENT, {"row 1, group 0"}));
  EXPECT_TRUE(refused(quantize(4, QMM_MINS, QMM_F32, -3e38f, 3e38f), QMM_INVALID_ARGUMENT, {"scale_dtype 0"}));
  EXPECT_EQ(quantize(4, QMM_SYMMETRIC, QMM_F32, -3e38f, 3e38f), QMM_OK);
}

TEST(DequantizeRows, Refuses) {
  Weights weights(kDesc);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  std::vector<int64_t> ids = {0, 19, 3};
  const std::vector<float> poison(3 * 40, -77.0f);
  std::vector<float> y = poison;
  for_each_bad_rhs(rhs, [&](const qmm_rhs* bad, auto words) {
    EXPECT_TRUE(refused(qmm_dequantize_rows(bad, ids.data(), 3, y.data(), 40), QMM_INVALID_ARGUMENT, words));
  });
  const auto rows = [&](const int64_t* i, int64_t count, float* to, int64_t stride) {
    return qmm_dequantize_rows(&rhs, i, count, to, stride);
  };
  EXPECT_TRUE(refused(rows(ids.data(), -1, y.data(), 40), QMM_INVALID_ARGUMENT, {"count is -1"}));
  EXPECT_TRUE(refused(rows(nullptr, 3, y.data(), 40), QMM_INVALID_ARGUMENT, {"ids", "null"}));
  EXPECT_TRUE(refused(rows(ids.data(), 3, nullptr, 40), QMM_INVALID_ARGUMENT, {"y of shape [3, 40] are null"}));
  EXPECT_TRUE(refused(rows(ids.data(), 3, y.data(), 39), QMM_INVALID_ARGUMENT, {"stride of y is 39", "[3, 40]"}));
  EXPECT_TRUE(refused(rows(ids.data(), 3, y.data(), kHuge), QMM_INVALID_ARGUMENT, {"9223372036854775807"}));
  EXPECT_TRUE(refused(rows(ids.data(), kHuge, y.data(), 40), QMM_INVALID_ARGUMENT, {"9223372036854775807"}));
  for (const int64_t bad : {int64_t(-1), int64_t(20), kHuge}) {
    ids[2] = bad;
    EXPECT_TRUE(refused(rows(ids.data(), 3, y.data(), 40), QMM_INVALID_ARGUMENT,
                        {("ids[2] is " + std::to_string(bad)).c_str(), "20 rows"}));
  }
  EXPECT_EQ(y, poison);
  EXPECT_EQ(rows(nullptr, 0, nullptr, 0), QMM_OK);
}

TEST(Threads, Refuses) {
  EXPECT_TRUE(refused(qmm_set_num_threads(0), QMM_INVALID_ARGUMENT, {"num_threads is 0", "1 to 1024"}));
  EXPECT_TRUE(refused(qmm_set_num_threads(-5), QMM_INVALID_ARGUMENT, {"num_threads is -5"}));
  EXPECT_TRUE(refused(qmm_set_num_threads(1025), QMM_INVALID_ARGUMENT, {"num_threads is 1025"}));
  auto threads = sized<qmm_threads>();
  for (const int64_t bad : {int64_t(0), int64_t(1025), kHuge, -kHuge}) {
    threads.num_threads = bad;
    EXPECT_TRUE(refused(qmm_set_threads(&threads), QMM_INVALID_ARGUMENT,
                        {("num_threads is " + std::to_string(bad)).c_str(), "1 to 1024"}));
  }
  threads.num_threads = 2;
  threads.struct_size = 31;
  EXPECT_TRUE(refused(qmm_set_threads(&threads), QMM_INVALID_ARGUMENT, {"struct_size of threads is 31", "32"}));
  EXPECT_EQ(qmm_num_threads(), 1);
  EXPECT_TRUE(refused(qmm_run(nullptr, nullptr, 1), QMM_INVALID_ARGUMENT, {"qmm_run: task is null"}));
  const qmm_task task = [](void*, int64_t) {};
  EXPECT_TRUE(refused(qmm_run(task, nullptr, -1), QMM_INVALID_ARGUMENT, {"count is -1"}));
}

// What says how X [m, k] is quantized.
qmm_matmul_args lhs_args(int32_t kind, const qmm_rhs_desc* desc, int64_t m, const float* x = nullptr, int64_t row = 0,
                         int64_t col = 1) {
  auto args = sized<qmm_matmul_args>();
  args.lhs_kind = kind;
  args.desc = desc;
  args.m = m;
  args.x = x;
  args.x_row_stride = row;
  args.x_col_stride = col;
  return args;
}
qmm_status lhs_size(int32_t kind, const qmm_rhs_desc* desc, int64_t m, size_t* size) {
  const qmm_matmul_args args = lhs_args(kind, desc, m);
  return qmm_lhs_size(&args, size);
}
qmm_status quantize_lhs(const qmm_matmul_args& args, void* lhs, size_t size) {
  return qmm_quantize_lhs(&args, lhs, size);
}

TEST(LhsSize, Refuses) {
  size_t size = 77;
  for_each_bad_desc([&](const qmm_rhs_desc* desc, auto words) {
    EXPECT_TRUE(refused(lhs_size(QMM_LHS_S8, desc, 1, &size), QMM_INVALID_ARGUMENT, words));
  });
  EXPECT_TRUE(refused(lhs_size(-1, &kDesc, 1, &size), QMM_INVALID_ARGUMENT, {"lhs_kind is -1"}));
  EXPECT_TRUE(refused(lhs_size(3, &kDesc, 1, &size), QMM_INVALID_ARGUMENT, {"lhs_kind is 3", "0 to 2"}));
  EXPECT_TRUE(refused(lhs_size(QMM_LHS_F32, &kDesc, 1, &size), QMM_INVALID_ARGUMENT, {"QMM_LHS_F32"}));
  EXPECT_TRUE(refused(lhs_size(QMM_LHS_S8, &kDesc, -1, &size), QMM_INVALID_ARGUMENT, {"m is -1"}));
  for (const int64_t m : {kHuge, kHuge / 64})
    EXPECT_TRUE(refused(lhs_size(QMM_LHS_S8, &kDesc, m, &size), QMM_INVALID_ARGUMENT,
                        {std::to_string(m).c_str(), "40", "overflow"}));
  EXPECT_TRUE(refused(lhs_size(QMM_LHS_S8, &kDesc, 1, nullptr), QMM_INVALID_ARGUMENT, {"size is null"}));
  EXPECT_EQ(size, 77u);
}

// Every m whose product does not overflow has a size that does not either.
TEST(LhsSize, DoesNotWrap) {
  for (int64_t m = kHuge; m > 0; m = m / 3 * 2) {
    size_t size = 0;
    const bool fits = lhs_size(QMM_LHS_S8, &kDesc, m, &size) == QMM_OK;
    EXPECT_TRUE(!fits || size / 40 > static_cast<size_t>(m)) << m;
  }
}

TEST(QuantizeLhs, Refuses) {
  size_t size;
  ASSERT_EQ(lhs_size(QMM_LHS_S8, &kDesc, 2, &size), QMM_OK);
  std::vector<uint8_t> lhs(size, 0xa5);
  const std::vector<float> x(80, 1.0f);
  for_each_bad_desc([&](const qmm_rhs_desc* desc, auto words) {
    EXPECT_TRUE(refused(quantize_lhs(lhs_args(QMM_LHS_S8, desc, 2, x.data(), 40), lhs.data(), size),
                        QMM_INVALID_ARGUMENT, words));
  });
  const auto quantize = [&](int kind, int64_t m, const float* from, int64_t row, int64_t col, void* to, size_t bytes) {
    return quantize_lhs(lhs_args(kind, &kDesc, m, from, row, col), to, bytes);
  };
  const float* const from = x.data();
  uint8_t* const to = lhs.data();
  EXPECT_TRUE(refused(quantize(3, 2, from, 40, 1, to, size), QMM_INVALID_ARGUMENT, {"lhs_kind is 3"}));
  EXPECT_TRUE(refused(quantize(QMM_LHS_F32, 2, from, 40, 1, to, size), QMM_INVALID_ARGUMENT, {"QMM_LHS_F32"}));
  EXPECT_TRUE(refused(quantize(QMM_LHS_S8, -2, from, 40, 1, to, size), QMM_INVALID_ARGUMENT, {"m is -2"}));
  EXPECT_TRUE(refused(quantize(QMM_LHS_S8, 2, nullptr, 40, 1, to, size), QMM_INVALID_ARGUMENT, {"x is null"}));
  EXPECT_TRUE(refused(quantize(QMM_LHS_S8, 2, from, -40, 1, to, size), QMM_INVALID_ARGUMENT, {"row -40"}));
  EXPECT_TRUE(refused(quantize(QMM_LHS_S8, 2, from, 40, -1, to, size), QMM_INVALID_ARGUMENT, {"column -1"}));
  EXPECT_TRUE(
      refused(quantize(QMM_LHS_S8, 2, from, kHuge, 1, to, size), QMM_INVALID_ARGUMENT, {"row 9223372036854775807"}));
  EXPECT_TRUE(refused(quantize(QMM_LHS_S8, 2, from, 40, 1, nullptr, size), QMM_INVALID_ARGUMENT, {"lhs is null"}));
  EXPECT_TRUE(refused(quantize(QMM_LHS_S8, 2, from, 40, 1, to, size - 1), QMM_INVALID_ARGUMENT,
                      {std::to_string(size - 1).c_str(), std::to_string(size).c_str()}));
  EXPECT_TRUE(all_are(lhs, 0xa5));
}

TEST(KernelName, Refuses) {
  const char* const untouched = "untouched";
  const char* name = untouched;
  for_each_bad_desc([&](const qmm_rhs_desc* desc, auto words) {
    EXPECT_TRUE(refused(qmm_kernel_name(QMM_LHS_F32, desc, 1, &name), QMM_INVALID_ARGUMENT, words));
  });
  EXPECT_TRUE(refused(qmm_kernel_name(3, &kDesc, 1, &name), QMM_INVALID_ARGUMENT, {"lhs_kind is 3"}));
  EXPECT_TRUE(refused(qmm_kernel_name(QMM_LHS_F32, &kDesc, -1, &name), QMM_INVALID_ARGUMENT, {"m is -1"}));
  EXPECT_TRUE(refused(qmm_kernel_name(QMM_LHS_F32, &kDesc, 1, nullptr), QMM_INVALID_ARGUMENT, {"name is null"}));
  EXPECT_EQ(name, untouched);
}

TEST(DescribeKernel, FollowsTheChoice) {
  ASSERT_GT(qmm_num_kernels(), 0);
  for (int64_t i = 0; i < qmm_num_kernels(); ++i) {
    qmm_kernel_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(qmm_describe_kernel(i, &info), QMM_OK) << qmm_last_error();
    EXPECT_EQ(info.why_not[0] == '\0', (info.need & ~qmm_cpu_features()) == 0) << info.name << ": " << info.why_not;
    EXPECT_TRUE(info.bits == 4 || info.bits == 8);
    EXPECT_TRUE(info.lhs_kind == QMM_LHS_F32 || info.lhs_kind == QMM_LHS_S8);
    EXPECT_GE(info.min_m, 1);
  }
}

TEST(DescribeKernel, Refuses) {
  const qmm_kernel_info untouched = [] {
    qmm_kernel_info info = {};
    info.struct_size = sizeof info;
    info.name = "untouched";
    return info;
  }();
  qmm_kernel_info info = untouched;
  const std::string last = std::to_string(qmm_num_kernels() - 1);
  for (const int64_t index : {int64_t(-1), qmm_num_kernels(), INT64_MAX, INT64_MIN})
    EXPECT_TRUE(refused(qmm_describe_kernel(index, &info), QMM_INVALID_ARGUMENT,
                        {std::to_string(index).c_str(), ("0 to " + last).c_str()}));
  EXPECT_EQ(std::memcmp(&info, &untouched, sizeof info), 0);
  info.struct_size = sizeof info - 1;
  EXPECT_TRUE(refused(qmm_describe_kernel(0, &info), QMM_INVALID_ARGUMENT, {"struct_size of info"}));
  EXPECT_TRUE(refused(qmm_describe_kernel(0, nullptr), QMM_INVALID_ARGUMENT, {"info is null"}));
  EXPECT_STREQ(info.name, "untouched");
}

TEST(DescribeCpu, TellsWhatGetsThrough) {
  qmm_cpu_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(qmm_describe_cpu(&info), QMM_OK) << qmm_last_error();
  EXPECT_EQ(info.enabled & ~info.has, 0u);
  EXPECT_EQ(info.usable & ~info.enabled, 0u);
  EXPECT_EQ(info.usable, qmm_cpu_features());
  const char* max_isa = std::getenv("QMM_MAX_ISA");
  EXPECT_STREQ(info.max_isa, max_isa == nullptr ? "" : max_isa);
  EXPECT_NE(info.name, nullptr);
}

TEST(DescribeCpu, Refuses) {
  qmm_cpu_info info = {};
  EXPECT_TRUE(refused(qmm_describe_cpu(&info), QMM_INVALID_ARGUMENT, {"struct_size of info"}));
  EXPECT_TRUE(refused(qmm_describe_cpu(nullptr), QMM_INVALID_ARGUMENT, {"info is null"}));
  EXPECT_EQ(info.name, nullptr);
}

// ---- qmm_matmul ----------------------------------------------------------------------------------------------------

// A call that is right, on guarded memory: [2, 40] x [20, 40].
struct Call {
  explicit Call(int lhs_kind = QMM_LHS_F32) {
    weights.randomize(1);
    view = weights.view();
    packed = pack(weights);
    rhs = open(packed);
    const std::vector<float> values = integers(2, 40, 2);
    std::copy(values.begin(), values.end(), x.begin());
    std::fill(y.begin(), y.end(), -77.0f);
    args = make_args(lhs_kind, 2, x.data(), &rhs, y.data());
  }
  void use_canonical() {
    args.rhs = nullptr;
    args.desc = &weights.desc;
    args.weights = &view;
  }
  void use_lhs() {
    size_t size;
    ASSERT_EQ(lhs_size(args.lhs_kind, &weights.desc, 2, &size), QMM_OK);
    lhs.resize(size);
    ASSERT_EQ(qmm_quantize_lhs(&args, lhs.data(), size), QMM_OK);
    args.x = nullptr;
    args.lhs = lhs.data();
    args.lhs_size = size;
  }
  bool untouched() const {
    return std::all_of(y.begin(), y.end(), [](float value) { return value == -77.0f; });
  }

  Weights weights{kDesc};
  qmm_weights view;
  std::vector<uint8_t> packed, lhs;
  qmm_rhs rhs;
  Guarded<float> x{2 * 40}, y{2 * 20};
  qmm_matmul_args args;
};

// Refused by qmm_matmul, nothing written, and by qmm_scratch_size with the same words.
// `by_place`: what is wrong is where the arrays are, which does not count for the size of scratch.
testing::AssertionResult matmul_refused(Call& call, qmm_status want, std::initializer_list<const char*> words,
                                        bool by_place = false) {
  testing::AssertionResult result = refused(qmm_matmul(&call.args), want, words);
  if (!result) return result;
  if (!refused(want, want, {"qmm_matmul: "})) return testing::AssertionFailure() << qmm_last_error();
  if (!call.untouched()) return testing::AssertionFailure() << "y was written";
  size_t size = 77;
  if (by_place) {
    if (qmm_scratch_size(&call.args, &size) != QMM_OK) return testing::AssertionFailure() << qmm_last_error();
    return testing::AssertionSuccess();
  }
  result = refused(qmm_scratch_size(&call.args, &size), want, words);
  if (!result || size == 77) return result;
  return testing::AssertionFailure() << "size was written";
}

struct BadCall {
  const char* name;
  std::function<void(Call&)> damage;
  qmm_status status;
  std::initializer_list<const char*> words;
  bool by_place = false;
};

const BadCall kBadCalls[] = {
    {"struct_size", [](Call& c) { c.args.struct_size = 8; }, QMM_INVALID_ARGUMENT, {"struct_size of args is 8"}},
    {"lhs_kind below", [](Call& c) { c.args.lhs_kind = -1; }, QMM_INVALID_ARGUMENT, {"lhs_kind is -1"}},
    {"lhs_kind above", [](Call& c) { c.args.lhs_kind = 3; }, QMM_INVALID_ARGUMENT, {"lhs_kind is 3", "0 to 2"}},
    {"x_dtype", [](Call& c) { c.args.x_dtype = QMM_F16; }, QMM_UNSUPPORTED, {"x_dtype is 1"}},
    {"y_dtype", [](Call& c) { c.args.y_dtype = QMM_BF16; }, QMM_UNSUPPORTED, {"y_dtype 2"}},
    {"activation", [](Call& c) { c.args.activation = 1; }, QMM_UNSUPPORTED, {"activation is 1"}},
    {"x_rows",
     [](Call& c) {
       static const int64_t rows[2] = {};
       c.args.x_rows = rows;
     },
     QMM_UNSUPPORTED,
     {"x_rows"}},
    {"m negative", [](Call& c) { c.args.m = -1; }, QMM_INVALID_ARGUMENT, {"m is -1"}},
    {"batch negative", [](Call& c) { c.args.batch = -2; }, QMM_INVALID_ARGUMENT, {"batch -2"}},
    {"rows overflow",
     [](Call& c) { c.args.m = c.args.batch = int64_t(1) << 32; },
     QMM_INVALID_ARGUMENT,
     {"m 4294967296 times batch 4294967296"}},
    {"lhs overflows",
     [](Call& c) {
       c.args.m = kHuge / 64;
       c.args.x_row_stride = 0;
     },
     QMM_INVALID_ARGUMENT,
     {"144115188075855871, 40]"}},
    {"no weights", [](Call& c) { c.args.rhs = nullptr; }, QMM_INVALID_ARGUMENT, {"either rhs or desc with weights"}},
    {"two weights", [](Call& c) { c.args.weights = &c.view; }, QMM_INVALID_ARGUMENT, {"either rhs or desc"}},
    {"weights without desc",
     [](Call& c) {
       c.use_canonical();
       c.args.desc = nullptr;
     },
     QMM_INVALID_ARGUMENT,
     {"desc is null"}},
    {"4-bit zero",
     [](Call& c) {
       c.use_canonical();
       c.weights.set_zero(3, 2, 17);
     },
     QMM_INVALID_ARGUMENT,
     {"[3, 2] is 17"}},
    {"no x", [](Call& c) { c.args.x = nullptr; }, QMM_INVALID_ARGUMENT, {"x is null"}, true},
    {"no y", [](Call& c) { c.args.y = nullptr; }, QMM_INVALID_ARGUMENT, {"y is null"}, true},
    {"x row stride", [](Call& c) { c.args.x_row_stride = -40; }, QMM_INVALID_ARGUMENT, {"strides of x", "row -40"}},
    {"x col stride", [](Call& c) { c.args.x_col_stride = -1; }, QMM_INVALID_ARGUMENT, {"strides of x", "column -1"}},
    {"x batch stride", [](Call& c) { c.args.x_batch_stride = -1; }, QMM_INVALID_ARGUMENT, {"strides of x", "batch -1"}},
    {"x rows overflow", [](Call& c) { c.args.x_row_stride = kHuge; }, QMM_INVALID_ARGUMENT, {"strides of x"}},
    {"x columns overflow", [](Call& c) { c.args.x_col_stride = kHuge / 8; }, QMM_INVALID_ARGUMENT, {"strides of x"}},
    {"x bytes overflow", [](Call& c) { c.args.x_row_stride = kHuge / 4; }, QMM_INVALID_ARGUMENT, {"strides of x"}},
    {"x reaches past memory",
     [](Call& c) {
       c.args.x = reinterpret_cast<const float*>(~uintptr_t(7));
       c.args.x_row_stride = kHuge / 8;
     },
     QMM_INVALID_ARGUMENT,
     {"x reaches past the end of memory"},
     true},
    {"y row stride", [](Call& c) { c.args.y_row_stride = -20; }, QMM_INVALID_ARGUMENT, {"strides of y", "row -20"}},
    {"y overflows", [](Call& c) { c.args.y_row_stride = kHuge; }, QMM_INVALID_ARGUMENT, {"strides of y"}},
    {"y rows alias", [](Call& c) { c.args.y_row_stride = 19; }, QMM_INVALID_ARGUMENT, {"row 19", "share memory"}},
    {"y is one row", [](Call& c) { c.args.y_row_stride = 0; }, QMM_INVALID_ARGUMENT, {"row 0", "share memory"}},
    {"y columns alias",
     [](Call& c) {
       c.args.y_row_stride = 1;
       c.args.y_col_stride = 1;
     },
     QMM_INVALID_ARGUMENT,
     {"column 1", "share memory"}},
    {"y batches alias",
     [](Call& c) {
       c.args.m = 1;
       c.args.batch = 2;
       c.args.x_batch_stride = 40;
       c.args.y_batch_stride = 19;
     },
     QMM_INVALID_ARGUMENT,
     {"batch 19", "share memory"}},
    {"y is x", [](Call& c) { c.args.y = c.x.data(); }, QMM_INVALID_ARGUMENT, {"x (320 bytes", "y (160 bytes"}, true},
    {"y begins in x", [](Call& c) { c.args.y = c.x.data() + 79; }, QMM_INVALID_ARGUMENT, {"overlap"}, true},
    {"x begins in y", [](Call& c) { c.args.x = c.y.data() + 39; }, QMM_INVALID_ARGUMENT, {"overlap"}, true},
    {"thread count",
     [](Call& c) {
       static auto threads = sized<qmm_threads>();
       c.args.threads = &threads;
     },
     QMM_INVALID_ARGUMENT,
     {"num_threads is 0"}},
    {"threads' struct_size",
     [](Call& c) {
       static qmm_threads threads = {};
       c.args.threads = &threads;
     },
     QMM_INVALID_ARGUMENT,
     {"struct_size of threads is 0"}},
};

TEST(Matmul, Refuses) {
  EXPECT_TRUE(refused(qmm_matmul(nullptr), QMM_INVALID_ARGUMENT, {"qmm_matmul: args is null"}));
  size_t size = 77;
  EXPECT_TRUE(refused(qmm_scratch_size(nullptr, &size), QMM_INVALID_ARGUMENT, {"qmm_scratch_size: args is null"}));
  EXPECT_EQ(size, 77u);
  for (const BadCall& bad : kBadCalls)
    for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
      SCOPED_TRACE(testing::Message() << bad.name << ", lhs kind " << lhs_kind);
      Call call(lhs_kind);
      bad.damage(call);
      EXPECT_TRUE(matmul_refused(call, bad.status, bad.words, bad.by_place));
    }
  Call call;
  EXPECT_TRUE(refused(qmm_scratch_size(&call.args, nullptr), QMM_INVALID_ARGUMENT, {"size is null"}));
  EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  EXPECT_FALSE(call.untouched());
}

TEST(Matmul, RefusesBadWeights) {
  Call call;
  for_each_bad_rhs(call.rhs, [&](const qmm_rhs* bad, auto words) {
    if (bad == nullptr) return;
    call.args.rhs = bad;
    EXPECT_TRUE(matmul_refused(call, QMM_INVALID_ARGUMENT, words));
  });
  call.use_canonical();
  for_each_bad_desc([&](const qmm_rhs_desc* desc, auto words) {
    call.args.desc = desc;
    EXPECT_TRUE(matmul_refused(call, QMM_INVALID_ARGUMENT, words));
  });
  call.use_canonical();
  for_each_bad_weights(call.weights, [&](const qmm_weights* bad, auto words) {
    if (bad == nullptr) return;
    call.args.weights = bad;
    EXPECT_TRUE(matmul_refused(call, QMM_INVALID_ARGUMENT, words));
  });
}

TEST(Matmul, RefusesAnotherLhs) {
  const BadCall bad_calls[] = {
      {"x too", [](Call& c) { c.args.x = c.x.data(); }, QMM_INVALID_ARGUMENT, {"either x or lhs"}},
      {"f32", [](Call& c) { c.args.lhs_kind = QMM_LHS_F32; }, QMM_INVALID_ARGUMENT, {"QMM_LHS_F32"}},
      {"batch", [](Call& c) { c.args.batch = 2; }, QMM_INVALID_ARGUMENT, {"rows 2", "has kind 1, rows 4"}},
      {"cut off", [](Call& c) { c.args.lhs_size = 4; }, QMM_INVALID_ARGUMENT, {"lhs_size is 4"}},
      {"too small", [](Call& c) { --c.args.lhs_size; }, QMM_INVALID_ARGUMENT, {"lhs_size is "}},
      {"m",
       [](Call& c) { c.args.m = 1; },
       QMM_INVALID_ARGUMENT,
       {"as kind 1, rows 2, k 40, group 8", "has kind 1, rows 1"}},
      {"mark", [](Call& c) { c.lhs[0] ^= 1; }, QMM_INVALID_ARGUMENT, {"this call has kind 1"}},
      {"kind",
       [](Call& c) { c.args.lhs_kind = QMM_LHS_S8_TOKEN; },
       QMM_INVALID_ARGUMENT,
       {"as kind 1", "call has kind 2"}},
      {"group", [](Call& c) { c.rhs.desc.group = 16; }, QMM_INVALID_ARGUMENT, {"group 8; this call", "group 16"}},
      {"k", [](Call& c) { c.rhs.desc.k = 32; }, QMM_INVALID_ARGUMENT, {"k 40, group 8; this call", "k 32"}},
  };
  for (const BadCall& bad : bad_calls) {
    SCOPED_TRACE(bad.name);
    Call call(QMM_LHS_S8);
    call.use_lhs();
    bad.damage(call);
    EXPECT_TRUE(matmul_refused(call, bad.status, bad.words));
  }
}

// The arrays of an lhs are aligned where they are written; the same bytes elsewhere may be no lhs.
TEST(Matmul, AcceptsAnLhsMovedByALineAndRefusesOneMovedByLess) {
  for (const int lhs_kind : {QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
    Call call(lhs_kind), expected(lhs_kind);
    ASSERT_EQ(qmm_matmul(&expected.args), QMM_OK);
    call.use_lhs();
    std::vector<uint8_t> moved(call.lhs.size() + 256);
    for (const uintptr_t by : std::initializer_list<uintptr_t>{1, 4, 32, 63, 64, 128}) {
      const uintptr_t at = reinterpret_cast<uintptr_t>(call.lhs.data()) + by;
      uint8_t* to = moved.data() + (at - reinterpret_cast<uintptr_t>(moved.data())) % 64;
      std::memcpy(to, call.lhs.data(), call.lhs.size());
      call.args.lhs = to;
      if (by % 64 != 0) {
        EXPECT_TRUE(matmul_refused(call, QMM_INVALID_ARGUMENT, {"has moved"}));
      } else {
        EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
        EXPECT_EQ(std::memcmp(call.y.data(), expected.y.data(), call.y.bytes()), 0);
        std::fill(call.y.begin(), call.y.end(), -77.0f);
      }
    }
  }
}

TEST(Matmul, RefusesTooLittleScratch) {
  for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
    Call call(lhs_kind);
    size_t size;
    ASSERT_EQ(qmm_scratch_size(&call.args, &size), QMM_OK);
    std::vector<uint8_t> scratch(size, 0xa5);
    call.args.scratch = scratch.data();
    call.args.scratch_size = size - 1;
    EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT,
                        {std::to_string(size - 1).c_str(), std::to_string(size).c_str()}));
    EXPECT_TRUE(call.untouched());
    EXPECT_TRUE(all_are(scratch, 0xa5));
  }
}

TEST(Matmul, TakesScratchAtAnyAddress) {
  for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN})
    for (const bool canonical : {false, true}) {
      Call call(lhs_kind), expected(lhs_kind);
      ASSERT_EQ(qmm_matmul(&expected.args), QMM_OK);
      if (canonical) call.use_canonical();
      size_t size;
      ASSERT_EQ(qmm_scratch_size(&call.args, &size), QMM_OK);
      for (const int64_t misaligned : {0, 1, 3, 31, 63}) {
        // From the first byte, or up to the last.
        Guarded<uint8_t> scratch(static_cast<int64_t>(size) + misaligned, Flush::End);
        call.args.scratch = scratch.data();
        call.args.scratch_size = size;
        std::fill(call.y.begin(), call.y.end(), -77.0f);
        EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
        EXPECT_EQ(std::memcmp(call.y.data(), expected.y.data(), call.y.bytes()), 0);
        call.args.scratch = scratch.data() + misaligned;
        EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
        EXPECT_EQ(std::memcmp(call.y.data(), expected.y.data(), call.y.bytes()), 0);
      }
    }
}

// A caller of a later version, whose structs are longer.
// A struct of a later version: longer by fields that this one does not know.
template <class Struct>
struct Future {
  explicit Future(const Struct& now) : object(now) { object.struct_size = sizeof *this; }
  Struct object;
  int64_t more[8] = {};
};

struct FutureCall : Call {
  FutureCall() {
    threads.object.num_threads = 1;
    use_canonical();
    future.object = args;
    future.object.struct_size = sizeof future;
    future.object.desc = &desc.object;
    future.object.weights = &canonical.object;
    future.object.threads = &threads.object;
  }
  Future<qmm_rhs_desc> desc{weights.desc};
  Future<qmm_weights> canonical{weights.view()};
  Future<qmm_threads> threads{sized<qmm_threads>()};
  Future<qmm_matmul_args> future{args};
};

TEST(Matmul, AcceptsFutureStructsWhoseFieldsAreNotSet) {
  FutureCall call;
  EXPECT_EQ(qmm_matmul(&call.future.object), QMM_OK) << qmm_last_error();
  EXPECT_FALSE(call.untouched());

  Future rhs(sized<qmm_rhs>());
  EXPECT_EQ(qmm_rhs_open(call.packed.data(), call.packed.size(), &rhs.object), QMM_OK) << qmm_last_error();
  EXPECT_EQ(rhs.object.struct_size, sizeof rhs);
  EXPECT_EQ(qmm_rhs_verify(&rhs.object), QMM_OK);
}

TEST(Matmul, RefusesFieldsOfTheFuture) {
  FutureCall call;
  for (int64_t* field : {&call.desc.more[7], &call.canonical.more[0], &call.threads.more[3], &call.future.more[1]}) {
    *field = 42;
    EXPECT_TRUE(refused(qmm_matmul(&call.future.object), QMM_UNSUPPORTED, {"is set"}));
    *field = 0;
  }
  EXPECT_TRUE(call.untouched());
  call.future.object.struct_size = ~size_t(0);  // never set
  EXPECT_TRUE(
      refused(qmm_matmul(&call.future.object), QMM_INVALID_ARGUMENT, {"struct_size of args is 18446744073709551615"}));
}

TEST(Matmul, RefusesYOverWhatItReads) {
  {
    Call call(QMM_LHS_S8);
    call.use_lhs();
    call.args.y = call.lhs.data() + 64;
    EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"lhs", "overlap"}));
    call.args.lhs_size = ~size_t(0);
    EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"lhs", "overlap"}));
  }
  {
    Call call;
    call.use_canonical();
    std::vector<float> memory(400);
    for (void** array : {&call.view.codes, &call.view.scales}) {
      void* const before = *array;
      *array = memory.data() + 60;
      call.args.y = memory.data() + 40;
      EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"overlap"}));
      *array = before;
    }
  }
  {
    Call call(QMM_LHS_S8);
    std::vector<float> x(400);
    call.args.x = x.data();
    EXPECT_TRUE(refused(qmm_quantize_lhs(&call.args, x.data() + 79, 1284), QMM_INVALID_ARGUMENT, {"overlap"}));
  }
  Call call;
  std::vector<float> array(40, -77.0f);
  call.args.bias = array.data() + 20;
  call.args.y = array.data();
  EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"bias", "overlap"}));
  call.args.bias = nullptr;
  std::vector<uint8_t> packed(call.packed.begin(), call.packed.end());
  ASSERT_EQ(qmm_rhs_open(packed.data(), packed.size(), &call.rhs), QMM_OK);
  call.args.y = packed.data() + packed.size() - 160;
  EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"rhs", "overlap"}));
  EXPECT_EQ(qmm_rhs_verify(&call.rhs), QMM_OK);
}

// Y as [m, batch, n]: batches lie between the rows.
TEST(Matmul, AcceptsInterleavedBatches) {
  Call call;
  const std::vector<float> x = integers(4, 40, 2);
  std::vector<float> apart(80), between(80);
  call.args.x = x.data();
  call.args.batch = 2;
  call.args.x_batch_stride = 80;
  call.args.y = apart.data();
  call.args.y_batch_stride = 40;
  ASSERT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  call.args.y = between.data();
  call.args.y_row_stride = 40;
  call.args.y_batch_stride = 20;
  ASSERT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  for (size_t b = 0; b < 2; ++b)
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 20; ++j) EXPECT_EQ(between[i * 40 + b * 20 + j], apart[b * 40 + i * 20 + j]);
  call.args.y_batch_stride = 19;
  EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"share memory"}));
}

// x and y as columns of one array of batches: [2, 2, 60].
TEST(Matmul, AcceptsColumnsOfOneArrayOfBatches) {
  for (const int64_t m : {1, 2}) {
    Call call;
    std::vector<float> array(240, 1.0f);
    call.args.m = m;
    call.args.batch = 2;
    call.args.x = array.data();
    call.args.x_row_stride = call.args.y_row_stride = 60;
    call.args.x_batch_stride = call.args.y_batch_stride = m * 60;
    call.args.y = array.data() + 40;
    EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
    call.args.y = array.data() + 39;
    EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"overlap"}));
    call.args.y = array.data() + 41;  // its last column is the next row's first of x
    EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"overlap"}));
  }
}

// x and y by turns: in batches of [x 2 x 40 | y 2 x 20], and as rows of one column-major array.
TEST(Matmul, AcceptsBatchesAndRowsOfOneArray) {
  Call call;
  std::vector<float> array(240, 1.0f);
  call.args.batch = 2;
  call.args.x = array.data();
  call.args.x_row_stride = 40;
  call.args.x_batch_stride = call.args.y_batch_stride = 120;
  call.args.y = array.data() + 80;
  call.args.y_row_stride = 20;
  EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  call.args.y = array.data() + 79;
  EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"overlap"}));

  call.args.batch = 1;
  call.args.x_row_stride = call.args.y_row_stride = 1;
  call.args.x_col_stride = call.args.y_col_stride = 4;
  call.args.y = array.data() + 2;
  EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  call.args.y = array.data() + 3;
  EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"overlap"}));
}

// With scratch for fewer threads than there are by now, fewer run.
TEST(Matmul, RunsOnTheThreadsThatScratchHolds) {
  Weights weights(make_desc(300, 4096, 32, 4, QMM_SYMMETRIC, QMM_F16));
  weights.randomize(1);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  const std::vector<float> x = integers(4, 4096, 2);
  std::vector<float> want(1200), y(1200);
  qmm_matmul_args args = make_args(QMM_LHS_S8, 4, x.data(), &rhs, want.data());
  auto threads = sized<qmm_threads>();
  threads.parallel_for = [](void*, qmm_task task, void* arg, int64_t count) {
    while (count-- > 0) task(arg, count);
  };
  threads.num_threads = 1;
  args.threads = &threads;
  size_t size = 0, larger = 0;
  ASSERT_EQ(qmm_scratch_size(&args, &size), QMM_OK);
  ASSERT_EQ(qmm_matmul(&args), QMM_OK);
  threads.num_threads = 3;
  ASSERT_EQ(qmm_scratch_size(&args, &larger), QMM_OK);
  EXPECT_GT(larger, size);
  std::vector<uint8_t> scratch(size);
  args.scratch = scratch.data();
  args.scratch_size = size;
  args.y = y.data();
  ASSERT_EQ(qmm_matmul(&args), QMM_OK) << qmm_last_error();
  EXPECT_EQ(y, want);
  args.scratch_size = size - 1;
  EXPECT_TRUE(refused(qmm_matmul(&args), QMM_INVALID_ARGUMENT, {std::to_string(size - 1).c_str()}));
}

TEST(Matmul, ChecksStridesWhereNothingIsRead) {
  Call call;
  call.args.m = 0;
  call.args.x_row_stride = -5;
  EXPECT_TRUE(refused(qmm_matmul(&call.args), QMM_INVALID_ARGUMENT, {"row -5"}));
}

// With k = 0 there is nothing behind n: no loop over it, and no address of x.
TEST(Matmul, TakesNoTimeForRowsWithoutDepth) {
  const qmm_rhs_desc desc = make_desc(int64_t(1) << 40, 0, 0, 4, QMM_ZEROS, QMM_F32);
  auto weights = sized<qmm_weights>();
  size_t size = 0;
  ASSERT_EQ(qmm_packed_size(&desc, &size), QMM_OK);
  std::vector<uint8_t> packed(size);
  EXPECT_EQ(qmm_quantize(&desc, nullptr, 0, &weights), QMM_OK) << qmm_last_error();
  ASSERT_EQ(qmm_pack(&desc, &weights, packed.data(), size), QMM_OK) << qmm_last_error();
  const qmm_rhs rhs = open(packed);
  EXPECT_EQ(qmm_unpack(&rhs, &weights), QMM_OK) << qmm_last_error();

  Weights empty(make_desc(5, 0, 0, 4, QMM_SYMMETRIC, QMM_F32));
  const std::vector<uint8_t> few = pack(empty);
  const qmm_rhs five = open(few);
  for (const int32_t kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
    std::vector<float> y(15, -77.0f);
    qmm_matmul_args args = make_args(kind, 3, nullptr, &five, y.data());
    args.x_row_stride = kHuge;
    ASSERT_EQ(qmm_matmul(&args), QMM_OK) << qmm_last_error();
    EXPECT_EQ(y, std::vector<float>(15, 0.0f));
  }
}

// x and y as columns of one array: [2, 40] and [2, 20] side by side.
TEST(Matmul, AcceptsColumnsOfOneArray) {
  Call call;
  ASSERT_EQ(qmm_matmul(&call.args), QMM_OK);
  for (const bool x_first : {true, false}) {
    Guarded<float> both(2 * 60);
    float* const x = both.data() + (x_first ? 0 : 20);
    float* const y = both.data() + (x_first ? 40 : 0);
    for (int i = 0; i < 2; ++i) std::memcpy(x + i * 60, call.x.data() + i * 40, 40 * sizeof *x);
    qmm_matmul_args args = make_args(QMM_LHS_F32, 2, x, &call.rhs, y);
    args.x_row_stride = args.y_row_stride = 60;
    EXPECT_EQ(qmm_matmul(&args), QMM_OK) << qmm_last_error();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(std::memcmp(y + i * 60, call.y.data() + i * 20, 20 * sizeof *y), 0);
      EXPECT_EQ(std::memcmp(x + i * 60, call.x.data() + i * 40, 40 * sizeof *x), 0);
    }
    // One column closer, and the last of one is the first of the other.
    args.x = x_first ? x + 1 : x - 1;
    EXPECT_TRUE(refused(qmm_matmul(&args), QMM_INVALID_ARGUMENT, {"overlap"}));
  }
}

// A stride that is never taken may be anything that is not negative.
TEST(Matmul, AcceptsAnyStrideOfOneRow) {
  Call call, expected;
  expected.args.m = call.args.m = 1;
  ASSERT_EQ(qmm_matmul(&expected.args), QMM_OK);
  call.args.x_row_stride = call.args.x_batch_stride = call.args.y_batch_stride = call.args.y_row_stride = kHuge;
  EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  EXPECT_EQ(std::memcmp(call.y.data(), expected.y.data(), call.y.bytes()), 0);
}

TEST(Matmul, TakesYByColumns) {
  Call call, expected;
  ASSERT_EQ(qmm_matmul(&expected.args), QMM_OK);
  call.args.y_row_stride = 1;
  call.args.y_col_stride = 2;
  EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 20; ++j) EXPECT_EQ(call.y[j * 2 + i], expected.y[i * 20 + j]);
}

// Nothing to compute: nothing is read, and strides have no meaning.
TEST(Matmul, DoesNothingForNoRowsOrColumns) {
  Call call;
  for (const auto& [m, batch, stride] : {std::array<int64_t, 3>{0, 0, 0}, {0, 2, 0}, {0, 4, kHuge}}) {
    call.args = make_args(QMM_LHS_F32, m, nullptr, &call.rhs, nullptr);
    call.args.batch = batch;
    call.args.y_col_stride = call.args.y_row_stride = call.args.y_batch_stride = stride;
    EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
  }
  Weights none(make_desc(0, 40, 8, 4));
  const std::vector<uint8_t> packed = pack(none);
  const qmm_rhs rhs = open(packed);
  call.args = make_args(QMM_LHS_F32, 2, call.x.data(), &rhs, nullptr);
  EXPECT_EQ(qmm_matmul(&call.args), QMM_OK) << qmm_last_error();
}

TEST(Matmul, ReportsNoMemory) {
  std::thread([] {  // a thread whose arena has not grown yet
    Call call;
    size_t size;
    ASSERT_EQ(qmm_scratch_size(&call.args, &size), QMM_OK);
    no_memory = true;
    const qmm_status status = qmm_matmul(&call.args);
    no_memory = false;
    EXPECT_TRUE(refused(status, QMM_OUT_OF_MEMORY, {"qmm_matmul: no memory", std::to_string(size).c_str()}));
    EXPECT_TRUE(call.untouched());
    EXPECT_EQ(qmm_matmul(&call.args), QMM_OK);
  })
      .join();
}

TEST(Matmul, AllocatesNothingOnceWarm) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    Weights weights(make_desc(100, 96, 32, bits, offset, scale_dtype));
    weights.randomize(3);
    const std::vector<uint8_t> packed = pack(weights);
    const qmm_rhs rhs = open(packed);
    const qmm_weights view = weights.view();
    const std::vector<float> x = integers(150, 96, 4);
    std::vector<float> y(150 * 100), row(96);
    std::vector<uint8_t> lhs(1 << 16), scratch(1 << 20);
    const int64_t id = 99;
    const auto calls = [&] {
      for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN})
        for (const int64_t m : {150, 1, 7}) {
          qmm_matmul_args args = make_args(lhs_kind, m, x.data(), &rhs, y.data());
          EXPECT_EQ(qmm_matmul(&args), QMM_OK);
          args.scratch = scratch.data();
          args.scratch_size = scratch.size();
          EXPECT_EQ(qmm_matmul(&args), QMM_OK);
          args.scratch = nullptr;
          args.rhs = nullptr;
          args.desc = &weights.desc;
          args.weights = &view;
          EXPECT_EQ(qmm_matmul(&args), QMM_OK);
          args.y = nullptr;
          EXPECT_EQ(qmm_matmul(&args), QMM_INVALID_ARGUMENT);
        }
      EXPECT_EQ(quantize_lhs(lhs_args(QMM_LHS_S8, &weights.desc, 150, x.data(), 96), lhs.data(), lhs.size()), QMM_OK);
      EXPECT_EQ(qmm_dequantize_rows(&rhs, &id, 1, row.data(), 96), QMM_OK);
    };
    calls();
    const int64_t before = allocations;
    calls();
    EXPECT_EQ(allocations, before);
  });
}

// A parallel-for that makes a call of its own on the same thread before it does the work: with less scratch than the
// outer call has, and with more.
TEST(Matmul, MayNestInAParallelFor) {
  static Weights weights(make_desc(640, 512, 32, 4));
  weights.randomize(5);
  static const std::vector<uint8_t> packed = pack(weights);
  static const qmm_rhs rhs = open(packed);
  static const std::vector<float> x = integers(64, 512, 6), expected = matmul(QMM_LHS_S8, 64, x, rhs);
  static int64_t rows;
  auto threads = sized<qmm_threads>();
  threads.num_threads = 4;
  threads.parallel_for = [](void*, qmm_task task, void* arg, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const std::vector<float> y = matmul(QMM_LHS_S8, rows, x, rhs);
      EXPECT_TRUE(std::equal(y.begin(), y.end(), expected.begin()));
      task(arg, i);
    }
  };
  const std::vector<float> outer = matmul(QMM_LHS_F32, 8, x, rhs);
  for (const int64_t nested : {1, 64, 64, 1}) {
    rows = nested;
    EXPECT_EQ(matmul(QMM_LHS_F32, 8, x, rhs, &threads), outer);
  }
}

// Other thread-specific destructors may run after the arena's and still call the library.
TEST(Matmul, MayBeCalledAtThreadEnd) {
  static Call call;
  ASSERT_EQ(qmm_matmul(&call.args), QMM_OK);  // here the arena's destructor is registered: before the next one
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { EXPECT_EQ(qmm_matmul(&call.args), QMM_OK); }), 0);
  std::thread([&] {
    EXPECT_EQ(qmm_matmul(&call.args), QMM_OK);
    EXPECT_EQ(pthread_setspecific(key, &call), 0);
  }).join();
  pthread_key_delete(key);
}

// ---- quantizing ----------------------------------------------------------------------------------------------------

std::vector<float> dequantize(Weights& weights) {
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  std::vector<int64_t> ids(static_cast<size_t>(weights.desc.n));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<float> w(static_cast<size_t>(weights.desc.n * weights.desc.k));
  EXPECT_EQ(qmm_dequantize_rows(&rhs, ids.data(), weights.desc.n, w.data(), weights.desc.k), QMM_OK);
  return w;
}

Weights quantize(const qmm_rhs_desc& desc, const std::vector<float>& w) {
  Weights out(desc, 0xa5);
  const qmm_weights view = out.view();
  EXPECT_EQ(qmm_quantize(&desc, w.data(), desc.k, &view), QMM_OK) << qmm_last_error();
  return out;
}

// The distance of w to the value it became is at most half a step, plus what the rounding of scale and min to their
// dtype takes off the range at its ends: steps * |scale - exact scale| + |min - exact min|. The float arithmetic adds a
// few units in the last place of the largest number, which 2^-20 of the range covers.
TEST(Quantize, ErrsByHalfAStep) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    const qmm_rhs_desc desc = make_desc(24, 77, 16, bits, offset, scale_dtype);
    std::mt19937 random(7);
    std::vector<float> w(24 * 77);
    for (int n = 0; n < 24; ++n)  // of one sign, of both, skewed, wide and narrow
      for (int k = 0; k < 77; ++k)
        w[static_cast<size_t>(n * 77 + k)] = std::ldexp(
            std::uniform_real_distribution<float>(n % 3 == 0 ? 0.25f : -1.0f, n % 3 == 1 ? -0.5f : 1.0f)(random),
            n - 8);
    Weights quantized = quantize(desc, w);
    const std::vector<float> got = dequantize(quantized);
    const qmm_weights view = quantized.view();
    const CanonicalWeights canonical{desc, view};
    const double steps = bits == 4 ? 15 : 255, largest = bits == 4 ? 7 : 127, bias = bits == 4 ? 0 : 128;
    for (int64_t n = 0; n < 24; ++n)
      for (int64_t g = 0; g < 5; ++g) {
        const auto begin = w.begin() + n * 77 + g * 16, end = w.begin() + n * 77 + std::min<int64_t>(77, g * 16 + 16);
        double lo = *std::min_element(begin, end), hi = *std::max_element(begin, end);
        if (offset != QMM_MINS) lo = std::min(lo, 0.0), hi = std::max(hi, 0.0);
        const double amax = std::max(-lo, hi), scale = static_cast<double>(canonical.scale(n, g));
        const double exact = offset == QMM_SYMMETRIC ? amax / largest : (hi - lo) / steps;
        // Half a unit in the last place, and of a subnormal f16.
        const double precision = scale_dtype == QMM_BF16 ? 0x1p-8 : scale_dtype == QMM_F16 ? 0x1p-11 : 0x1p-22;
        EXPECT_NEAR(scale, exact, exact * precision + (scale_dtype == QMM_F16 ? 0x1p-25 : 0));
        double slack =
            (offset == QMM_SYMMETRIC ? largest : steps) * std::fabs(scale - exact) + 0x1p-20 * (hi - lo + amax);
        if (offset == QMM_MINS) slack += std::fabs(static_cast<double>(canonical.min(n, g)) - (lo + bias * scale));
        if (offset == QMM_ZEROS) {
          EXPECT_NEAR(canonical.zero(n, g), std::min(-lo / scale, steps) - bias, 0.5 + steps * 0x1p-20)
              << n << ", " << g;
        }
        for (int64_t k = g * 16; k < std::min<int64_t>(77, g * 16 + 16); ++k)
          EXPECT_LE(
              std::fabs(double(got[static_cast<size_t>(n * 77 + k)]) - double(w[static_cast<size_t>(n * 77 + k)])),
              scale / 2 + slack)
              << n << ", " << k;
      }
  });
}

// Weights that are already of the form, with a power of two as the scale and the whole range in use, come back as they
// were; and then again.
TEST(Quantize, KeepsWhatIsQuantized) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    const qmm_rhs_desc desc = make_desc(19, 45, 16, bits, offset, scale_dtype);
    Weights weights(desc);
    weights.randomize(8);
    const int lowest = bits == 4 ? 0 : -128, highest = bits == 4 ? 15 : 127;
    for (int64_t n = 0; n < desc.n; ++n)
      for (int64_t g = 0; g < weights.groups; ++g) {
        // Symmetric codes reach from 1 or -127; a zero must lie within the codes, or 0 does not lie within the weights.
        weights.set_code(n, g * 16, highest);
        if (offset != QMM_SYMMETRIC) weights.set_code(n, g * 16 + 1, lowest);
        for (int64_t k = g * 16; k < std::min<int64_t>(45, g * 16 + 16); ++k)
          if (offset == QMM_SYMMETRIC && k % 3 == 0) weights.set_code(n, k, highest);
        if (offset == QMM_ZEROS && bits == 4) weights.set_zero(n, g, static_cast<int>((n + g) % 16));
      }
    if (offset == QMM_SYMMETRIC)
      for (int64_t n = 0; n < desc.n; ++n)
        for (int64_t k = 0; k < desc.k; ++k) {
          const qmm_weights view = weights.view();
          if (CanonicalWeights{desc, view}.code(n, k) == lowest) weights.set_code(n, k, lowest + 1);
        }
    const std::vector<float> w = dequantize(weights);
    const Weights once = quantize(desc, w);
    EXPECT_EQ(once.codes, weights.codes);
    EXPECT_EQ(once.scales, weights.scales);
    EXPECT_EQ(once.offsets, weights.offsets);
  });
}

// By hand: scales of a quarter, and halves between two codes, which go to the even one.
TEST(Quantize, FindsScaleZeroAndMin) {
  Weights q = quantize(make_desc(1, 4, 4, 4), {-1, 0.375f, 0.625f, 1.75f});  // -4, 1.5, 2.5, 7; and 8
  EXPECT_EQ(q.codes, (std::vector<uint8_t>{0xa4, 0xfa}));
  q = quantize(make_desc(1, 4, 4, 4, QMM_ZEROS), {-1, 0.375f, 0.625f, 2.75f});  // -4, 1.5, 2.5, 11; zero 4
  EXPECT_EQ(q.codes, (std::vector<uint8_t>{0x60, 0xf6}));
  EXPECT_EQ(q.offsets, std::vector<uint8_t>{4});
  q = quantize(make_desc(1, 4, 4, 4, QMM_MINS), {-1, 0.375f, 0.625f, 2.75f});  // 0, 5.5, 6.5, 15; min -1
  EXPECT_EQ(q.codes, (std::vector<uint8_t>{0x60, 0xf6}));
  const qmm_weights view = q.view();
  EXPECT_EQ((CanonicalWeights{q.desc, view}.min(0, 0)), -1.0f);
  EXPECT_EQ((CanonicalWeights{q.desc, view}.scale(0, 0)), 0.25f);
  // 8 bits: zero and min are 128 codes further.
  q = quantize(make_desc(1, 4, 4, 8, QMM_ZEROS), {0, 0, 0, 255});
  EXPECT_EQ(q.codes, (std::vector<uint8_t>{0x80, 0x80, 0x80, 0x7f}));
  EXPECT_EQ(q.offsets, std::vector<uint8_t>{0x80});
  q = quantize(make_desc(1, 4, 4, 8, QMM_MINS), {100, 101, 102, 355});
  EXPECT_EQ(q.codes, (std::vector<uint8_t>{0x80, 0x81, 0x82, 0x7f}));
  const qmm_weights view8 = q.view();
  EXPECT_EQ((CanonicalWeights{q.desc, view8}.min(0, 0)), 228.0f);
}

// A constant group has no range: all its codes stand for the constant, and nothing is divided by 0.
TEST(Quantize, TakesConstantsAndZero) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    const qmm_rhs_desc desc = make_desc(3, 8, 8, bits, offset, scale_dtype);
    std::vector<float> w(24);
    for (size_t i = 0; i < 8; ++i) w[8 + i] = offset == QMM_MINS ? 0.75f : 0;
    for (size_t i = 0; i < 8; ++i) w[16 + i] = -0.0f;
    Weights quantized = quantize(desc, w);
    EXPECT_EQ(dequantize(quantized), w);
  });
}

// The caller's rounding and flushing do not matter, and are back afterwards.
TEST(Quantize, KeepsTheFloatEnvironment) {
  const qmm_rhs_desc desc = make_desc(2, 40, 8, 8, QMM_ZEROS);
  std::vector<float> w = integers(2, 40, 9);
  for (float& value : w) value = value / 3;
  Weights expected = quantize(desc, w);
  const std::vector<float> values = dequantize(expected);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  Weights quantized = quantize(desc, w);
  const std::vector<float> got = dequantize(quantized);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  EXPECT_EQ(quantized.codes, expected.codes);
  EXPECT_EQ(quantized.scales, expected.scales);
  EXPECT_EQ(got, values);
}

TEST(DequantizeRows, GivesTheRowsAskedFor) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    Weights weights(make_desc(37, 29, 8, bits, offset, scale_dtype));
    weights.randomize(10);
    const std::vector<uint8_t> packed = pack(weights);
    const qmm_rhs rhs = open(packed);
    const qmm_weights view = weights.view();
    const CanonicalWeights canonical{weights.desc, view};
    const std::vector<int64_t> ids = {36, 0, 16, 15, 36};
    Guarded<float> y(4 * 31 + 29);
    std::fill(y.begin(), y.end(), -77.0f);
    ASSERT_EQ(qmm_dequantize_rows(&rhs, ids.data(), 5, y.data(), 31), QMM_OK) << qmm_last_error();
    for (int64_t i = 0; i < 5; ++i) {
      const int64_t n = ids[static_cast<size_t>(i)];
      for (int64_t k = 0; k < 29; ++k) {
        const float code = static_cast<float>(canonical.code(n, k) - canonical.zero(n, k / 8));
        const float min = offset == QMM_MINS ? canonical.min(n, k / 8) : 0;
        EXPECT_EQ(y[i * 31 + k], std::fma(code, canonical.scale(n, k / 8), min)) << n << ", " << k;
      }
      EXPECT_TRUE(i == 4 || y[i * 31 + 29] == -77.0f);
    }
  });
}

// ---- packing -------------------------------------------------------------------------------------------------------

TEST(Unpack, GivesBackWhatWasPacked) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    std::mt19937 random(11);
    for (const int64_t n : {1, 9, 16, 19})
      for (const auto& [k, group] :
           {std::pair<int64_t, int64_t>{1, 1}, {23, 23}, {23, 8}, {48, 32}, {37, 16}, {64, 64}}) {
        SCOPED_TRACE(testing::Message() << "[" << n << ", " << k << "], group " << group);
        // Bytes as they come; only 4-bit zeros and the unused last nibble of a row have rules.
        Weights weights(make_desc(n, k, group, bits, offset, scale_dtype));
        for (auto* bytes : {&weights.codes, &weights.scales, &weights.offsets})
          for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random());
        if (bits == 4 && offset == QMM_ZEROS)
          for (uint8_t& byte : weights.offsets) byte %= 17;
        const std::vector<uint8_t> packed = pack(weights);
        Weights out(weights.desc, 0xa5);
        const qmm_rhs rhs = open(packed);
        const qmm_weights view = out.view();
        ASSERT_EQ(qmm_unpack(&rhs, &view), QMM_OK) << qmm_last_error();
        if (bits == 4 && k % 2 == 1)
          for (int64_t row = 0; row < n; ++row) weights.set_code(row, k, 0);
        EXPECT_EQ(out.codes, weights.codes);
        EXPECT_EQ(out.scales, weights.scales);
        EXPECT_EQ(out.offsets, weights.offsets);
        EXPECT_EQ(pack(out), packed);  // the unused nibble is not stored
      }
  });
}

TEST(Unpack, HonoursStrides) {
  Weights weights(make_desc(5, 23, 8, 4, QMM_MINS, QMM_F16));
  weights.randomize(12);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  std::vector<uint8_t> codes(5 * 15, 0xa5);
  std::vector<uint16_t> scales(5 * 4, 0xa5a5), mins(5 * 7, 0xa5a5);
  qmm_weights view = weights.view();
  view.codes = codes.data();
  view.codes_stride = 15;
  view.scales = scales.data();
  view.scales_stride = 4;
  view.offsets = mins.data();
  view.offsets_stride = 7;
  ASSERT_EQ(qmm_unpack(&rhs, &view), QMM_OK);
  std::vector<uint8_t> again(packed.size());
  ASSERT_EQ(qmm_pack(&weights.desc, &view, again.data(), again.size()), QMM_OK);
  EXPECT_EQ(again, packed);
  for (size_t n = 0; n < 5; ++n) {
    EXPECT_EQ(std::memcmp(&codes[n * 15], &weights.codes[n * 12], 12), 0);
    EXPECT_EQ(codes[n * 15 + 12], 0xa5);
    EXPECT_EQ(scales[n * 4 + 3], 0xa5a5);
    EXPECT_EQ(mins[n * 7 + 3], 0xa5a5);
  }
}

// ---- what the library says of itself -------------------------------------------------------------------------------

TEST(Status, HasNames) {
  EXPECT_STREQ(qmm_status_name(QMM_OK), "QMM_OK");
  EXPECT_STREQ(qmm_status_name(QMM_INVALID_ARGUMENT), "QMM_INVALID_ARGUMENT");
  EXPECT_STREQ(qmm_status_name(QMM_INVALID_PACKED), "QMM_INVALID_PACKED");
  EXPECT_STREQ(qmm_status_name(QMM_UNSUPPORTED), "QMM_UNSUPPORTED");
  EXPECT_STREQ(qmm_status_name(QMM_OUT_OF_MEMORY), "QMM_OUT_OF_MEMORY");
  EXPECT_STREQ(qmm_status_name(-1), "unknown qmm_status");
  EXPECT_STREQ(qmm_status_name(5), "unknown qmm_status");
}

TEST(Version, IsTheHeaders) {
  EXPECT_EQ(qmm_abi_version(), QMM_ABI_VERSION);
  EXPECT_STREQ(qmm_version(), QMM_VERSION);
}

TEST(LastError, BelongsToItsThreadAndOutlivesSuccess) {
  EXPECT_NE(qmm_matmul(nullptr), QMM_OK);
  size_t size;
  EXPECT_EQ(qmm_packed_size(&kDesc, &size), QMM_OK);
  EXPECT_STREQ(qmm_last_error(), "qmm_matmul: args is null");
  std::thread([] {
    EXPECT_STREQ(qmm_last_error(), "");
    EXPECT_NE(qmm_rhs_verify(nullptr), QMM_OK);
    EXPECT_STREQ(qmm_last_error(), "qmm_rhs_verify: rhs is null");
  }).join();
  EXPECT_STREQ(qmm_last_error(), "qmm_matmul: args is null");
}

TEST(KernelName, FollowsKindBitsAndRows) {
  for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN})
    for (const int bits : {4, 8})
      for (const int64_t m : {int64_t(0), int64_t(1), int64_t(2), kHuge}) {
        const qmm_rhs_desc desc = make_desc(20, 40, 8, bits);
        const char* name = nullptr;
        ASSERT_EQ(qmm_kernel_name(lhs_kind, &desc, m, &name), QMM_OK) << qmm_last_error();
        const std::string prefix =
            std::string("qmm_f32_") + (lhs_kind == QMM_LHS_F32 ? "f32" : "s8") + (bits == 4 ? "_u4_" : "_s8_");
        EXPECT_EQ(std::string(name).substr(0, prefix.size()), prefix);
        const bool scalar = std::string(name).find("_scalar") != std::string::npos;
        EXPECT_EQ(scalar, qmm_cpu_features() == 0) << name;
      }
}

}  // namespace
}  // namespace qmm::test
