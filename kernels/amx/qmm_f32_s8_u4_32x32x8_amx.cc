// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, GEMM: see gemm_s8.h. scratch: the sums of two groups, and the unpacked panels.
#include "gemm_s8.h"

namespace qmm::amx {
namespace {

constexpr Tile kTile = qmm_f32_s8_u4_32x32x8_amx_tile;
static_assert(kSumsSize + kTile.block_k * kTile.nr <= kScratch);

}  // namespace
}  // namespace qmm::amx

void qmm::qmm_f32_s8_u4_32x32x8_amx(const Block& b) {
  using namespace amx;
  auto* lines = static_cast<uint8_t*>(b.scratch) + kSumsSize;
  for_offset(b.offset, [&]<Offset O>() {
    unpack<O>(b, lines);
    multiply_block<4, O>(b, {lines, b.k * kPanel}, static_cast<int32_t*>(b.scratch));
  });
}
