// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The entry points of compiled code behind their names: memref descriptors in, checked, a status out.
#pragma once

#include "qmm/qmm.h"

namespace qmm {

// y[m,n] = x[m,k] * W^T, W packed. Each begins its sentences with the name of its entry point, or with `function`.
qmm_status matmul_packed(const qmm_memref_f32_2d& x, const qmm_memref_i8_1d& packed, int64_t lhs_kind,
                         const qmm_memref_f32_2d& y);

// y[m,n] = x[m,k] * W^T, W canonical, its scales and mins of `scale_dtype`: f32, or u16 that holds f16 or bf16.
template <class Sides>
qmm_status matmul_grouped(const char* function, int32_t scale_dtype, const qmm_memref_f32_2d& x,
                          const qmm_memref_i8_2d& codes, const Sides& scales, const qmm_memref_i8_2d& zeros,
                          const Sides& mins, int64_t bits, int64_t group, int64_t lhs_kind, const qmm_memref_f32_2d& y);

// y[i,:] = W[ids[i],:], W packed.
qmm_status rows_packed(const qmm_memref_i64_1d& ids, const qmm_memref_i8_1d& packed, const qmm_memref_f32_2d& y);

}  // namespace qmm
