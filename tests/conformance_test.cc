// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every row of the table of kernels computes what qmm.h says: the scalar rows equal the oracle, and the others equal
// the scalar row of their lhs and bits, bit for bit. What this CPU can not run is skipped by name.
#include <gtest/gtest.h>

#include <cfenv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "kernels/quantizer.h"
#include "problem.h"
#include "runtime/choose.h"
#include "runtime/cpu.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace qmm {

// What GoogleTest prints for a kernel.
void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }
void PrintTo(const Quantizer& quantizer, std::ostream* out) { *out << quantizer.name; }

namespace test {
namespace {

struct Feature {
  uint64_t bit;
  const char* name;
  const char* isa;  // of kernels that need it most
};
constexpr Feature kFeatures[] = {{QMM_CPU_AVX2, "AVX2", "avx2"},
                                 {QMM_CPU_AVXVNNI, "AVX-VNNI", "avxvnni"},
                                 {QMM_CPU_AVXVNNIINT8, "AVX-VNNI-INT8", "avxvnniint8"},
                                 {QMM_CPU_AVX512, "AVX-512", "avx512"},
                                 {QMM_CPU_AVX512VNNI, "AVX-512 VNNI", "avx512vnni"},
                                 {QMM_CPU_AMX, "AMX-INT8", "amx"},
                                 {QMM_CPU_NEON, "NEON", "neon"},
                                 {QMM_CPU_NEON_DOTPROD, "DotProd", "neon_dotprod"},
                                 {QMM_CPU_NEON_I8MM, "I8MM", "neon_i8mm"},
                                 {QMM_CPU_SVE, "SVE", "sve"},
                                 {QMM_CPU_SVE_I8MM, "SVE with I8MM", "sve_i8mm"}};

// Every format of a number of bits.
std::vector<Format> formats(int32_t bits) {
  std::vector<Format> all;
  for (const int32_t offset : {QMM_SYMMETRIC, QMM_ZEROS, QMM_MINS})
    for (const int32_t dtype : {QMM_F32, QMM_F16, QMM_BF16}) all.push_back({bits, offset, dtype});
  return all;
}

// NaNs are equal, whatever their payload and sign; other floats where their bits are.
bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : bit_copy<uint32_t>(a) == bit_copy<uint32_t>(b); }

testing::AssertionResult same(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " elements, not " << want.size();
  for (size_t i = 0; i < got.size(); ++i)
    if (!same(got[i], want[i]))
      return testing::AssertionFailure() << std::hexfloat << "element " << std::dec << i << " of " << got.size()
                                         << std::hexfloat << " is " << got[i] << ", not " << want[i];
  return testing::AssertionSuccess();
}

testing::AssertionResult same(const std::vector<float>& got, const std::vector<Number>& want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " elements, not " << want.size();
  for (size_t i = 0; i < got.size(); ++i) {
    const Number& w = want[i];
    if (!same(got[i], w.contract))
      return testing::AssertionFailure() << "element " << i << " of " << got.size() << std::hexfloat << " is " << got[i]
                                         << ", by the contract " << w.contract;
    if (std::isfinite(got[i]) && std::fabs(got[i] - w.value) > w.error)
      return testing::AssertionFailure() << "element " << i << " of " << got.size() << std::hexfloat << " is " << got[i]
                                         << ", more than " << w.error << " from the exact " << w.value;
  }
  return testing::AssertionSuccess();
}

std::vector<float> rows(const std::vector<float>& y, int64_t n, int64_t first, int64_t count) {
  return {y.begin() + first * n, y.begin() + (first + count) * n};
}

class Conformance : public testing::TestWithParam<Kernel> {
 protected:
  void SetUp() override {
    const uint64_t missing = kernel().need & ~decode_cpu(read_cpu_words());
    for (const Feature& feature : kFeatures)
      if ((missing & feature.bit) != 0) GTEST_SKIP() << kernel().name << " needs " << feature.name;
    ASSERT_EQ(missing, 0u);
  }

  static const Kernel& kernel() { return GetParam(); }
  static const Kernel& scalar() { return *choose(0, kernel().lhs, kernel().bits, 1); }
  static std::vector<int32_t> lhs_kinds() {
    return kernel().lhs == Lhs::F32 ? std::vector<int32_t>{QMM_LHS_F32}
                                    : std::vector<int32_t>{QMM_LHS_S8, QMM_LHS_S8_TOKEN};
  }

  // Runs the kernel and tells whether Y is right; returns Y.
  static std::vector<float> check(const Problem& problem) {
    SCOPED_TRACE(problem.describe());
    const std::vector<float> y = problem.run(&kernel());
    if (kernel().run == scalar().run)
      EXPECT_TRUE(same(y, problem.oracle()));
    else
      EXPECT_TRUE(same(y, problem.run(&scalar())));
    return y;
  }

  // Calls use(lhs kind, format) for each.
  template <class Use>
  static void for_each_format(Use use) {
    for (const int32_t kind : lhs_kinds())
      for (const Format& format : formats(kernel().bits))
        if (!HasFailure()) use(kind, format);
  }

  // Checks each shape under `count` of the formats, other ones each time.
  static void check_in_turn(const std::vector<Shape>& shapes, Options options, size_t count) {
    const std::vector<Format> all = formats(kernel().bits);
    Random random(1);
    size_t turn = 0;
    for (const Shape& shape : shapes)
      for (const int32_t kind : lhs_kinds())
        for (size_t i = 0; i < count && !HasFailure(); ++i) {
          options.flush = random.one_of({Flush::Begin, Flush::End});
          options.bias = random.one_of({false, true});
          check(Problem(kind, all[turn++ % all.size()], shape, options));
        }
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Conformance, testing::ValuesIn(kernels().begin(), kernels().end()),
                         [](const auto& info) { return info.param.name; });

// ---- shapes --------------------------------------------------------------------------------------------------------

// Around the edges of tiles and panels, of lines and groups: all M with all N at a few K; then all K and groups.
TEST_P(Conformance, OddRowsAndColumns) {
  std::vector<Shape> shapes;
  const Shape depths[] = {
      {0, 0, 1, 1},    {0, 0, 7, 7},   {0, 0, 40, 16}, {0, 0, 37, 8},
      {0, 0, 131, 64}, {0, 0, 64, 32}, {0, 0, 96, 24}};  // 7, prime to the widths: every N meets all
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 31, 33})
    for (const int64_t n : {1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 47, 49, 63, 64, 65, 79, 80, 95, 127, 129}) {
      const Shape& depth = depths[shapes.size() % std::size(depths)];
      shapes.push_back({m, n, depth.k, depth.group});
    }
  check_in_turn(shapes, {}, 1);
}

TEST_P(Conformance, OddDepthsAndGroups) {
  std::vector<Shape> shapes;
  const int64_t widths[][2] = {{1, 17}, {5, 33}, {13, 16}, {2, 63}};
  for (const int64_t k : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 100, 127, 128, 129, 257, 300})
    for (const int64_t group : {8, 16, 24, 32, 40, 64, 128, 136, 0}) {
      if (group > k) continue;
      const auto& [m, n] = widths[shapes.size() % std::size(widths)];
      shapes.push_back({m, n, k, group == 0 ? k : group});
    }
  check_in_turn(shapes, {}, 2);
  check_in_turn(shapes, {.values = Values::Exact}, 1);
}

// Rows are cut into slices of 128.
TEST_P(Conformance, ManyRows) {
  check_in_turn({{127, 17, 24, 8}, {128, 16, 19, 19}, {129, 33, 16, 16}, {257, 3, 40, 24}}, {}, 3);
}

// K is cut into blocks of 128 to 1024: of whole groups, or of parts of one.
TEST_P(Conformance, LongRows) {
  std::vector<Shape> shapes;
  for (const int64_t k : {255, 256, 257, 511, 513, 1023, 1024, 1025, 1031, 2049, 3001})
    for (const int64_t group : {8, 128, 136, 248, 256, 264, 512, 520, 1000, 1024, 1032, 2048, 0})
      if (group <= k) shapes.push_back({shapes.size() % 2 == 0 ? 1 : 3, 19, k, group == 0 ? k : group});
  check_in_turn(shapes, {}, 1);
  check_in_turn({{45, 35, 1040, 1040}}, {}, 2);  // whole tiles of every kernel, suspended
  check_in_turn({{5, 64, 1024, 8}}, {}, 3);      // the most scales that a block has, of the widest tile
}

// Groups longer than 16384 are summed in segments, in which the largest products just fit.
TEST_P(Conformance, Segments) {
  const std::vector<Shape> shapes = {{2, 5, 16383, 16383}, {3, 5, 16384, 16384}, {3, 5, 16385, 16385},
                                     {3, 4, 16400, 16392}, {3, 5, 33000, 16416}, {3, 4, 40000, 40000},
                                     {1, 5, 49200, 16392}, {3, 4, 32777, 16384}};
  check_in_turn(shapes, {.values = Values::Extreme}, 2);
  check_in_turn(shapes, {.values = Values::Ordinary}, 1);
}

// ---- values --------------------------------------------------------------------------------------------------------

TEST_P(Conformance, EveryFormat) {
  for_each_format([](int32_t kind, const Format& format) {
    for (const Values values :
         {Values::Ordinary, Values::Exact, Values::Ties, Values::Extreme, Values::Wild, Values::Subnormal})
      for (const Shape& shape : {Shape{1, 70, 104, 32}, Shape{7, 35, 77, 24}, Shape{14, 18, 45, 45}})
        check(Problem(kind, format, shape, {.values = values}));
  });
}

TEST_P(Conformance, ExtremeSums) {
  check_in_turn({{7, 35, 1024, 1024}, {7, 35, 4096, 4096}, {13, 70, 640, 320}, {3, 70, 72, 72}},
                {.values = Values::Extreme}, 9);
}

// A run of x that is 0, or too small for 127 / amax, is 0 to an 8-bit lhs; a float lhs keeps what it holds.
TEST_P(Conformance, BlocksTooSmallToScale) {
  const Shape shape = {4, 35, 200, 40};
  for_each_format([&](int32_t kind, const Format& format) {
    std::vector<float> small = Problem(kind, format, shape).x();
    for (const int64_t i : {0, 1, 3})
      for (int64_t k = 0; k < shape.k; ++k)
        if (i == 3 || k / shape.group % 2 == i)
          small[static_cast<size_t>(i * shape.k + k)] = k % 3 == 0 ? 1e-40f : -0.0f;
    std::vector<float> zero = small;
    for (float& x : zero)
      if (std::fabs(x) < 1e-38f) x = 0;
    const auto y_small = check(Problem(kind, format, shape, {}, small));
    const auto y_zero = check(Problem(kind, format, shape, {}, zero));
    if (kind != QMM_LHS_F32) {
      EXPECT_TRUE(same(y_small, y_zero));
    }
  });
}

TEST_P(Conformance, NanAndInfinityStayInTheirRows) {
  const Shape shape = {9, 35, 100, 24};
  for_each_format([&](int32_t kind, const Format& format) {
    const Problem clean(kind, format, shape);
    std::vector<float> x = clean.x();
    x[static_cast<size_t>(1 * shape.k + 3)] = NAN;
    x[static_cast<size_t>(4 * shape.k + 99)] = HUGE_VALF;
    x[static_cast<size_t>(8 * shape.k + 50)] = -HUGE_VALF;
    const auto y = check(Problem(kind, format, shape, {}, x)), y_clean = clean.run(&kernel());
    for (int64_t i = 0; i < shape.m; ++i) {
      const auto row = rows(y, shape.n, i, 1);
      if (i != 1 && i != 4 && i != 8) {
        EXPECT_TRUE(same(row, rows(y_clean, shape.n, i, 1)));
      } else if (i == 1 || kind != QMM_LHS_F32) {
        EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](float f) { return std::isnan(f); }));
      }
    }
  });
}

TEST_P(Conformance, NothingToDo) {
  for_each_format([](int32_t kind, const Format& format) {
    for (const bool bias : {false, true}) {
      for (const Shape& shape : {Shape{0, 5, 8, 8}, Shape{5, 0, 8, 8}, Shape{0, 0, 0, 0}, Shape{5, 0, 0, 0}})
        EXPECT_EQ(check(Problem(kind, format, shape, {.bias = bias})).size(), 0u);
      const Problem no_depth(kind, format, {3, 21, 0, 0}, {.bias = bias});
      const auto y = check(no_depth);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], bias ? no_depth.args().bias[i % 21] : 0.0f);
    }
  });
}

// ---- arguments -----------------------------------------------------------------------------------------------------

TEST_P(Conformance, StridesAndBatches) {
  const Gaps none, some = {.col = 2, .row = 5, .batch = 11}, columns = {.col = 1}, last = {.row = 1, .batch = 3};
  const std::vector<Shape> shapes = {{5, 35, 70, 24}, {1, 70, 300, 300}, {13, 17, 33, 8}};
  for (const int64_t batch : {1, 3})
    for (const bool transposed : {false, true}) {
      check_in_turn(shapes, {.batch = batch, .x_gaps = some, .y_gaps = some, .transposed = transposed}, 3);
      check_in_turn(shapes, {.batch = batch, .x_gaps = none, .y_gaps = columns, .transposed = transposed}, 1);
      check_in_turn(shapes, {.batch = batch, .x_gaps = last, .y_gaps = last, .transposed = transposed}, 1);
    }
  // Batches reach over slices of rows.
  check_in_turn({{50, 17, 16, 8}}, {.batch = 6, .x_gaps = some, .y_gaps = some}, 3);
}

TEST_P(Conformance, RepeatedRow) {
  for_each_format([](int32_t kind, const Format& format) {
    const Problem problem(kind, format, {5, 20, 40, 8});
    qmm_matmul_args args = problem.args();
    args.x_row_stride = 0;
    const auto y = problem.call(&kernel())(args);
    for (int64_t i = 0; i < 5; ++i) EXPECT_TRUE(same(rows(y, 20, i, 1), rows(problem.run(&kernel()), 20, 0, 1)));
  });
}

TEST_P(Conformance, PackedWeightsAtAnyAddress) {
  for_each_format([](int32_t kind, const Format& format) {
    const Problem problem(kind, format, {7, 35, 77, 24});
    qmm_matmul_args args = problem.args();
    const auto* packed = static_cast<const uint8_t*>(args.rhs->packed);
    const auto size = static_cast<int64_t>(args.rhs->packed_size);
    for (const int64_t shift : {1, 2, 31}) {
      const Guarded<uint8_t> moved(size + shift);
      std::copy(packed, packed + size, moved.begin() + (64 - shift) % shift);
      auto rhs = sized<qmm_rhs>();
      ASSERT_EQ(qmm_rhs_open(moved.data() + (64 - shift) % shift, static_cast<size_t>(size), &rhs), QMM_OK);
      args.rhs = &rhs;
      EXPECT_TRUE(same(problem.call(&kernel())(args), problem.run(&kernel())));
    }
  });
}

// Codes past K, up to the multiple of 8 that kernels read, meet an lhs of 0, whatever a damaged file holds there.
TEST_P(Conformance, PaddingDoesNotCount) {
  for_each_format([](int32_t kind, const Format& format) {
    const Problem problem(kind, format, {7, 35, 77, 24});
    qmm_matmul_args args = problem.args();
    const Guarded<uint8_t> packed(static_cast<int64_t>(args.rhs->packed_size));
    std::copy_n(static_cast<const uint8_t*>(args.rhs->packed), packed.size(), packed.begin());
    Layout layout;
    ASSERT_EQ(make_layout("test", &args.rhs->desc, &layout), QMM_OK);
    for (int64_t p = 0; p < layout.panels; ++p)
      for (int64_t c = 0; c < kPanel; ++c)
        for (int64_t k = args.rhs->desc.k; k < layout.padded_k; ++k) {
          const Place at = place(format.bits, c, k);
          uint8_t& byte = packed[static_cast<int64_t>(sizeof(Header)) + p * layout.panel_stride + at.byte];
          byte = static_cast<uint8_t>(byte | (format.bits == 4 ? 13 : 131) << at.shift);
        }
    qmm_rhs rhs = *args.rhs;
    rhs.packed = packed.data();
    args.rhs = &rhs;
    EXPECT_TRUE(same(problem.call(&kernel())(args), problem.run(&kernel()))) << problem.describe();
  });
}

TEST_P(Conformance, CanonicalWeightsEqualPacked) {
  for_each_format([](int32_t kind, const Format& format) {
    for (const Shape& shape : {Shape{1, 70, 77, 24}, Shape{7, 35, 77, 77}, Shape{3, 17, 1100, 1032}}) {
      const Problem problem(kind, format, shape);
      qmm_matmul_args args = problem.args();
      args.rhs = nullptr;
      args.desc = &problem.weights().desc;
      args.weights = &problem.weights().arrays;
      EXPECT_TRUE(same(problem.call(&kernel())(args), problem.run(&kernel()))) << problem.describe();
    }
  });
}

TEST_P(Conformance, QuantizedLhsEqualsDirect) {
  for_each_format([](int32_t kind, const Format& format) {
    if (kind == QMM_LHS_F32) return;  // there is none
    for (const Shape& shape :
         {Shape{1, 70, 77, 24}, Shape{7, 35, 77, 77}, Shape{150, 17, 24, 8}, Shape{2, 3, 16500, 16500}})
      for (const Flush flush : {Flush::Begin, Flush::End}) {
        const Problem problem(kind, format, shape, {.x_gaps = {.col = 1, .row = 2}, .flush = flush});
        qmm_matmul_args args = problem.args();
        size_t size = 0;
        ASSERT_EQ(qmm_lhs_size(&args, &size), QMM_OK);
        Guarded<uint8_t> lhs(static_cast<int64_t>(size), flush);
        ASSERT_EQ(qmm_quantize_lhs(&args, lhs.data(), size), QMM_OK);
        lhs.freeze();
        args.x = nullptr;
        args.lhs = lhs.data();
        args.lhs_size = size;
        EXPECT_TRUE(same(problem.call(&kernel())(args), problem.run(&kernel()))) << problem.describe();
      }
  });
}

// ---- what a result does not depend on ------------------------------------------------------------------------------

TEST_P(Conformance, RowsDoNotDependOnEachOther) {
  const Shape shape = {135, 35, 77, 24};
  for_each_format([&](int32_t kind, const Format& format) {
    const Problem problem(kind, format, shape);
    const auto y = problem.run(&kernel());
    for (const auto& [first, count] : {std::pair{0, 1}, {1, 1}, {6, 2}, {3, 4}, {100, 35}, {134, 1}}) {
      qmm_matmul_args args = problem.args();
      args.x = static_cast<const float*>(args.x) + first * args.x_row_stride;
      args.m = count;
      EXPECT_TRUE(same(problem.call(&kernel())(args), rows(y, shape.n, first, count)));
      // Nor does it matter which kernel the chooser has for so many rows.
      EXPECT_TRUE(same(problem.call(nullptr)(args), rows(y, shape.n, first, count)));
    }
  });
}

TEST_P(Conformance, ColumnsDoNotDependOnEachOther) {
  const Shape shape = {5, 140, 77, 24};
  for_each_format([&](int32_t kind, const Format& format) {
    const Problem problem(kind, format, shape);
    const auto y = problem.run(&kernel());
    for (const auto& [first, count] : {std::pair{0, 1}, {0, 64}, {3, 17}, {77, 63}, {139, 1}}) {
      CanonicalWeights part = problem.weights();
      const int64_t scale_size = dtype_size(format.scale_dtype),
                    offset_size = format.offset == QMM_ZEROS ? 1 : scale_size;
      part.desc.n = count;
      part.arrays.codes = static_cast<uint8_t*>(part.arrays.codes) + first * part.arrays.codes_stride;
      part.arrays.scales = static_cast<uint8_t*>(part.arrays.scales) + first * part.arrays.scales_stride * scale_size;
      if (part.arrays.offsets != nullptr)
        part.arrays.offsets =
            static_cast<uint8_t*>(part.arrays.offsets) + first * part.arrays.offsets_stride * offset_size;
      qmm_matmul_args args = problem.args();
      args.rhs = nullptr;
      args.desc = &part.desc;
      args.weights = &part.arrays;
      args.bias += first;
      std::vector<float> columns;
      for (int64_t i = 0; i < shape.m; ++i)
        columns.insert(columns.end(), y.begin() + i * shape.n + first, y.begin() + i * shape.n + first + count);
      EXPECT_TRUE(same(problem.call(&kernel())(args), columns));
    }
  });
}

// Runs each index on a thread of its own, and notes the largest count.
void run_on_threads(void* context, qmm_task task, void* arg, int64_t count) {
  auto& largest = *static_cast<int64_t*>(context);
  largest = std::max(largest, count);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back(task, arg, i);
  for (std::thread& thread : threads) thread.join();
}

void run_backwards(void*, qmm_task task, void* arg, int64_t count) {
  while (count > 0) task(arg, --count);
}

TEST_P(Conformance, Threads) {
  for (const Shape& shape : {Shape{2, 900, 300, 104}, Shape{130, 470, 40, 40}})
    for (const int32_t kind : lhs_kinds())
      for (const bool canonical : {false, true}) {
        const Problem problem(kind, {kernel().bits, QMM_ZEROS, QMM_F16}, shape);
        qmm_matmul_args args = problem.args();
        if (canonical) {
          args.rhs = nullptr;
          args.desc = &problem.weights().desc;
          args.weights = &problem.weights().arrays;
        }
        const auto alone = problem.call(&kernel())(args);
        for (const int64_t count : {1, 2, 7}) {
          int64_t largest = 0;
          const qmm_threads threads = {sizeof threads, count, run_on_threads, &largest};
          args.threads = &threads;
          EXPECT_TRUE(same(problem.call(&kernel())(args), alone)) << count << " threads";
          if (count > 1) {
            EXPECT_EQ(largest, count);
          }
          const qmm_threads backwards = {sizeof threads, count, run_backwards, nullptr};
          args.threads = &backwards;
          EXPECT_TRUE(same(problem.call(&kernel())(args), alone)) << count << " parts, the last first";
        }
        args.threads = nullptr;
        for (const int64_t count : {2, 7, 1}) {
          ASSERT_EQ(qmm_set_num_threads(count), QMM_OK);
          EXPECT_TRUE(same(problem.call(&kernel())(args), alone)) << "a pool of " << count;
        }
      }
}

// Whatever rounding, flushing and traps the caller has set, and they are as before when the call is over.
TEST_P(Conformance, FloatingPointEnvironmentOfTheCaller) {
  for_each_format([](int32_t kind, const Format& format) {
    for (const Values values : {Values::Ordinary, Values::Subnormal, Values::Wild}) {
      const Problem problem(kind, format, {5, 35, 77, 24}, {.values = values});
      const auto want = problem.run(&kernel());
      for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fenv_t before;
        std::fegetenv(&before);
        std::fesetround(rounding);
#if defined(__x86_64__)
        constexpr unsigned kFlush = 0x8040, kTraps = 0x0e80;  // FTZ, DAZ; all but denormal, underflow and inexact
        _mm_setcsr((_mm_getcsr() | kFlush) & ~kTraps);
        const unsigned csr = _mm_getcsr();
#endif
        const auto y = problem.run(&kernel());
#if defined(__x86_64__)
        EXPECT_EQ(_mm_getcsr() & ~0x3fu, csr & ~0x3fu);
#endif
        EXPECT_EQ(std::fegetround(), rounding);
        std::fesetenv(&before);
        EXPECT_TRUE(same(y, want)) << problem.describe();
      }
    }
  });
}

// ---- the table and the chooser -------------------------------------------------------------------------------------

std::string isa_of(uint64_t need) {
  std::string isa = "scalar";
  for (const Feature& feature : kFeatures)
    if ((need & feature.bit) != 0) isa = feature.isa;
  return isa;
}

// qmm_<out>_<lhs>_<rhs>_<MR>x<NR>x<KR>_<isa>
TEST(Table, NamesSayWhatTheRowsSay) {
  std::set<std::string> names;
  for (const Kernel& kernel : kernels()) {
    std::ostringstream name;
    name << "qmm_f32_" << (kernel.lhs == Lhs::F32 ? "f32" : "s8") << (kernel.bits == 4 ? "_u4_" : "_s8_") << kernel.mr
         << 'x' << kernel.nr << 'x' << kernel.kr << '_' << isa_of(kernel.need);
    EXPECT_EQ(kernel.name, name.str());
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name << " is there twice";
  }
  for (const Quantizer& quantizer : quantizers()) {
    EXPECT_EQ(quantizer.name, "qmm_s8_f32_1x" + std::to_string(quantizer.k) + '_' + isa_of(quantizer.need));
    EXPECT_TRUE(names.insert(quantizer.name).second) << quantizer.name << " is there twice";
  }
}

TEST(Table, RowsFitTheInterface) {
  for (const Kernel& kernel : kernels()) {
    EXPECT_TRUE(kernel.bits == 4 || kernel.bits == 8) << kernel.name;
    EXPECT_GE(kernel.min_m, 1) << kernel.name;
    EXPECT_EQ(kernel.nr % kPanel, 0) << kernel.name;
    EXPECT_EQ(8 % kernel.kr, 0) << kernel.name;  // K is padded to a multiple of 8
    EXPECT_LE(kernel.block_k, kMaxBlock) << kernel.name;
    EXPECT_EQ(kMaxSegment % kernel.block_k, 0) << kernel.name;
    EXPECT_GE(kernel.block_k, 64) << kernel.name;  // shorter groups are never split: some kernels rely on it
    EXPECT_NE(kernel.run, nullptr) << kernel.name;
  }
}

TEST(Table, EveryFileIsARowAndEveryRowAFile) {
  const std::filesystem::path folder = std::filesystem::path(QMM_SOURCE_DIR) / "kernels";
  for (const Kernel& kernel : kernels())
    EXPECT_TRUE(std::filesystem::exists(folder / isa_of(kernel.need) / (std::string(kernel.name) + ".cc")))
        << kernel.name;
  for (const Quantizer& quantizer : quantizers())
    EXPECT_TRUE(std::filesystem::exists(folder / isa_of(quantizer.need) / (std::string(quantizer.name) + ".cc")))
        << quantizer.name;
  std::ifstream file(folder / "kernels.inc");
  const std::string table(std::istreambuf_iterator<char>(file), {});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".cc") {
      const std::string name = '(' + entry.path().stem().string() + ',';
      EXPECT_NE(table.find(name), std::string::npos) << entry.path();
    }
}

// From plainest to fastest: a scalar row, which needs nothing and takes any M, begins each family.
TEST(Table, FamiliesBeginWithScalar) {
  std::set<std::pair<Lhs, int>> begun;
  for (const Kernel& kernel : kernels()) {
    if (begun.insert({kernel.lhs, kernel.bits}).second) {
      EXPECT_EQ(kernel.need, 0u) << kernel.name;
      EXPECT_EQ(kernel.min_m, 1) << kernel.name;
    }
  }
  EXPECT_EQ(begun.size(), 4u);
}

TEST(Choose, ScalarWithoutFeatures) {
  for (const Lhs lhs : {Lhs::F32, Lhs::S8})
    for (const int bits : {4, 8})
      for (const int64_t m : {1, 2, 1000}) {
        const Kernel* kernel = choose(0, lhs, bits, m);
        ASSERT_NE(kernel, nullptr);
        EXPECT_EQ(isa_of(kernel->need), "scalar");
        EXPECT_EQ(kernel->lhs, lhs);
        EXPECT_EQ(kernel->bits, bits);
      }
  EXPECT_EQ(choose(~uint64_t(0), Lhs::S8, 3, 1), nullptr);
}

// Never what the CPU lacks or M is too small for, and no later row would do.
TEST(Choose, LastRowThatFits) {
  uint64_t all = 0;
  for (const Feature& feature : kFeatures) all |= feature.bit;
  for (uint64_t features = 0; features <= all; ++features)
    for (const Lhs lhs : {Lhs::F32, Lhs::S8})
      for (const int bits : {4, 8})
        for (const int64_t m : {1, 2, 3, 4, 5, 16, 128}) {
          const auto fits = [&](const Kernel& k) {
            return k.lhs == lhs && k.bits == bits && k.min_m <= m && (k.need | features) == features;
          };
          const auto last = std::find_if(kernels().rbegin(), kernels().rend(), fits);
          ASSERT_NE(last, kernels().rend());
          EXPECT_EQ(choose(features, lhs, bits, m), &*last);
        }
}

std::string name(uint64_t features, Lhs lhs, int bits, int64_t m) { return choose(features, lhs, bits, m)->name; }

#if defined(__x86_64__)
TEST(Choose, Vnni) {
  constexpr uint64_t kAvxVnni = QMM_CPU_AVX2 | QMM_CPU_AVXVNNI, kAvx512 = QMM_CPU_AVX2 | QMM_CPU_AVX512,
                     kAvx512Vnni = kAvx512 | QMM_CPU_AVX512VNNI;
  EXPECT_EQ(name(kAvxVnni, Lhs::F32, 4, 2), "qmm_f32_f32_u4_6x16x8_avx2");
  EXPECT_EQ(name(kAvxVnni, Lhs::S8, 4, 4), "qmm_f32_s8_u4_4x64x8_avxvnni");
  EXPECT_EQ(name(kAvxVnni, Lhs::S8, 4, 5), "qmm_f32_s8_u4_6x16x8_avxvnni");
  EXPECT_EQ(name(kAvxVnni | QMM_CPU_AVXVNNIINT8, Lhs::S8, 4, 5), "qmm_f32_s8_u4_6x16x8_avxvnni");
  EXPECT_EQ(name(kAvxVnni | QMM_CPU_AVXVNNIINT8, Lhs::S8, 8, 5), "qmm_f32_s8_s8_6x16x8_avxvnniint8");
  EXPECT_EQ(name(kAvx512, Lhs::F32, 8, 2), "qmm_f32_f32_s8_12x32x8_avx512");
  EXPECT_EQ(name(kAvx512, Lhs::S8, 4, 5), "qmm_f32_s8_u4_8x16x8_avx512");
  EXPECT_EQ(name(kAvx512Vnni | kAvxVnni, Lhs::S8, 4, 12), "qmm_f32_s8_u4_4x64x8_avx512vnni");
  EXPECT_EQ(name(kAvx512Vnni | kAvxVnni, Lhs::S8, 4, 13), "qmm_f32_s8_u4_12x32x8_avx512vnni");
  EXPECT_EQ(name(kAvx512Vnni, Lhs::F32, 4, 1), "qmm_f32_f32_u4_1x64x8_avx512");
  EXPECT_EQ(name(kAvx512, Lhs::S8, 8, 2), "qmm_f32_s8_s8_1x64x8_avx512");
  EXPECT_EQ(name(kAvx512, Lhs::S8, 8, 3), "qmm_f32_s8_s8_12x32x8_avx512");
  EXPECT_EQ(name(kAvx512Vnni | QMM_CPU_AMX, Lhs::S8, 4, 15), "qmm_f32_s8_u4_12x32x8_avx512vnni");
  EXPECT_EQ(name(kAvx512Vnni | QMM_CPU_AMX, Lhs::S8, 4, 16), "qmm_f32_s8_u4_32x32x8_amx");
  EXPECT_EQ(name(kAvx512Vnni | QMM_CPU_AMX, Lhs::S8, 8, 16), "qmm_f32_s8_s8_32x32x8_amx");
  // The bits of a matrix unit without the registers of the ISA around it choose nothing.
  EXPECT_EQ(name(QMM_CPU_AVX2 | QMM_CPU_AMX, Lhs::S8, 4, 128), "qmm_f32_s8_u4_4x16x8_avx2");
}

TEST(Choose, Avx2) {
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::F32, 4, 1), "qmm_f32_f32_u4_1x64x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::F32, 4, 2), "qmm_f32_f32_u4_6x16x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::F32, 8, 1), "qmm_f32_f32_s8_1x64x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::F32, 8, 100), "qmm_f32_f32_s8_6x16x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::S8, 4, 1), "qmm_f32_s8_u4_4x64x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::S8, 4, 4), "qmm_f32_s8_u4_4x64x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::S8, 4, 5), "qmm_f32_s8_u4_4x16x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::S8, 8, 1), "qmm_f32_s8_s8_1x64x8_avx2");
  EXPECT_EQ(name(QMM_CPU_AVX2, Lhs::S8, 8, 2), "qmm_f32_s8_s8_4x32x8_avx2");
}
#endif

#if defined(__aarch64__)
TEST(Choose, Arm) {
  constexpr uint64_t kNeon = QMM_CPU_NEON, kDotprod = kNeon | QMM_CPU_NEON_DOTPROD,
                     kI8mm = kDotprod | QMM_CPU_NEON_I8MM, kSve = QMM_CPU_SVE, kSveI8mm = kSve | QMM_CPU_SVE_I8MM;
  EXPECT_EQ(name(kNeon, Lhs::F32, 4, 1), "qmm_f32_f32_u4_1x64x8_neon");
  EXPECT_EQ(name(kNeon, Lhs::F32, 8, 2), "qmm_f32_f32_s8_4x16x8_neon");
  EXPECT_EQ(name(kNeon, Lhs::S8, 4, 2), "qmm_f32_s8_u4_2x32x8_neon");
  EXPECT_EQ(name(kNeon, Lhs::S8, 8, 3), "qmm_f32_s8_s8_2x16x8_neon");
  EXPECT_EQ(name(kDotprod, Lhs::S8, 4, 4), "qmm_f32_s8_u4_4x64x8_neon_dotprod");
  EXPECT_EQ(name(kDotprod, Lhs::S8, 8, 5), "qmm_f32_s8_s8_4x16x8_neon_dotprod");
  EXPECT_EQ(name(kI8mm, Lhs::S8, 4, 4), "qmm_f32_s8_u4_4x64x8_neon_dotprod");
  EXPECT_EQ(name(kI8mm, Lhs::S8, 4, 5), "qmm_f32_s8_u4_6x64x8_neon_i8mm");
  EXPECT_EQ(name(kNeon | kSve, Lhs::F32, 4, 1), "qmm_f32_f32_u4_1x64x8_sve");
  EXPECT_EQ(name(kNeon | kSve, Lhs::F32, 4, 2), "qmm_f32_f32_u4_8x32x8_sve");
  EXPECT_EQ(name(kNeon | kSve, Lhs::S8, 8, 4), "qmm_f32_s8_s8_4x64x8_sve");
  EXPECT_EQ(name(kI8mm | kSveI8mm, Lhs::S8, 8, 4), "qmm_f32_s8_s8_4x64x8_sve");
  EXPECT_EQ(name(kI8mm | kSveI8mm, Lhs::S8, 8, 5), "qmm_f32_s8_s8_6x64x8_sve_i8mm");
}
#endif

TEST(Choose, Quantizer) {
  EXPECT_STREQ(choose_quantizer(0)->name, "qmm_s8_f32_1x1_scalar");
#if defined(__x86_64__)
  EXPECT_STREQ(choose_quantizer(QMM_CPU_AVX2)->name, "qmm_s8_f32_1x32_avx2");
#else
  EXPECT_STREQ(choose_quantizer(QMM_CPU_NEON)->name, "qmm_s8_f32_1x16_neon");
#endif
}

// ---- what a kernel is told ----------------------------------------------------------------------------------------

// What it is told to prefetch is what the next block reads.
TEST(Blocks, NextIsWhatFollows) {
  static std::vector<Block> blocks;
  Kernel recorder = *choose(0, Lhs::S8, 4, 1);
  recorder.block_k = 256;
  recorder.nr = 32;
  recorder.run = [](const Block& b) { blocks.push_back(b); };
  for (const Shape& shape : {Shape{3, 100, 2000, 32}, Shape{1, 64, 256, 128}, Shape{2, 70, 1032, 1032}}) {
    Random random(1);
    const RandomWeights weights(shape, {4, QMM_ZEROS, QMM_F16}, Values::Ordinary, random, Flush::End);
    const CanonicalWeights& canonical = weights.canonical();
    size_t size = 0;
    ASSERT_EQ(qmm_packed_size(&canonical.desc, &size), QMM_OK);
    std::vector<uint8_t> packed(size);
    ASSERT_EQ(qmm_pack(&canonical.desc, &canonical.arrays, packed.data(), size), QMM_OK);
    auto rhs = sized<qmm_rhs>();
    ASSERT_EQ(qmm_rhs_open(packed.data(), size, &rhs), QMM_OK);
    const std::vector<float> x(static_cast<size_t>(shape.m * shape.k), 1.0f);
    std::vector<float> y(static_cast<size_t>(shape.m * shape.n));
    auto args = sized<qmm_matmul_args>();
    args.lhs_kind = QMM_LHS_S8;
    args.m = shape.m;
    args.rhs = &rhs;
    args.x = x.data();
    args.x_row_stride = shape.k;
    args.y = y.data();
    args.y_row_stride = shape.n;
    blocks.clear();
    ASSERT_EQ(matmul(&args, &recorder), QMM_OK) << qmm_last_error();
    ASSERT_GT(blocks.size(), 1u);
    for (size_t i = 0; i + 1 < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i].next_codes, blocks[i + 1].codes) << i;
      EXPECT_EQ(blocks[i].next_scales, blocks[i + 1].scales) << i;
      EXPECT_EQ(blocks[i].next_offsets, blocks[i + 1].offsets) << i;
    }
    EXPECT_GE(blocks.back().next_codes, packed.data());
    EXPECT_LT(blocks.back().next_codes, packed.data() + packed.size());
  }
}

// ---- what quantizes the lhs ----------------------------------------------------------------------------------------

// What a quantizer writes, as bytes; the row and all it writes lie against guard pages.
std::vector<uint8_t> quantize(const Quantizer& quantizer, const std::vector<float>& x, int64_t stride, int64_t group,
                              bool token) {
  const auto k = static_cast<int64_t>(x.size());
  const int64_t segments = k / group * ceil_div(group, kMaxSegment) + ceil_div(k % group, kMaxSegment);
  Guarded<float> row((k - 1) * stride + 1);
  std::fill(row.begin(), row.end(), __builtin_nanf(""));
  for (int64_t i = 0; i < k; ++i) row[i * stride] = x[static_cast<size_t>(i)];
  row.freeze();
  Guarded<int8_t> codes(round_up(k, 8));
  Guarded<float> scales(segments), token_scale(1);
  Guarded<int32_t> sums(segments);
  quantizer.run({.x = row.data(),
                 .stride = stride,
                 .k = k,
                 .group = group,
                 .codes = codes.data(),
                 .scales = scales.data(),
                 .sums = sums.data(),
                 .token_scale = token ? token_scale.data() : nullptr});
  std::vector<uint8_t> bytes;
  const auto append = [&](const void* from, int64_t size) {
    const auto* begin = static_cast<const uint8_t*>(from);
    bytes.insert(bytes.end(), begin, begin + size);
  };
  append(codes.data(), k);
  append(scales.data(), segments * 4);
  append(sums.data(), segments * 4);
  append(token_scale.data(), token ? 4 : 0);
  return bytes;
}

// Every row of the table writes the same bytes as the scalar one, the payload of a NaN among them.
TEST(Quantizers, EqualScalar) {
  const auto& scalar = *choose_quantizer(0);
  for (const Quantizer& quantizer : quantizers()) {
    if ((quantizer.need & ~decode_cpu(read_cpu_words())) != 0)
      GTEST_SKIP() << "this CPU can not run " << quantizer.name;
    Random random(3);
    for (int run = 0; run < 2000; ++run) {
      const int64_t k = run % 100 == 0 ? random.integer(16000, 50000) : random.integer(1, 300);
      const int64_t group = round_up(random.one_of<int64_t>({8, 16, 32, 40, 128, k}), 8);
      const auto values = random.one_of({Values::Ordinary, Values::Ties, Values::Wild, Values::Subnormal});
      std::vector<float> x(static_cast<size_t>(k));
      for (float& v : x) v = random.x(values);
      if (run % 4 == 0)
        for (int64_t i = random.integer(0, k - 1); i < k; i += random.integer(1, 100))
          x[static_cast<size_t>(i)] =
              random.one_of({0.0f, -0.0f, __builtin_inff(), -__builtin_inff(), __builtin_nanf(""), 0x1p-149f});
      const int64_t stride = random.one_of<int64_t>({1, 1, 1, 2, 7});
      const bool token = random.integer(0, 1) == 1;
      ASSERT_EQ(quantize(quantizer, x, stride, group, token), quantize(scalar, x, stride, group, token))
          << quantizer.name << " k " << k << " stride " << stride << " group " << group << " token " << token;
    }
  }
}

// ---- the oracle itself ---------------------------------------------------------------------------------------------

// The codes of an 8-bit lhs are within half a step of x, but for the rounding of the step.
TEST(Oracle, QuantizesToTheNearestCode) {
  Random random(1);
  for (int run = 0; run < 1000; ++run) {
    std::vector<float> x;
    const int exponent = static_cast<int>(random.integer(-100, 120));
    for (int k = 0; k < 40; ++k) x.push_back(random.real(exponent, exponent + 6));
    const QuantizedRun q = quantize_run(x.data(), 40);
    for (size_t k = 0; k < x.size(); ++k) {
      EXPECT_LE(std::abs(q.codes[k]), 127);
      EXPECT_LE(std::fabs(x[k] - q.codes[k] * static_cast<long double>(q.scale)), 0.5001L * q.scale);
    }
  }
}

// Its bound is worth having: nothing at all where nothing rounds, and a few units in the last place for an 8-bit lhs.
TEST(Oracle, BoundsAreTight) {
  const Problem exact(QMM_LHS_F32, {4, QMM_MINS, QMM_F16}, {3, 5, 200, 40}, {.values = Values::Exact, .bias = false});
  for (const Number& y : exact.oracle()) EXPECT_TRUE(y.exact);
  const Problem one_group(QMM_LHS_S8, {8, QMM_ZEROS, QMM_F32}, {3, 5, 500, 500}, {.bias = false});
  for (const Number& y : one_group.oracle()) EXPECT_LE(y.error, 0x1p-22L * std::fabs(y.value));
}

}  // namespace
}  // namespace test
}  // namespace qmm
