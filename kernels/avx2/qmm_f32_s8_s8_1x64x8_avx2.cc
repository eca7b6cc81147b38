// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemv_s8.h"

void qmm::qmm_f32_s8_s8_1x64x8_avx2(const Block& b) { isa::gemv_s8<qmm_f32_s8_s8_1x64x8_avx2_tile>(b); }
