// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "f32.h"

void qmm::qmm_f32_f32_s8_8x32x8_sve(const Block& b) { sve::gemm_f32<8, qmm_f32_f32_s8_8x32x8_sve_tile>(b); }
