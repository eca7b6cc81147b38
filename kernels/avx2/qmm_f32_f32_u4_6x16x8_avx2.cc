// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemm_f32.h"

void qmm::qmm_f32_f32_u4_6x16x8_avx2(const Block& b) { isa::gemm_f32<4, qmm_f32_f32_u4_6x16x8_avx2_tile>(b); }
