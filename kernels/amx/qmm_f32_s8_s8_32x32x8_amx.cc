// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit weights, 8-bit lhs, GEMM: see gemm_s8.h. scratch: the sums of two groups.
#include "gemm_s8.h"

static_assert(qmm::amx::kSumsSize <= qmm::kScratch);

void qmm::qmm_f32_s8_s8_32x32x8_amx(const Block& b) {
  using namespace amx;
  for_offset(b.offset,
             [&]<Offset O>() { multiply_block<8, O>(b, {b.codes, b.panel_stride}, static_cast<int32_t*>(b.scratch)); });
}
