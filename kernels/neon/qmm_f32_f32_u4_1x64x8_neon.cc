// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "gemv_f32.h"

void qmm::qmm_f32_f32_u4_1x64x8_neon(const Block& b) { neon::gemv_f32<4>(b); }
