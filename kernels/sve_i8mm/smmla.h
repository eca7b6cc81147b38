// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM by SMMLA: in each 128 bits, products of eight k of two rows with eight k of two columns. Of a block,
// the panels are unpacked once, as column pairs, and the rows of a tile are paired once for its panels.
//
// Tile of 8 rows x 2 chunks of columns:
//   d...  16 of four sums in 128 bits, a pair of rows and a pair of columns     a...  8 k of 2 rows, in every 128 bits
//   w...  8 k of half a chunk
// 8 k take 16 SMMLA beside 8 loads, of 8 MAC a lane: with two pipes of 256 bits (Neoverse V1), or four of 128 (Neoverse
// V2), 128 MAC/cycle. A group's end takes UZP, a conversion, FMUL and FMA a sum: at group 32, 64 operations beside 64
// SMMLA, half of that; zeros of 8-bit codes add a MUL.
#pragma once

#include "../neon/pairs.h"
#include "../sve/sve.h"

namespace qmm::sve {
namespace {

// Rows 2i or 2i + 1 of a chunk, of the sums of its two halves.
template <int Odd>
QMM_INLINE svint32_t row_of(Cut cut, svint32_t d0, svint32_t d1) {
  const svint64_t low = svreinterpret_s64_s32(d0), high = svreinterpret_s64_s32(d1);
  const auto unzip = [](svint64_t x, svint64_t y) QMM_FLAT { return Odd == 0 ? svuzp1_s64(x, y) : svuzp2_s64(x, y); };
  if (cut.whole()) return svreinterpret_s32_s64(unzip(low, high));
  const svbool_t half = svwhilelt_b64_s64(0, (kPanel >> cut.shift) / 4);
  return svreinterpret_s32_s64(svsplice_s64(half, unzip(low, low), unzip(high, high)));
}

// Sums of a half of a chunk, of those of two rows.
QMM_INLINE svint32_t pair_of(svint32_t first, svint32_t second) {
  return svreinterpret_s32_s64(svzip1_s64(svreinterpret_s64_s32(first), svreinterpret_s64_s32(second)));
}

template <Offset O, int R, int V, Tile T>
QMM_NOINLINE void tile_smmla(Block b, const neon::Memory<T>& memory, const neon::Sides* sides, int64_t row,
                             int64_t first) {
  constexpr int kPairs = (R + 1) / 2;  // of rows
  const Cut cut;
  const int64_t row_stride = b.panels * kPanel, half = (kPanel >> cut.shift) / 2;
  const svbool_t bytes = cut.bytes(), words = cut.words(), half_words = svwhilelt_b32_s64(0, half);
  const Places<V> places(b, cut, row, first);
  const auto* lhs_sums = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride;
  const float* lhs_scales = b.lhs_scales + row * b.lhs_group_stride;
  auto* carry = static_cast<int32_t*>(b.carry);
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    // Sums j are those of a pair of rows and a half of a chunk.
    const auto begin = [&](auto j) QMM_FLAT {
      constexpr int i = j / (2 * V) * 2, v = j / 2 % V, second = i + 1 < R ? i + 1 : i;
      const int64_t column = j % 2 * half;
      if (g.resume) {
        const int32_t* from = carry + places.at[v] + column;
        return pair_of(svld1_s32(half_words, from + i * row_stride), svld1_s32(half_words, from + second * row_stride));
      }
      if constexpr (O == Offset::Zeros) {
        const int32_t sum0 = -lhs_sums[i * b.lhs_group_stride + g.index];
        const int32_t sum1 = -lhs_sums[second * b.lhs_group_stride + g.index];
        const svint32_t zeros =
            WideSides{sides[places.panel[v]].of_group(g.index)}.zero(half_words, places.column[v] + column);
        return svmul_s32_x(svptrue_b32(), pair_of(zeros, zeros), svdupq_n_s32(sum0, sum0, sum1, sum1));
      } else {
        return svdup_n_s32(0);
      }
    };
    with_vectors<2 * V * kPairs>(begin, [&](auto&... d) QMM_FLAT {
      for (int64_t k = g.begin / 8; k < g.end / 8; ++k)
        with_vectors<kPairs>(
            [&](auto i) QMM_FLAT { return svld1rq_s8(svptrue_b8(), memory.rows[k][i]); },
            [&](auto&... a) QMM_FLAT {
              with_vectors<2 * V>(
                  [&](auto h) QMM_FLAT {
                    const auto& columns = memory.panels[places.panel[h / 2]][k];
                    return svreinterpret_s8_u8(svld1_u8(bytes, columns[places.column[h / 2] / 2] + h % 2 * half * 8));
                  },
                  [&](auto&... w) QMM_FLAT {
                    for_each_vector(
                        [&](auto j, svint32_t& sum)
                            QMM_FLAT { sum = svmmla_s32(sum, pick<j / (2 * V)>(a...), pick<j % (2 * V)>(w...)); },
                        d...);
                  });
            });
      const auto sum_of = [&](auto i, auto v) QMM_FLAT {
        return row_of<i % 2>(cut, pick<(i / 2 * V + v) * 2>(d...), pick<(i / 2 * V + v) * 2 + 1>(d...));
      };
      unroll<V>([&](auto v) QMM_FLAT {
        const WideSides here{sides[places.panel[v]].of_group(g.index)};
        const svfloat32_t scale = here.scale(words, places.column[v]);
        unroll<R>([&](auto i) QMM_FLAT {
          const int64_t at = places.at[v] + i * row_stride, lhs_group = i * b.lhs_group_stride + g.index;
          if (g.suspend)
            svst1_s32(words, carry + at, sum_of(i, v));
          else
            add_s8<O>(words, here, places.column[v], scale, sum_of(i, v), lhs_scales[lhs_group], lhs_sums[lhs_group],
                      b.acc + at);
        });
      });
    });
  });
}

// The zeros of 4-bit codes are gone when they are unpacked.
template <int Bits, Tile T>
void gemm_smmla(const Block& b) {
  static_assert(sizeof(neon::Memory<T>) <= kScratch && T.mr == 2 * neon::kPairs);
  auto& memory = *static_cast<neon::Memory<T>*>(b.scratch);
  neon::pair_columns<Bits>(b, memory);
  neon::Sides sides[T.nr / kPanel];
  for (int64_t p = 0; p < b.panels; ++p) sides[p] = neon::widen_sides(b, p, memory.sides[p]);
  for_offset(b.offset, [&]<Offset O>() {
    for_each_halving<T.mr>(b.rows, 0, [&]<int R>(int64_t row) {
      neon::pair_rows<R>(b, row, memory);
      for_each_tile<2>(Cut().chunks(b.panels), [&]<int V>(int64_t first) {
        tile_smmla<Bits == 4 && O == Offset::Zeros ? Offset::Symmetric : O, R, V>(b, memory, sides, row, first);
      });
    });
  });
}

}  // namespace
}  // namespace qmm::sve
