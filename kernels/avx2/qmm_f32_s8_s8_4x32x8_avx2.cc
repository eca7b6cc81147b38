// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemm_s8.h"

void qmm::qmm_f32_s8_s8_4x32x8_avx2(const Block& b) { isa::gemm_s8<qmm_f32_s8_s8_4x32x8_avx2_tile>(b); }
