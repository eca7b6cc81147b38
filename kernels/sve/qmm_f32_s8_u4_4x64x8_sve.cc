// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "s8.h"

void qmm::qmm_f32_s8_u4_4x64x8_sve(const Block& b) { sve::few_rows_s8<4>(b); }
