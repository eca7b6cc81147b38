// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../neon/gemv_f32.h"
#include "f32.h"

// NEON's BIF does what takes AND and EOR here, and CPUs with vectors of less than 512 bits have as many lanes of NEON.
void qmm::qmm_f32_f32_u4_1x64x8_sve(const Block& b) { svcntb() < kLine ? neon::gemv_f32<4>(b) : sve::gemv_f32<4>(b); }
