// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The matmul: blocks over M, panels and K, in an order that never changes a bit.
#pragma once

#include "choose.h"

namespace qmm {

// What qmm_matmul does. `forced` is the kernel to run, of the right lhs and bits, or nullptr for the chooser's.
qmm_status matmul(const qmm_matmul_args* args, const Kernel* forced = nullptr);

// What qmm_scratch_size does; `forced` as above.
qmm_status scratch_size(const qmm_matmul_args* args, size_t* size, const Kernel* forced = nullptr);

// What the C functions of these names do.
qmm_status lhs_size(const qmm_matmul_args* args, size_t* size);
qmm_status quantize_lhs(const qmm_matmul_args* args, void* lhs, size_t lhs_size);
qmm_status kernel_name(int32_t lhs_kind, const qmm_rhs_desc* desc, int64_t m, const char** name);

}  // namespace qmm
