// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, few rows: I = sum of a * code over a group, by SDOT, less zero * sum of a, which the sums
// begin with.
//
// Tile of 1 row x 4 panels to 4 rows x 1 panel (sdot.h). One row reads 16 bytes with one SDOT, so that loads bound it,
// at two or three of 16 bytes a cycle: what memory gives is less.
#include "sdot.h"

void qmm::qmm_f32_s8_s8_4x64x8_neon_dotprod(const Block& b) { neon::few_rows_s8<neon::Sdot, 8>(b); }
