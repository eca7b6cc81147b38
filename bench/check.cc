// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "baselines.h"
#include "weights.h"

namespace bench {
namespace {

constexpr Shape kShape = {200, 256};

// Ends the program where y is further from `expected` than `tolerance` of the largest number there.
void require_close(const char* name, int64_t m, const Buffer<float>& y, const Buffer<float>& expected,
                   float tolerance) {
  float largest = 0, error = 0;
  bool finite = true;
  for (size_t i = 0; i < y.size; ++i) {
    largest = std::fmax(largest, std::fabs(expected.data[i]));
    error = std::fmax(error, std::fabs(y.data[i] - expected.data[i]));
    finite = finite && std::isfinite(y.data[i]);
  }
  if (finite && error <= tolerance * largest) return;
  std::fprintf(stderr, "qmm_bench: %s is wrong at M = %d: an error of %g where the largest result is %g\n", name,
               static_cast<int>(m), static_cast<double>(error), static_cast<double>(largest));
  std::exit(1);
}

void check_rows(int64_t m) {
  const auto [n, k] = kShape;
  const auto x = random_floats(m * k), w = random_floats(n * k);
  const auto y = allocate<float>(static_cast<size_t>(m * n)), expected = allocate<float>(static_cast<size_t>(m * n));
  const Baseline& reference = baselines()[0];
  reference.matmul(m, n, k, x.get(), w.get(), expected.get());
  for (const Baseline& baseline : baselines()) {
    baseline.matmul(m, n, k, x.get(), w.get(), y.get());
    require_close(baseline.name, m, y, expected, 1e-4f);
  }

  std::vector<int64_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  for (const Format& format : {kU4G32Mins, kU4G32, kU4G128, kS8G32}) {
    const auto packed = pack(describe(kShape, format), w.get());
    const qmm_rhs rhs = open(packed.bytes());
    const auto dequantized = allocate<float>(static_cast<size_t>(n * k));
    require(qmm_dequantize_rows(&rhs, rows.data(), n, dequantized.get(), k));
    reference.matmul(m, n, k, x.get(), dequantized.get(), expected.get());
    for (const LhsKind& lhs : kLhsKinds) {
      qmm_matmul_args args = {};
      args.struct_size = sizeof args;
      args.lhs_kind = lhs.kind;
      args.m = m;
      args.x = x.get();
      args.x_row_stride = k;
      args.rhs = &rhs;
      args.y = y.get();
      args.y_row_stride = n;
      require(qmm_matmul(&args));
      const char* name;
      require(qmm_kernel_name(lhs.kind, &rhs.desc, m, &name));
      require_close(name, m, y, expected, lhs.kind == QMM_LHS_F32 ? 1e-4f : 0.03f);
    }
  }
}

}  // namespace

void check_results() {
  for (const int64_t m : {1, 9}) check_rows(m);
}

}  // namespace bench
