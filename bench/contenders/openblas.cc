// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cblas.h>

#include <cstdio>
#include <cstdlib>

#include "f32.h"

namespace bench {
namespace {

void matmul(int64_t m, int64_t n, int64_t k, const float* x, const float* w, float* y) {
  const auto rows = static_cast<blasint>(m), columns = static_cast<blasint>(n), depth = static_cast<blasint>(k);
  if (m == 1)  // sgemm does not see that it is a matrix by a vector
    cblas_sgemv(CblasRowMajor, CblasNoTrans, columns, depth, 1, w, depth, x, 1, 0, y, 1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, depth, 1, x, depth, w, depth, 0, y, columns);
}

}  // namespace

Contenders start_openblas(int threads) {
  openblas_set_num_threads(threads);
  if (openblas_get_num_threads() != threads) {
    std::fprintf(stderr, "qmm_bench: OpenBLAS takes %d threads, not %d\n", openblas_get_num_threads(), threads);
    std::exit(1);
  }
  Contenders contenders;
  contenders.push_back(std::make_unique<Float32>("f32_openblas", matmul));
  return contenders;
}

std::string openblas_conditions() { return std::string(openblas_get_corename()) + " core; " + openblas_get_config(); }

}  // namespace bench
