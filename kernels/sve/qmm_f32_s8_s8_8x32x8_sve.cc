// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "s8.h"

void qmm::qmm_f32_s8_s8_8x32x8_sve(const Block& b) { sve::gemm_s8<8, qmm_f32_s8_s8_8x32x8_sve_tile>(b); }
