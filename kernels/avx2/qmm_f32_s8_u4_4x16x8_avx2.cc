// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemm_u4.h"

void qmm::qmm_f32_s8_u4_4x16x8_avx2(const Block& b) { isa::gemm_u4<qmm_f32_s8_u4_4x16x8_avx2_tile>(b); }
