// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemm_dot.h"

void qmm::qmm_f32_s8_s8_6x16x8_avxvnni(const Block& b) {
  isa::gemm_dot<isa::Codes::S8, qmm_f32_s8_s8_6x16x8_avxvnni_tile>(b);
}
