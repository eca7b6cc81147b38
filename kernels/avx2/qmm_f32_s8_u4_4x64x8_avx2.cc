// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemv_u4.h"

void qmm::qmm_f32_s8_u4_4x64x8_avx2(const Block& b) { isa::gemv_u4<qmm_f32_s8_u4_4x64x8_avx2_tile>(b); }
