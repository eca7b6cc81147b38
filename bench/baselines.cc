// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "baselines.h"

#include <cblas.h>

#include <Eigen/Core>

namespace bench {
namespace {

void openblas(int64_t m, int64_t n, int64_t k, const float* x, const float* w, float* y) {
  const auto rows = static_cast<blasint>(m), columns = static_cast<blasint>(n), depth = static_cast<blasint>(k);
  if (m == 1)  // sgemm does not see that it is a matrix by a vector
    cblas_sgemv(CblasRowMajor, CblasNoTrans, columns, depth, 1, w, depth, x, 1, 0, y, 1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, depth, 1, x, depth, w, depth, 0, y, columns);
}

void eigen(int64_t m, int64_t n, int64_t k, const float* x, const float* w, float* y) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::VectorXf;
  const Eigen::Map<const Matrix> weights(w, n, k);
  if (m == 1)
    Eigen::Map<Vector>(y, n).noalias() = weights * Eigen::Map<const Vector>(x, k);
  else
    Eigen::Map<Matrix>(y, m, n).noalias() = Eigen::Map<const Matrix>(x, m, k) * weights.transpose();
}

#if defined(EIGEN_HAS_OPENMP)
constexpr bool kEigenThreaded = true;
#else
constexpr bool kEigenThreaded = false;
#endif

constexpr Baseline kBaselines[] = {{"f32_openblas", true, openblas}, {"f32_eigen", kEigenThreaded, eigen}};

}  // namespace

std::span<const Baseline> baselines() { return kBaselines; }

void set_baseline_threads(int num_threads) {
  openblas_set_num_threads(num_threads);
  Eigen::setNbThreads(num_threads);
}

std::string openblas_conditions() { return std::string(openblas_get_corename()) + " core; " + openblas_get_config(); }

std::string eigen_conditions() {
  return std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
         std::to_string(EIGEN_MINOR_VERSION) + ", " + Eigen::SimdInstructionSetsInUse();
}

}  // namespace bench
