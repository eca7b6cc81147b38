// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "smmla.h"

void qmm::qmm_f32_s8_u4_6x64x8_sve_i8mm(const Block& b) { sve::gemm_smmla<4, qmm_f32_s8_u4_6x64x8_sve_i8mm_tile>(b); }
