// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace bench {
namespace {

constexpr Shape kShape = {200, 256};

// The weights that a format leaves of float_weights(kShape), by way of libqmm's packed ones.
Buffer<float> dequantize(const Format& format) {
  auto w = allocate<float>(static_cast<size_t>(kShape.n * kShape.k));
  if (format.bits == 32) {
    const auto floats = float_weights(kShape);
    std::copy(floats.begin(), floats.end(), w.get());
    return w;
  }
  const auto packed = make_libqmm(format, QMM_LHS_F32)->pack(kShape);
  qmm_rhs rhs = {};
  rhs.struct_size = sizeof rhs;
  require(qmm_rhs_open(packed.get(), packed.size, &rhs));
  std::vector<int64_t> rows(static_cast<size_t>(kShape.n));
  std::iota(rows.begin(), rows.end(), 0);
  require(qmm_dequantize_rows(&rhs, rows.data(), kShape.n, w.get(), kShape.k));
  return w;
}

void check(const Contender& contender, int64_t m) {
  const auto [n, k] = kShape;
  const auto x = random_floats(m * k);
  const auto w = dequantize(contender.format());
  const auto y = allocate<float>(static_cast<size_t>(m * n));
  const auto packed = contender.pack(kShape);
  contender.bind(kShape, m, x.get(), packed.get(), y.get()).run();
  double largest = 0, error = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double expected = 0;
      for (int64_t l = 0; l < k; ++l) expected += double(x.get()[i * k + l]) * double(w.get()[j * k + l]);
      const float got = y.get()[i * n + j];
      largest = std::fmax(largest, std::fabs(expected));
      error = std::isfinite(got) ? std::fmax(error, std::fabs(double(got) - expected)) : HUGE_VAL;
    }
  if (error <= double(contender.tolerance()) * largest) return;
  std::fprintf(stderr, "qmm_bench: %s is wrong at M = %d: an error of %g where the largest result is %g\n",
               contender.name().c_str(), static_cast<int>(m), error, largest);
  std::exit(1);
}

}  // namespace

void check_results(const Contenders& contenders) {
  for (const auto& contender : contenders)
    for (const int64_t m : {1, 9}) check(*contender, m);
}

}  // namespace bench
