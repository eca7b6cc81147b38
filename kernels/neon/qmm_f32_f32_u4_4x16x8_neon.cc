// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "gemm_f32.h"

void qmm::qmm_f32_f32_u4_4x16x8_neon(const Block& b) { neon::gemm_f32<4, qmm_f32_f32_u4_4x16x8_neon_tile>(b); }
