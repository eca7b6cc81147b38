// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, by SMULL and SMLAL, less zero * sum of a, which the
// sums begin with.
//
// Tile of 2 rows x 16 columns (mull.h), of the panel as it is. 8 k take 16 SMULL, 16 SMLAL and 16 SADALP for 256 MAC:
// where one pipe of two multiplies and the other one adds (Cortex-A72), 8 MAC/cycle, as many as of floats.
#include "mull.h"

void qmm::qmm_f32_s8_s8_2x16x8_neon(const Block& b) { neon::gemm_s8<neon::Mull, 8, qmm_f32_s8_s8_2x16x8_neon_tile>(b); }
