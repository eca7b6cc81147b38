// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemm_f32.h"

void qmm::qmm_f32_f32_u4_12x32x8_avx512(const Block& b) { isa::gemm_f32<4, qmm_f32_f32_u4_12x32x8_avx512_tile>(b); }
