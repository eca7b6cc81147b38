// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, few rows: I = sum of a * code over a group, by SMLAL on nibbles unpacked in registers, less
// zero * sum of a, which the sums begin with.
//
// Tile of 1 row x 2 panels or 2 rows x 1 panel (mull.h). 32 codes take AND, USHR and, a row, 4 SMULL or SMLAL; 32 k of
// 4 columns end with ADDP and SADALP. One row reads 16 bytes in 6.5 vector operations, 5 bytes/cycle on two pipes.
#include "mull.h"

void qmm::qmm_f32_s8_u4_2x32x8_neon(const Block& b) { neon::few_rows_s8<neon::Mull, 4>(b); }
