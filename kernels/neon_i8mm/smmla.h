// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM by SMMLA: products of eight k of two rows with eight k of two columns, four sums in a register. Of a
// block, the panels are unpacked once, as column pairs, and the rows of a tile are paired once for its panels.
//
// Tile of 8 rows x 8 columns, half a panel:
//   d[4][4]  int32 sums of a pair of rows and a pair of columns     a  8 k of 2 rows     w  8 k of 2 columns
// 8 k take 16 SMMLA for 512 MAC beside 8 loads: 64 MAC/cycle on two pipes (Neoverse N2), 128 on four (Neoverse V1 and
// V2), whose latency of 3 the 16 sums hide. A group's end takes ZIP, a conversion, FMUL and FMA a sum: at group 32, 64
// operations beside 64 SMMLA, half of that; zeros of 8-bit codes add a MUL.
#pragma once

#include "../neon/pairs.h"

namespace qmm::neon {
namespace {

// Halves of two vectors: of two rows of sums those of two columns, or back.
QMM_INLINE int32x4_t low_halves(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
QMM_INLINE int32x4_t high_halves(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

// Begins a group for R rows, in pairs, and eight columns: from carry, or with what the zeros take away.
template <Offset O, int R>
QMM_INLINE void begin_pairs(const Block& b, const Group& g, const Sides& sides, int64_t row, int64_t panel,
                            int64_t column, int32x4_t (&d)[(R + 1) / 2][4]) {
  unroll<(R + 1) / 2>([&](auto i) QMM_FLAT {
    const int64_t first = row + 2 * i, second = 2 * i + 1 < R ? first + 1 : first;
    if (g.resume) {
      const auto* carry = static_cast<const int32_t*>(b.carry) + panel * kPanel + column;
      unroll<2>([&](auto v) QMM_FLAT {
        const int32x4_t d0 = vld1q_s32(carry + first * b.panels * kPanel + v * 4);
        const int32x4_t d1 = vld1q_s32(carry + second * b.panels * kPanel + v * 4);
        d[i][2 * v] = low_halves(d0, d1);
        d[i][2 * v + 1] = high_halves(d0, d1);
      });
    } else if (O == Offset::Zeros) {
      const auto* sums = static_cast<const int32_t*>(b.lhs_sums) + g.index;
      const int32x4_t taken =
          vcombine_s32(vdup_n_s32(-sums[first * b.lhs_group_stride]), vdup_n_s32(-sums[second * b.lhs_group_stride]));
      unroll<4>([&](auto j) QMM_FLAT {
        const int32x2_t zeros = vld1_s32(sides.zeros + column + j * 2);
        d[i][j] = vmulq_s32(vcombine_s32(zeros, zeros), taken);
      });
    } else {
      unroll<4>([&](auto j) QMM_FLAT { d[i][j] = vdupq_n_s32(0); });
    }
  });
}

template <Offset O, int R, Tile T>
QMM_NOINLINE void tile_smmla(Block b, const Memory<T>& memory, Sides sides, int64_t row, int64_t panel,
                             int64_t column) {
  constexpr int kPairsHere = (R + 1) / 2;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    const Sides here = sides.of_group(g.index);
    int32x4_t d[kPairsHere][4];
    begin_pairs<O, R>(b, g, here, row, panel, column, d);
    for (int64_t k = g.begin / 8; k < g.end / 8; ++k) {
      int8x16_t a[kPairsHere];
      unroll<kPairsHere>([&](auto i) QMM_FLAT { a[i] = load_s8(memory.rows[k][i]); });
      unroll<4>([&](auto j) QMM_FLAT {
        const int8x16_t w = load_s8(memory.panels[panel][k][column / 2 + j]);
        unroll<kPairsHere>([&](auto i) QMM_FLAT { d[i][j] = vmmlaq_s32(d[i][j], a[i], w); });
      });
    }
    int32x4_t sums[R][2];
    unroll<2 * R>([&](auto i) QMM_FLAT {
      constexpr int r = i / 2, v = i % 2;
      sums[r][v] = r % 2 == 0 ? low_halves(d[r / 2][2 * v], d[r / 2][2 * v + 1])
                              : high_halves(d[r / 2][2 * v], d[r / 2][2 * v + 1]);
    });
    end_s8<O>(b, g, here, row, panel, column, sums);
  });
}

// The zeros of 4-bit codes are gone when they are unpacked.
template <int Bits, Tile T>
void gemm_smmla(const Block& b) {
  static_assert(sizeof(Memory<T>) <= kScratch && T.mr == 2 * kPairs);
  auto& memory = *static_cast<Memory<T>*>(b.scratch);
  pair_columns<Bits>(b, memory);
  Sides sides[T.nr / kPanel];
  for (int64_t p = 0; p < b.panels; ++p) sides[p] = widen_sides(b, p, memory.sides[p]);
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) {
      pair_rows<R>(b, row, memory);
      for (int64_t p = 0; p < b.panels; ++p)
        for (int64_t column = 0; column < kPanel; column += 8)
          tile_smmla<Bits == 4 && O == Offset::Zeros ? Offset::Symmetric : O, R>(b, memory, sides[p], row, p, column);
    });
  });
}

}  // namespace
}  // namespace qmm::neon
