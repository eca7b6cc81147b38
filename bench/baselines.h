// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a user would run instead, in fp32: Y[m,n] = X[m,k] W[n,k]^T, all row-major and dense.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace bench {

struct Baseline {
  const char* name;
  bool threaded;  // whether it was built to use several threads
  void (*matmul)(int64_t m, int64_t n, int64_t k, const float* x, const float* w, float* y);
};
std::span<const Baseline> baselines();

// Gives every baseline this many threads.
void set_baseline_threads(int num_threads);

// Which code they run: OpenBLAS's core, Eigen's instruction sets.
std::string openblas_conditions();
std::string eigen_conditions();

}  // namespace bench
