// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults that users of other libraries reported, each with the smallest input that shows it, on every kernel that takes
// the format. A test is named after where the fault was reported.
//
// Reported faults without a test here, because this version has no such thing:
//   openvino#37998        act-order (g_idx) silently ignored: no function takes one; a blob that has one is refused
//   below oneDNN#5370           ReLU swallows NaN: no activation but none torch-mlir#3596, pytorch#189309, warp#1240:
//   of compilers; tests/python snax-mlir#30          descriptor with pointers for arrays: memref_test's static_asserts
//   llama.cpp#3298        byte order: layout_test's golden bytes; a foreign blob is refused below
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <cmath>
#include <functional>
#include <thread>

#include "guarded.h"
#include "runtime/cpu.h"
#include "runtime/layout.h"
#include "runtime/matmul.h"
#include "weights.h"

namespace qmm::test {
namespace {

// Calls use(lhs kind, kernel) for every kernel of this CPU that takes weights of these bits.
template <class Use>
void for_each_kernel(int bits, std::initializer_list<int> lhs_kinds, Use use) {
  for (const Kernel& kernel : kernels())
    for (const int lhs_kind : lhs_kinds) {
      if (kernel.bits != bits || (kernel.lhs == Lhs::F32) != (lhs_kind == QMM_LHS_F32)) continue;
      if ((kernel.need & ~qmm_cpu_features()) != 0) continue;
      SCOPED_TRACE(testing::Message() << kernel.name << ", lhs kind " << lhs_kind);
      use(lhs_kind, kernel);
    }
}
constexpr std::initializer_list<int> kAllKinds = {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN};

std::vector<float> run(qmm_matmul_args args, const Kernel& kernel) {
  std::vector<float> y(static_cast<size_t>(args.m * args.rhs->desc.n), -77.0f);
  args.y = y.data();
  EXPECT_EQ(qmm::matmul(&args, &kernel), QMM_OK) << qmm_last_error();
  return y;
}
std::vector<float> run(int lhs_kind, const Kernel& kernel, int64_t m, const std::vector<float>& x, const qmm_rhs& rhs) {
  return run(make_args(lhs_kind, m, x.data(), &rhs, nullptr), kernel);
}

int code(const Weights& w, int64_t n, int64_t k) {
  const uint8_t byte = w.codes[static_cast<size_t>(n * w.row_bytes + k * w.desc.bits / 8)];
  return w.desc.bits == 8 ? static_cast<int8_t>(byte) : byte >> (k % 2 * 4) & 15;
}
int zero(const Weights& w, int64_t n, int64_t g) {
  if (w.desc.offset == QMM_ZEROS) return static_cast<int8_t>(w.offsets[static_cast<size_t>(n * w.groups + g)]);
  return w.desc.bits == 4 ? 8 : 0;
}

// X W^T with scales of 1, in integers.
std::vector<float> exact(const Weights& w, const std::vector<float>& x, int64_t m) {
  std::vector<float> y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t n = 0; n < w.desc.n; ++n) {
      int64_t sum = 0;
      for (int64_t k = 0; k < w.desc.k; ++k)
        sum += static_cast<int64_t>(x[static_cast<size_t>(i * w.desc.k + k)]) *
               (code(w, n, k) - zero(w, n, k / w.desc.group));
      y.push_back(static_cast<float>(sum));
    }
  return y;
}

void set_scales(Weights& w, float scale) {
  for (int64_t n = 0; n < w.desc.n; ++n)
    for (int64_t g = 0; g < w.groups; ++g) w.set_scale(n, g, scale);
}

// vpmaddubsw saturates: 255 * 127 * 2 = 64770 does not fit int16.
void expect_no_saturation() {
  for (const int64_t k : {2, 64, 512}) {
    Weights weights(make_desc(40, k, k, 8));
    set_scales(weights, 1);
    for (int64_t n = 0; n < 40; ++n)
      for (int64_t i = 0; i < k; ++i) weights.set_code(n, i, n % 2 == 0 ? 127 : -128);
    const std::vector<uint8_t> packed = pack(weights);
    const qmm_rhs rhs = open(packed);
    const auto expect = [&](std::initializer_list<int> kinds, float a) {
      for_each_kernel(8, kinds, [&](int lhs_kind, const Kernel& kernel) {
        const std::vector<float> x(static_cast<size_t>(5 * k), a);
        EXPECT_EQ(run(lhs_kind, kernel, 5, x, rhs), exact(weights, x, 5));
      });
    };
    expect({QMM_LHS_F32}, 255);  // for K = 2: 64770
    expect(kAllKinds, 127);
    expect(kAllKinds, -127);
  }
}
TEST(field_cases, onnxruntime_6004) { expect_no_saturation(); }
TEST(field_cases, FBGEMM_125) {
  Weights weights(make_desc(1, 2, 2, 8));
  weights.set_scale(0, 0, 1);
  weights.set_code(0, 0, 127);
  weights.set_code(0, 1, 127);
  const std::vector<uint8_t> packed = pack(weights);
  for_each_kernel(8, {QMM_LHS_F32}, [&](int lhs_kind, const Kernel& kernel) {
    EXPECT_EQ(run(lhs_kind, kernel, 1, {255, 255}, open(packed)), std::vector<float>{64770});
  });
}

// Zero points on both sides. The lhs has none here: its integers less 42 are given.
TEST(field_cases, onnxruntime_7524) {
  Weights weights(make_desc(3, 3, 3, 8, QMM_ZEROS));
  const int b[3][3] = {{25, 36, 125}, {42, -123, 76}, {-81, -86, 35}};  // [k][n]
  for (int n = 0; n < 3; ++n) {
    for (int k = 0; k < 3; ++k) weights.set_code(n, k, b[k][n]);
    weights.set_scale(n, 0, 1);
    weights.set_zero(n, 0, -26);
  }
  const std::vector<uint8_t> packed = pack(weights);
  for_each_kernel(8, {QMM_LHS_F32}, [&](int lhs_kind, const Kernel& kernel) {
    EXPECT_EQ(run(lhs_kind, kernel, 1, {238 - 42, 115 - 42, 94 - 42}, open(packed)),
              (std::vector<float>{12100, 1951, 40214}));
  });
}

// A GEMV with zeros other than 8 was half off: the row of a GEMM of two equals it, and both are exact.
TEST(field_cases, onnxruntime_29853) {
  Weights weights(make_desc(96, 256, 32, 4, QMM_ZEROS));
  weights.randomize(1);
  set_scales(weights, 1);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  std::vector<float> x = integers(1, 256, 2);
  for (size_t i = 0; i < 256; i += 32) x[i] = 127;  // scales of 1 for 8 bits, too
  std::vector<float> twice = x;
  twice.insert(twice.end(), x.begin(), x.end());
  for_each_kernel(4, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
    const std::vector<float> one = run(lhs_kind, kernel, 1, x, rhs);
    EXPECT_EQ(one, exact(weights, x, 1));
    const std::vector<float> two = run(lhs_kind, kernel, 2, twice, rhs);
    EXPECT_EQ(std::vector<float>(two.begin(), two.begin() + 96), one);
    EXPECT_EQ(std::vector<float>(two.begin() + 96, two.end()), one);
  });
}

TEST(field_cases, XNNPACK_5935) {
  Weights weights(make_desc(19, 23, 23, 4));
  weights.randomize(3);
  set_scales(weights, 1);
  const std::vector<uint8_t> packed = pack(weights);
  const std::vector<float> x = integers(1, 23, 4);
  for_each_kernel(4, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
    EXPECT_EQ(run(lhs_kind, kernel, 1, x, open(packed)), exact(weights, x, 1));
  });
}

// The last group is short: canonical rows stay K/2 bytes long, not whole groups.
TEST(field_cases, hipDNN_ep_588) {
  Weights weights(make_desc(2, 48, 32, 4));
  weights.randomize(5);
  set_scales(weights, 1);
  EXPECT_EQ(weights.row_bytes, 24);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  const qmm_weights view = weights.view();
  std::vector<float> x = integers(1, 48, 6);
  x[32] = 127;
  for_each_kernel(4, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
    EXPECT_EQ(run(lhs_kind, kernel, 1, x, rhs), exact(weights, x, 1));
    std::vector<float> y(2);
    qmm_matmul_args args = make_args(lhs_kind, 1, x.data(), &rhs, y.data());
    args.rhs = nullptr;
    args.desc = &weights.desc;
    args.weights = &view;
    ASSERT_EQ(qmm::matmul(&args, &kernel), QMM_OK) << qmm_last_error();
    EXPECT_EQ(y, exact(weights, x, 1));
  });
}

// Each group its own scale, for every row of X.
TEST(field_cases, oneDNN_2659) {
  for (const int bits : {4, 8}) {
    Weights weights(make_desc(256, 256, 32, bits));
    const int one = bits == 4 ? 9 : 1;
    for (int64_t n = 0; n < 256; ++n)
      for (int64_t g = 0; g < 8; ++g) {
        for (int64_t k = 0; k < 32; ++k) weights.set_code(n, g * 32 + k, one);
        weights.set_scale(n, g, std::ldexp(1.0f, static_cast<int>((n + 3 * g) % 8)));
      }
    const std::vector<uint8_t> packed = pack(weights);
    const std::vector<float> x(2 * 256, 127);
    for_each_kernel(bits, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
      const std::vector<float> y = run(lhs_kind, kernel, 2, x, open(packed));
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t n = 0; n < 256; ++n) {
          float sum = 0;
          for (int64_t g = 0; g < 8; ++g) sum += 32 * 127 * std::ldexp(1.0f, static_cast<int>((n + 3 * g) % 8));
          EXPECT_EQ(y[static_cast<size_t>(i * 256 + n)], sum);
        }
    });
  }
}

// Sets a field of a blob's header.
std::vector<uint8_t> with_header_field(size_t at, uint64_t value, size_t size) {
  Weights weights(make_desc(4, 16, 8, 4));
  std::vector<uint8_t> packed = pack(weights);
  std::memcpy(&packed[at], &value, size);
  return packed;
}

TEST(field_cases, openvino_37998) {
  const std::vector<uint8_t> act_order = with_header_field(offsetof(Header, permutation_at), 256, 8);
  auto rhs = sized<qmm_rhs>();
  EXPECT_TRUE(refused(qmm_rhs_open(act_order.data(), act_order.size(), &rhs), QMM_INVALID_PACKED, {"no other field"}));
}

TEST(field_cases, llama_cpp_3298) {
  const std::vector<uint8_t> foreign = with_header_field(offsetof(Header, byte_order), 0x04030201, 4);
  auto rhs = sized<qmm_rhs>();
  EXPECT_TRUE(refused(qmm_rhs_open(foreign.data(), foreign.size(), &rhs), QMM_INVALID_PACKED, {"byte order"}));
}

// A missing zero point is 8 at 4 bits, not 0.
TEST(field_cases, hipDNN_ep_134) {
  Weights weights(make_desc(33, 64, 32, 4), 0x88);
  set_scales(weights, 1);
  const std::vector<uint8_t> packed = pack(weights);
  for_each_kernel(4, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
    EXPECT_EQ(run(lhs_kind, kernel, 3, integers(3, 64, 7), open(packed)), std::vector<float>(3 * 33, 0.0f));
  });
}

// Zero points at the ends of their range, which a wrong sign or width would wrap.
void expect_extreme_zeros() {
  for (const int bits : {4, 8}) {
    Weights weights(make_desc(20, 32, 8, bits, QMM_ZEROS));
    weights.randomize(8);
    set_scales(weights, 1);
    for (int64_t n = 0; n < 20; ++n)
      for (int64_t g = 0; g < 4; ++g)
        weights.set_zero(n, g, (n + g) % 2 == 0 ? (bits == 4 ? 16 : 127) : (bits == 4 ? 0 : -128));
    const std::vector<uint8_t> packed = pack(weights);
    std::vector<float> x = integers(3, 32, 9);
    for (size_t i = 0; i < x.size(); i += 8) x[i] = 127;
    for_each_kernel(bits, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
      EXPECT_EQ(run(lhs_kind, kernel, 3, x, open(packed)), exact(weights, x, 3));
    });
  }
}
TEST(field_cases, iree_24583) { expect_extreme_zeros(); }

// A u8 zero point of 128 subtracts 128. Here 8-bit codes are signed: both are less 128, and the difference is the same.
TEST(field_cases, torch_mlir_4601) {
  Weights weights(make_desc(1, 4, 4, 8, QMM_ZEROS));
  const int u8[4] = {0, 127, 128, 255};
  for (int k = 0; k < 4; ++k) weights.set_code(0, k, u8[k] - 128);
  weights.set_scale(0, 0, 1);
  weights.set_zero(0, 0, 128 - 128);
  const std::vector<uint8_t> packed = pack(weights);
  for (int k = 0; k < 4; ++k) {
    std::vector<float> x(4);
    x[static_cast<size_t>(k)] = 127;
    for_each_kernel(8, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
      EXPECT_EQ(run(lhs_kind, kernel, 1, x, open(packed))[0], static_cast<float>(127 * (u8[k] - 128)));
    });
  }
}

// Every batch is computed, from its own data.
TEST(field_cases, llama_cpp_17030) {
  Weights weights(make_desc(20, 16, 16, 4));
  weights.randomize(10);
  set_scales(weights, 1);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  const std::vector<float> x = integers(2 * 3, 16, 11);
  for_each_kernel(4, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
    std::vector<float> y(2 * 3 * 20, -77.0f);
    qmm_matmul_args args = make_args(lhs_kind, 3, x.data(), &rhs, y.data());
    args.batch = 2;
    args.x_batch_stride = 3 * 16;
    args.y_batch_stride = 3 * 20;
    ASSERT_EQ(qmm::matmul(&args, &kernel), QMM_OK) << qmm_last_error();
    EXPECT_EQ(y, exact(weights, x, 6));
  });
}

TEST(field_cases, ik_llama_cpp_911) {
  for (const int bits : {4, 8}) {
    Weights weights(make_desc(9, 64, 32, bits));
    weights.randomize(12);
    set_scales(weights, 1);
    const std::vector<uint8_t> packed = pack(weights);
    std::vector<float> x = integers(3, 64, 13);
    for (size_t i = 0; i < x.size(); i += 32) x[i] = 127;
    for_each_kernel(bits, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
      EXPECT_EQ(run(lhs_kind, kernel, 3, x, open(packed)), exact(weights, x, 3));
    });
  }
}

// 1 / scale is infinite, and 0 times infinity is no number: for X and for W.
TEST(field_cases, ao_1766) {
  for (const int bits : {4, 8}) {
    Weights weights(make_desc(17, 16, 8, bits));
    weights.randomize(14);
    const std::vector<uint8_t> packed = pack(weights);
    for_each_kernel(bits, {QMM_LHS_S8, QMM_LHS_S8_TOKEN}, [&](int lhs_kind, const Kernel& kernel) {
      for (const float tiny : {0.0f, 1e-40f, -1e-45f}) {
        std::vector<float> x(16);
        x[3] = tiny;
        EXPECT_EQ(run(lhs_kind, kernel, 1, x, open(packed)), std::vector<float>(17, 0.0f));
      }
    });
  }
  for_each_format([](int bits, int offset, int scale_dtype) {
    for (const float tiny : {0.0f, 1e-40f, -1e-45f}) {
      Weights weights(make_desc(1, 8, 8, bits, offset, scale_dtype));
      std::vector<float> w(8), back(8);
      w[3] = tiny;
      const qmm_weights view = weights.view();
      ASSERT_EQ(qmm_quantize(&weights.desc, w.data(), 8, &view), QMM_OK) << qmm_last_error();
      const std::vector<uint8_t> packed = pack(weights);
      const qmm_rhs rhs = open(packed);
      const int64_t id = 0;
      ASSERT_EQ(qmm_dequantize_rows(&rhs, &id, 1, back.data(), 8), QMM_OK);
      for (size_t k = 0; k < 8; ++k) EXPECT_LE(std::fabs(back[k] - w[k]), 1e-40f);
    }
  });
}

// No rows with threads divided by zero; no depth gives the bias.
TEST(field_cases, pytorch_40587) {
  const auto threads = [] {
    auto four = sized<qmm_threads>();
    four.num_threads = 4;
    four.parallel_for = [](void*, qmm_task task, void* arg, int64_t count) {
      for (int64_t i = 0; i < count; ++i) std::thread(task, arg, i).join();
    };
    return four;
  }();
  for (const int bits : {4, 8}) {
    Weights weights(make_desc(300, 16, 8, bits)), none(make_desc(300, 0, 0, bits));
    const std::vector<uint8_t> packed = pack(weights), packed_none = pack(none);
    const qmm_rhs rhs = open(packed), rhs_none = open(packed_none);
    const std::vector<float> bias(300, 1.5f);
    for_each_kernel(bits, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
      qmm_matmul_args args = make_args(lhs_kind, 0, nullptr, &rhs, nullptr);
      args.threads = &threads;
      EXPECT_EQ(qmm::matmul(&args, &kernel), QMM_OK) << qmm_last_error();
      args = make_args(lhs_kind, 2, nullptr, &rhs_none, nullptr);
      args.threads = &threads;
      EXPECT_EQ(run(args, kernel), std::vector<float>(600, 0.0f));
      args.bias = bias.data();
      EXPECT_EQ(run(args, kernel), std::vector<float>(600, 1.5f));
    });
  }
}

// Rows of X that are K + 3 apart: what lies between is not read, not even as an index.
TEST(field_cases, ggml_386) {
  for (const int bits : {4, 8}) {
    Weights weights(make_desc(20, 32, 8, bits));
    weights.randomize(15);
    const std::vector<uint8_t> packed = pack(weights);
    const qmm_rhs rhs = open(packed);
    const std::vector<float> x = integers(2, 32, 16);
    std::vector<float> gaps(2 * 35, NAN);
    for (size_t i = 0; i < 2; ++i)
      std::copy_n(x.begin() + static_cast<int64_t>(i) * 32, 32, gaps.begin() + static_cast<int64_t>(i) * 35);
    for_each_kernel(bits, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
      qmm_matmul_args args = make_args(lhs_kind, 2, gaps.data(), &rhs, nullptr);
      args.x_row_stride = 35;
      EXPECT_EQ(run(args, kernel), run(lhs_kind, kernel, 2, x, rhs));
    });
  }
}

// One k, and one more than a vector: nothing past the end of an array is read.
TEST(field_cases, XNNPACK_4190) {
  for (const int bits : {4, 8})
    for (const int64_t k : {1, 9}) {
      Weights weights(make_desc(3, k, k, bits));
      weights.randomize(17);
      set_scales(weights, 1);
      const std::vector<uint8_t> bytes = pack(weights);
      Guarded<uint8_t> packed(static_cast<int64_t>(bytes.size()));
      std::copy(bytes.begin(), bytes.end(), packed.begin());
      auto rhs = sized<qmm_rhs>();
      ASSERT_EQ(qmm_rhs_open(packed.data(), packed.bytes(), &rhs), QMM_OK);
      const std::vector<float> values = integers(2, k, 18);
      Guarded<float> x(2 * k), y(2 * 3);
      std::copy(values.begin(), values.end(), x.begin());
      for_each_kernel(bits, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
        const qmm_matmul_args args = make_args(lhs_kind, 2, x.data(), &rhs, y.data());
        ASSERT_EQ(qmm::matmul(&args, &kernel), QMM_OK) << qmm_last_error();
        EXPECT_EQ(std::vector<float>(y.begin(), y.end()), exact(weights, values, 2));
      });
    }
}

// Rows of Y that are 2^31 elements apart.
TEST(field_cases, pytorch_158341) {
  constexpr int64_t kStride = int64_t(1) << 31;
  const size_t bytes = (kStride + 1) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space for " << bytes << " bytes";
  float* const y = static_cast<float*>(memory);
  Weights weights(make_desc(1, 8, 8, 4));
  weights.randomize(19);
  set_scales(weights, 1);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  const std::vector<float> x = integers(2, 8, 20), expected = exact(weights, x, 2);
  for_each_kernel(4, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
    y[0] = y[kStride] = -77;
    qmm_matmul_args args = make_args(lhs_kind, 2, x.data(), &rhs, y);
    args.y_row_stride = kStride;
    ASSERT_EQ(qmm::matmul(&args, &kernel), QMM_OK) << qmm_last_error();
    EXPECT_EQ(y[0], expected[0]);
    EXPECT_EQ(y[kStride], expected[1]);
  });
  munmap(memory, bytes);
}

// Scales without elements: an error, not a crash.
TEST(field_cases, pytorch_128692) {
  static std::string sentence;
  sentence.clear();
  qmm_set_error_handler([](void*, qmm_status, const char* words) { sentence = words; }, nullptr);
  float x[8] = {}, y[2] = {-77, -77};
  int8_t codes[2 * 4] = {};
  const qmm_memref_f32_2d xm = {x, x, 0, {1, 8}, {8, 1}}, ym = {y, y, 0, {1, 2}, {2, 1}}, none = {};
  const qmm_memref_i8_2d cm = {codes, codes, 0, {2, 4}, {4, 1}}, no_zeros = {};
  const qmm_memref_f32_2d scales[] = {{nullptr, nullptr, 0, {2, 0}, {0, 1}}, {nullptr, nullptr, 0, {0, 0}, {0, 1}}};
  for (const qmm_memref_f32_2d& empty : scales) {
    _mlir_ciface_qmm_matmul_grouped_f32(&xm, &cm, &empty, &no_zeros, &none, 4, 8, QMM_LHS_F32, &ym);
    EXPECT_NE(sentence.find("scales are ["), std::string::npos) << sentence;
    EXPECT_EQ(qmm_sticky_status(), QMM_INVALID_ARGUMENT);
    EXPECT_EQ(y[0], -77);
  }
  qmm_set_error_handler(nullptr, nullptr);
}

// CPUID has AVX-512, but the operating system saves no zmm registers.
TEST(field_cases, whisper_cpp_3699) {
  CpuWords words;
  words.leaf1_ecx = ~0u;
  words.leaf7_ebx = ~0u;
  words.leaf7_ecx = ~0u;
  words.xcr0 = 0x07;
  EXPECT_EQ(decode_cpu(words), uint64_t(QMM_CPU_AVX2));
}

// More threads than CPUs are allowed: never by default, and not when asked for.
TEST(field_cases, ollama_17916) {
  cpu_set_t before, two;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&two);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &two);
  ASSERT_EQ(sched_setaffinity(0, sizeof two, &two), 0);
  EXPECT_EQ(qmm_num_threads(), 1);
  EXPECT_EQ(qmm_set_num_threads(64), QMM_OK);
  EXPECT_LE(qmm_num_threads(), 2);
  EXPECT_EQ(qmm_set_num_threads(1), QMM_OK);
  sched_setaffinity(0, sizeof before, &before);
}

// Eight threads share packed weights; -fsanitize=thread sees no race.
TEST(field_cases, llama_cpp_16245) {
  Weights weights(make_desc(64, 64, 32, 4));
  weights.randomize(21);
  const std::vector<uint8_t> packed = pack(weights);
  const qmm_rhs rhs = open(packed);
  const std::vector<float> x = integers(4, 64, 22);
  for_each_kernel(4, kAllKinds, [&](int lhs_kind, const Kernel& kernel) {
    const std::vector<float> expected = run(lhs_kind, kernel, 4, x, rhs);
    std::vector<std::vector<float>> results(8);
    std::vector<std::thread> threads;
    for (std::vector<float>& result : results) threads.emplace_back([&] { result = run(lhs_kind, kernel, 4, x, rhs); });
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& result : results) EXPECT_EQ(result, expected);
  });
}

}  // namespace
}  // namespace qmm::test
