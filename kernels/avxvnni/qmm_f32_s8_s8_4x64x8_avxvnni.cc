// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemv_dot.h"

void qmm::qmm_f32_s8_s8_4x64x8_avxvnni(const Block& b) {
  isa::gemv_dot<isa::Codes::S8, qmm_f32_s8_s8_4x64x8_avxvnni_tile>(b);
}
