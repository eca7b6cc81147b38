// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemv_f32.h"

void qmm::qmm_f32_f32_u4_1x64x8_avx2(const Block& b) { isa::gemv_f32<4, qmm_f32_f32_u4_1x64x8_avx2_tile>(b); }
