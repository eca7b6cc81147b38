// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../x86/gemv_dot.h"

void qmm::qmm_f32_s8_u4_4x64x8_avx512vnni(const Block& b) {
  isa::gemv_dot<isa::Codes::U4, qmm_f32_s8_u4_4x64x8_avx512vnni_tile>(b);
}
