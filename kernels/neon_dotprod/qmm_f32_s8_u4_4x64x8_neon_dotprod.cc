// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, few rows: I = sum of a * code over a group, by SDOT on nibbles unpacked in registers, less
// zero * sum of a, which the sums begin with.
//
// Tile of 1 row x 4 panels to 4 rows x 1 panel (sdot.h). 32 codes take AND, USHR and, a row, 2 SDOT: one row reads 16
// bytes in 4 vector operations, 8 bytes/cycle on two pipes (Neoverse N1), 16 on four (Neoverse V1 and V2, Apple M1),
// less the group's end: at group 32, 12 operations beside 64 for 16 columns.
#include "sdot.h"

void qmm::qmm_f32_s8_u4_4x64x8_neon_dotprod(const Block& b) { neon::few_rows_s8<neon::Sdot, 4>(b); }
