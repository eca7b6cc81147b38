// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows and columns as SMMLA takes them, eight k of two of each in 128 bits, in scratch.
#pragma once

#include "neon.h"

namespace qmm::neon {
namespace {

constexpr int64_t kPairs = 4;  // of rows in a tile

// The panels and the rows as pairs, and the sides, in scratch.
template <Tile T>
struct Memory {
  float sides[T.nr / kPanel][sides_count(T)];
  uint8_t panels[T.nr / kPanel][T.block_k / 8][kPanel / 2][16];  // eight k of two columns
  int8_t rows[T.block_k / 8][kPairs][16];                        // eight k of two rows
};

template <int Bits, Tile T>
void pair_columns(const Block& b, Memory<T>& memory) {
  for (int64_t p = 0; p < b.panels; ++p)
    unpack<Bits>(b, p, [&](int64_t k, int64_t v, const EightK& w) QMM_FLAT {
      const int32x4_t low = vreinterpretq_s32_s8(w.low), high = vreinterpretq_s32_s8(w.high);
      auto& to = memory.panels[p][k / 8];
      vst1q_u8(to[v * 2], vreinterpretq_u8_s32(vzip1q_s32(low, high)));
      vst1q_u8(to[v * 2 + 1], vreinterpretq_u8_s32(vzip2q_s32(low, high)));
    });
}

// Where rows are odd, the last is paired with itself.
template <int R, Tile T>
void pair_rows(const Block& b, int64_t row, Memory<T>& memory) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  for (int64_t k = 0; k < b.k; k += 8)
    unroll<(R + 1) / 2>([&](auto i) QMM_FLAT {
      vst1q_s8(memory.rows[k / 8][i],
               vcombine_s8(vld1_s8(lhs + 2 * i * b.lhs_stride + k),
                           vld1_s8(lhs + (2 * i + 1 < R ? 2 * i + 1 : R - 1) * b.lhs_stride + k)));
    });
}

}  // namespace
}  // namespace qmm::neon
