// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "f32.h"

void qmm::qmm_f32_f32_s8_1x64x8_sve(const Block& b) { sve::gemv_f32<8>(b); }
