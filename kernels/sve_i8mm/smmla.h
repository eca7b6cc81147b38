// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM by SMMLA: in each 128 bits, products of eight k of two rows with eight k of two columns. Of a block,
// the panels are unpacked once, as column pairs, and the rows of a tile are paired once for its panels.
//
// Tile of 6 rows x 4 vectors of column pairs:
//   d...    12 of int32 sums, in each 128 bits of a pair of rows and a pair of columns
//   acc...  12 of float sums, of the same pairs as long as a block goes on
//   a...    8 k of 2 rows, in every 128 bits     w  8 k of column pairs
// 8 k take 12 SMMLA beside 7 loads, of 8 MAC a lane: with two pipes of 256 bits (Neoverse V1), or four of 128 (Neoverse
// V2), 128 MAC/cycle. A group's end takes a conversion, FMUL and FMA for four sums: at group 32, 4 cycles of a pipe
// beside 4 of SMMLA, half of that; zeros of 8-bit codes add a MUL.
#pragma once

#include "../neon/pairs.h"
#include "../sve/sve.h"

namespace qmm::sve {
namespace {

// V vectors of pairs from the chunk `first` on: where they lie in a panel's pairs, bytes, and the panel of each.
template <int V>
struct PairedPlaces {
  static constexpr int64_t kSize = kPanel / 2 * 16;  // of a panel's pairs
  int64_t panel[V], byte[V];
  QMM_INLINE PairedPlaces(Cut cut, int64_t first) {
    unroll<V>([&](auto v) QMM_FLAT {
      const int64_t at = (first + v) * (kLine >> cut.shift);
      panel[v] = at / kSize;
      byte[v] = at % kSize;
    });
  }
  // Of an array of four bytes a sum: of a group, or carry.
  template <class T>
  QMM_INLINE T* in(T* array, int v) const {
    return array + byte[v] / 4;
  }
};

template <Offset O, int P, int V, Tile T>
QMM_NOINLINE void tile_smmla(Block b, const neon::Memory<T>& memory, int64_t row, int64_t first) {
  const Cut cut;
  const svbool_t bytes = cut.bytes(), words = cut.words();
  const svbool_t half = svwhilelt_b32_s64(0, kPanel >> cut.shift >> 1);  // of a vector: so many columns of a row
  const PairedPlaces<V> places(cut, first);
  const uint8_t* columns[V];
  unroll<V>([&](auto v) QMM_FLAT { columns[v] = opaque(memory.panels[places.panel[v]][0][0] + places.byte[v]); });
  const auto acc_of = [&](int64_t r, int v)
                          QMM_FLAT { return b.acc + (r * b.panels + places.panel[v]) * kPanel + places.byte[v] / 8; };
  const auto carry_of = [&](int i, int v) QMM_FLAT {
    return places.in(static_cast<int32_t*>(b.carry) + ((row / 2 + i) * b.panels + places.panel[v]) * kPanel * 2, v);
  };
  const auto begin_acc = [&](auto j) QMM_FLAT {
    if (b.suspend) return svdup_n_f32(0);
    const int64_t r = row + j / V * 2;
    const svfloat32_t a0 = svld1_f32(half, acc_of(r, j % V)),
                      a1 = svld1_f32(half, acc_of(neon::second_row(b, r), j % V));
    return svreinterpret_f32_s64(svzip1_s64(svreinterpret_s64_f32(a0), svreinterpret_s64_f32(a1)));
  };
  with_vectors<P * V>(begin_acc, [&](auto&... acc) QMM_FLAT {
    for_each_group(b, [&](const Group& g) QMM_FLAT {
      const auto begin = [&](auto j) QMM_FLAT {
        constexpr int i = j / V, v = j % V;
        if (g.resume) return svld1_s32(words, carry_of(i, v));
        if constexpr (O == Offset::Zeros)
          return svmul_s32_x(words, svld1_s32(words, places.in(memory.zeros[places.panel[v]][g.index][0], v)),
                             svld1rq_s32(words, memory.row_sums[g.index][i]));
        else
          return zero_now();
      };
      with_vectors<P * V>(begin, [&](auto&... d) QMM_FLAT {
        for (int64_t k = g.begin / 8; k < g.end / 8; ++k)
          with_vectors<P>(
              [&](auto i) QMM_FLAT { return svld1rq_s8(svptrue_b8(), memory.rows[k][i]); },
              [&](auto&... a) QMM_FLAT {
                with_vectors<V>(
                    [&](auto v)
                        QMM_FLAT { return svreinterpret_s8_u8(svld1_u8(bytes, columns[v] + k * places.kSize)); },
                    [&](auto&... w) QMM_FLAT {
                      for_each_vector([&](auto j, svint32_t& sum)
                                          QMM_FLAT { sum = svmmla_s32(sum, pick<j / V>(a...), pick<j % V>(w...)); },
                                      d...);
                    });
              });
        if (g.suspend) {
          for_each_vector([&](auto j, svint32_t& sum) QMM_FLAT { svst1_s32(words, carry_of(j / V, j % V), sum); },
                          d...);
          return;
        }
        unroll<V>([&](auto v) QMM_FLAT {
          const svfloat32_t scale = svld1_f32(words, places.in(memory.scales[places.panel[v]][g.index][0], v));
          unroll<P>([&](auto i) QMM_FLAT {
            auto& y = pick<i * V + v>(acc...);
            const svfloat32_t u = svmul_f32_x(words, svcvt_f32_s32_x(words, pick<i * V + v>(d...)),
                                              svld1rq_f32(words, memory.row_scales[g.index][i]));
            y = svmla_f32_x(words, y, u, scale);
            if constexpr (O == Offset::Mins)
              y = svmla_f32_x(words, y, svld1_f32(words, places.in(memory.mins[places.panel[v]][g.index][0], v)),
                              svld1rq_f32(words, memory.row_mins[g.index][i]));
          });
        });
      });
    });
    if (!b.suspend)
      for_each_vector(
          [&](auto j, svfloat32_t& y) QMM_FLAT {
            const int64_t r = row + j / V * 2;
            const svint64_t pairs = svreinterpret_s64_f32(y);
            svst1_f32(half, acc_of(r, j % V), svreinterpret_f32_s64(svuzp1_s64(pairs, pairs)));
            svst1_f32(half, acc_of(neon::second_row(b, r), j % V), svreinterpret_f32_s64(svuzp2_s64(pairs, pairs)));
          },
          acc...);
  });
}

// The zeros of 4-bit codes are gone when they are unpacked.
template <int Bits, Tile T>
void gemm_smmla(const Block& b) {
  static_assert(sizeof(neon::Memory<T>) <= kScratch && T.mr == 2 * neon::kPairs);
  auto& memory = *static_cast<neon::Memory<T>*>(b.scratch);
  neon::pair_columns<Bits>(b, memory);
  const int64_t chunks = 2 * Cut().chunks(b.panels);  // an even number
  for_offset(b.offset, [&]<Offset Any>() {
    constexpr Offset O = Bits == 4 && Any == Offset::Zeros ? Offset::Symmetric : Any;
    for_each_tile<neon::kPairs>((b.rows + 1) / 2, [&]<int P>(int64_t first) {
      neon::pair_rows<O, P>(b, 2 * first, memory);
      int64_t chunk = 0;
      for (; chunk + 4 <= chunks; chunk += 4) tile_smmla<O, P, 4>(b, memory, 2 * first, chunk);
      if (chunk < chunks) tile_smmla<O, P, 2>(b, memory, 2 * first, chunk);
    });
  });
}

}  // namespace
}  // namespace qmm::sve
