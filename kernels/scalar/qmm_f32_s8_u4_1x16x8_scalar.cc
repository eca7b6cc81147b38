// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scalar.h"

void qmm::qmm_f32_s8_u4_1x16x8_scalar(const Block& b) { scalar_s8<4>(b); }
