// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "gemm_f32.h"

void qmm::qmm_f32_f32_u4_6x16x8_avx2(const Block& b) { avx2::gemm_f32<4, qmm_f32_f32_u4_6x16x8_avx2_tile>(b); }
