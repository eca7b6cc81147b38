// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Eigen/Core>

#include "f32.h"

namespace bench {
namespace {

void matmul(int64_t m, int64_t n, int64_t k, const float* x, const float* w, float* y) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::VectorXf;
  const Eigen::Map<const Matrix> weights(w, n, k);
  if (m == 1)
    Eigen::Map<Vector>(y, n).noalias() = weights * Eigen::Map<const Vector>(x, k);
  else
    Eigen::Map<Matrix>(y, m, n).noalias() = Eigen::Map<const Matrix>(x, m, k) * weights.transpose();
}

}  // namespace

Contenders start_eigen(int threads) {
  Eigen::setNbThreads(threads);
  Contenders contenders;
  contenders.push_back(std::make_unique<Float32>("f32_eigen", matmul));
  return contenders;
}

std::string eigen_conditions() {
  return std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
         std::to_string(EIGEN_MINOR_VERSION) + ", for " QMM_BENCH_ARCH;
}

}  // namespace bench
