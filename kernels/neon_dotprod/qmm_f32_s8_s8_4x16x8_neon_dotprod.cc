// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMM: I = sum of a * code over a group, by SDOT, less zero * sum of a, which the sums begin
// with.
//
// Tile of 4 rows x 16 columns (sdot.h), of the panel as it is. 16 k take 64 SDOT for 1024 MAC beside 20 loads: 16 MAC
// each, 32 MAC/cycle on two pipes (Neoverse N1), 64 on four (Neoverse V1 and V2, Apple M1). A group's end takes a
// conversion, FMUL and FMA a sum: at group 32, 48 operations beside 128 SDOT, 73 % of that; zeros add a MUL a sum.
#include "sdot.h"

void qmm::qmm_f32_s8_s8_4x16x8_neon_dotprod(const Block& b) {
  neon::gemm_s8<neon::Sdot, 8, qmm_f32_s8_s8_4x16x8_neon_dotprod_tile>(b);
}
