// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What SMMLA multiplies, eight k of two rows or of two columns in 128 bits, and what ends a group of its sums, which
// are those of two rows and two columns: {row 0 column 0, row 0 column 1, row 1 column 0, row 1 column 1}. In scratch,
// for NEON and SVE.
#pragma once

#include "neon.h"

namespace qmm::neon {
namespace {

constexpr int kPairs = 3;  // of rows in a tile

template <Tile T>
struct Memory {
  static constexpr int64_t kPanels = T.nr / kPanel, kSteps = T.block_k / 8;  // eight k, which may be a group
  uint8_t panels[kPanels][kSteps][kPanel / 2][16];
  int8_t rows[kSteps][kPairs][16];
  // Of columns, for all rows.
  float scales[kPanels][kSteps][kPanel / 2][4];
  union {
    int32_t zeros[kPanels][kSteps][kPanel / 2][4];
    float mins[kPanels][kSteps][kPanel / 2][4];
  };
  // Of the rows of a tile.
  float row_scales[kSteps][kPairs][4];
  union {
    int32_t row_sums[kSteps][kPairs][4];  // negative, which zeros are multiplied by
    float row_mins[kSteps][kPairs][4];    // which mins are multiplied by
  };
};

// {a0, a1, b0, b1} and {a2, a3, b2, b3}: of two rows or columns, those of pairs; or back.
QMM_INLINE int32x4_t low_halves(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
QMM_INLINE int32x4_t high_halves(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

template <int Bits, Tile T>
void pair_columns(const Block& b, Memory<T>& memory) {
  for (int64_t p = 0; p < b.panels; ++p) {
    unpack<Bits>(b, p, [&](int64_t k, int64_t v, const EightK& w) QMM_FLAT {
      const int32x4_t low = vreinterpretq_s32_s8(w.low), high = vreinterpretq_s32_s8(w.high);
      auto& to = memory.panels[p][k / 8];
      vst1q_u8(to[v * 2], vreinterpretq_u8_s32(vzip1q_s32(low, high)));
      vst1q_u8(to[v * 2 + 1], vreinterpretq_u8_s32(vzip2q_s32(low, high)));
    });
    for_each_group(b, [&](const Group& g) {
      const PackedSides sides = packed_sides(b, g.index, p);
      const auto twice = [&](void* to, int32x4_t four) QMM_FLAT {
        vst1q_s32(static_cast<int32_t*>(to), low_halves(four, four));
        vst1q_s32(static_cast<int32_t*>(to) + 4, high_halves(four, four));
      };
      for (int64_t v = 0; v < 4; ++v) {
        twice(memory.scales[p][g.index][v * 2], vreinterpretq_s32_f32(sides.scale(v * 4)));
        // The zeros of 4-bit codes are gone when they are unpacked.
        if (Bits == 8 && b.offset == Offset::Zeros) twice(memory.zeros[p][g.index][v * 2], sides.zero(v * 4));
        if (b.offset == Offset::Mins) twice(memory.mins[p][g.index][v * 2], vreinterpretq_s32_f32(sides.min(v * 4)));
      }
    });
  }
}

// Of a pair of rows, the second: the last of all, where rows are odd, is paired with itself.
QMM_INLINE int64_t second_row(const Block& b, int64_t first) { return first + 1 < b.rows ? first + 1 : first; }

// P pairs of rows. They are copied without vectors, whose pipes SMMLA has.
template <Offset O, int P, Tile T>
QMM_NOINLINE void pair_rows(Block b, int64_t row, Memory<T>& memory) {
  const int8_t* from[2 * P];
  const float* scales[2 * P];
  const int32_t* sums[2 * P];
  unroll<2 * P>([&](auto i) QMM_FLAT {
    const int64_t r = i % 2 == 0 ? row + i : second_row(b, row + i - 1);
    from[i] = static_cast<const int8_t*>(b.lhs) + r * b.lhs_stride;
    scales[i] = b.lhs_scales + r * b.lhs_group_stride;
    sums[i] = static_cast<const int32_t*>(b.lhs_sums) + r * b.lhs_group_stride;
  });
  auto* to = memory.rows;
  for (int64_t k = 0; k < b.k; k += 8, ++to) {
    int64_t eight[2 * P];
    unroll<2 * P>([&](auto i) QMM_FLAT { std::memcpy(&eight[i], from[i] + k, 8); });
    unroll<2 * P>([&](auto i) QMM_FLAT { std::memcpy((*to)[i / 2] + i % 2 * 8, &eight[i], 8); });
  }
  for_each_group(b, [&](const Group& g) {
    const auto twice = [](auto* to, auto value) QMM_FLAT { to[0] = to[1] = value; };
    unroll<2 * P>([&](auto i) QMM_FLAT {
      constexpr int pair = i / 2, at = i % 2 * 2;
      const float scale = scales[i][g.index];
      const int32_t sum = sums[i][g.index];
      twice(memory.row_scales[g.index][pair] + at, scale);
      if (O == Offset::Zeros) twice(memory.row_sums[g.index][pair] + at, -sum);
      if (O == Offset::Mins) twice(memory.row_mins[g.index][pair] + at, static_cast<float>(sum) * scale);
    });
  });
}

}  // namespace
}  // namespace qmm::neon
