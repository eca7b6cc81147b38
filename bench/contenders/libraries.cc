// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "contender.h"

namespace bench {
namespace {

constexpr Library kLibraries[] = {
    {"libqmm", start_libqmm, libqmm_conditions},    {"openblas", start_openblas, openblas_conditions},
    {"eigen", start_eigen, eigen_conditions},
#if defined(QMM_BENCH_ONEDNN)
    {"onednn", start_onednn, onednn_conditions},
#else
    {"onednn", nullptr, nullptr},
#endif
#if defined(QMM_BENCH_XNNPACK)
    {"xnnpack", start_xnnpack, xnnpack_conditions},
#else
    {"xnnpack", nullptr, nullptr},
#endif
};

}  // namespace

std::span<const Library> libraries() { return kLibraries; }

}  // namespace bench
