// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, GEMM: I = sum of a * (code - zero) over a group, by SMLAL. The panel is unpacked once a
// block, nibbles to bytes less their zero, for all rows.
//
// Tile of 2 rows x 16 columns (mull.h). 32 k take 128 SMULL or SMLAL of 8 MAC, 8 ADDP and 8 SADALP: where one pipe of
// two multiplies (Cortex-A72), 8 MAC/cycle, as many as of floats.
#include "mull.h"

void qmm::qmm_f32_s8_u4_2x16x8_neon(const Block& b) { neon::gemm_s8<neon::Mull, 4, qmm_f32_s8_u4_2x16x8_neon_tile>(b); }
