// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "f32.h"

void qmm::qmm_f32_f32_u4_8x32x8_sve(const Block& b) { sve::gemm_f32<4, qmm_f32_f32_u4_8x32x8_sve_tile>(b); }
