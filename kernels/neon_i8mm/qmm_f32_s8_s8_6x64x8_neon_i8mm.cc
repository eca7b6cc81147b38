// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "smmla.h"

void qmm::qmm_f32_s8_s8_6x64x8_neon_i8mm(const Block& b) {
  neon::gemm_smmla<8, qmm_f32_s8_s8_6x64x8_neon_i8mm_tile>(b);
}
