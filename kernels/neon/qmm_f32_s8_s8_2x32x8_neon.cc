// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, few rows: I = sum of a * code over a group, by SMULL and SMLAL, less zero * sum of a, which
// the sums begin with.
//
// Tile of 1 row x 2 panels or 2 rows x 1 panel (mull.h). 32 codes take, a row, 2 SMULL, 2 SMLAL and 2 SADALP: one row
// reads 5.3 bytes in a vector operation, and twice that in a cycle of two pipes; 8 where one multiplies (Cortex-A72).
#include "mull.h"

void qmm::qmm_f32_s8_s8_2x32x8_neon(const Block& b) { neon::few_rows_s8<neon::Mull, 8>(b); }
