// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which kernel runs: a pure function of features, format and M over the table of kernels.
#pragma once

#include <span>

#include "../kernels/kernel.h"
#include "error.h"

namespace qmm {

// The rows of kernels.inc, in its order.
std::span<const Kernel> kernels();
std::span<const Quantizer> quantizers();

// The last row that fits; nullptr only for a format that no row has.
const Kernel* choose(uint64_t features, Lhs lhs, int bits, int64_t m);

const Quantizer* choose_quantizer(uint64_t features);

// This process's features, after QMM_MAX_ISA; read once. Fails where QMM_MAX_ISA names no level.
qmm_status process_features(uint64_t* features);

// What the C functions of these names do.
qmm_status describe_cpu(qmm_cpu_info* info);
qmm_status describe_kernel(int64_t index, qmm_kernel_info* info);

}  // namespace qmm
