// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float lhs, GEMM and GEMV: t = sum of fma(x, code - zero, t) over a group, k ascending, a column's in one chain.
//
// GEMM, tile of 8 rows x 2 chunks of columns. The panels are unpacked once a block, codes to float(code - zero):
//   t...  16 float sums     x...  4 k of 8 rows, in every 128 bits     w...  one k of 2 chunks
// 4 k take 64 FMA beside 16 loads: as many MAC/cycle as the FMA pipes have lanes, 16 with two of 256 bits (Neoverse V1)
// or four of 128 (Neoverse V2), where NEON has as many, less an FMA a sum at a group's end. A64FX has two of 512, but
// an FMLA by lane takes both: 16 as well.
//
// GEMV, tile of 1 row x 8 chunks, or the 4 that there are of 512 bits, decoded in registers:
//   t...  8 float sums     x...  8 k of the row, in every 128 bits     lanes  one k of a chunk
// A predicate of words loads the byte of a column into its lane, and nothing else. A chunk then takes EOR, FSUB and
// FMLA, and an AND if its codes have 4 bits.
#pragma once

#include "../neon/decode_f32.h"
#include "sve.h"

namespace qmm::sve {
namespace {

// Ends a group for a row of a chunk: acc = fma(t, scale, acc), then mins, of which there is a sum of the row each.
template <class AnySides>
QMM_INLINE void end_f32(Offset offset, svbool_t words, const AnySides& sides, int64_t column, const float* lhs_sum,
                        float* acc, svfloat32_t t) {
  svfloat32_t y = svmla_f32_x(words, svld1_f32(words, acc), t, sides.scale(words, column));
  if (offset == Offset::Mins) y = svmla_n_f32_x(words, y, sides.min(words, column), *lhs_sum);
  svst1_f32(words, acc, y);
}

// R rows of V chunks from `first` on; panel p is at w + p * stride.
template <int R, int V>
QMM_NOINLINE void tile_f32(Block b, const neon::Sides* sides, const float* w, int64_t stride, int64_t row,
                           int64_t first) {
  const Cut cut;
  const svbool_t words = cut.words();
  const Places<V> places(b, cut, row, first);
  const int64_t row_stride = b.panels * kPanel;
  const auto* lhs = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  auto* carry = static_cast<float*>(b.carry);
  const float* columns[V];
  unroll<V>([&](auto v) QMM_FLAT { columns[v] = w + places.panel[v] * stride + places.column[v]; });
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    const auto begin = [&](auto j) QMM_FLAT {
      if (g.resume) return svld1_f32(words, carry + places.at[j % V] + j / V * row_stride);
      return svreinterpret_f32_s32(zero_now());
    };
    with_vectors<R * V>(begin, [&](auto&... t) QMM_FLAT {
      for (int64_t k = g.begin; k < g.end; k += 4)
        with_vectors<R>([&](auto i) QMM_FLAT { return svld1rq_f32(svptrue_b32(), lhs + i * b.lhs_stride + k); },
                        [&](auto&... x) QMM_FLAT {
                          unroll<4>([&](auto i) QMM_FLAT {
                            with_vectors<V>([&](auto v)
                                                QMM_FLAT { return svld1_f32(words, columns[v] + (k + i) * kPanel); },
                                            [&](auto&... wv) QMM_FLAT {
                                              for_each_vector(
                                                  [&](auto j, svfloat32_t& sum) QMM_FLAT {
                                                    sum = svmla_lane_f32(sum, pick<j % V>(wv...), pick<j / V>(x...), i);
                                                  },
                                                  t...);
                                            });
                          });
                        });
      const float* lhs_sums = static_cast<const float*>(b.lhs_sums) + row * b.lhs_group_stride + g.index;
      for_each_vector(
          [&](auto j, svfloat32_t& sum) QMM_FLAT {
            constexpr int i = j / V, v = j % V;
            const int64_t at = places.at[v] + i * row_stride;
            if (g.suspend)
              svst1_f32(words, carry + at, sum);
            else
              end_f32(b.offset, words, WideSides{sides[places.panel[v]].of_group(g.index)}, places.column[v],
                      lhs_sums + i * b.lhs_group_stride, b.acc + at, sum);
          },
          t...);
    });
  });
}

template <int Bits, Tile T>
void gemm_f32(const Block& b) {
  constexpr int64_t kPanels = T.nr / kPanel, kFloats = T.block_k * kPanel;  // of an unpacked panel
  static_assert(kPanels * (neon::sides_count(T) + kFloats) * 4 <= kScratch);
  auto* scratch = static_cast<float*>(b.scratch);
  float* w = scratch + kPanels * neon::sides_count(T);
  neon::Sides sides[kPanels];
  for (int64_t p = 0; p < b.panels; ++p) {
    sides[p] = neon::widen_sides(b, p, scratch + p * neon::sides_count(T));
    neon::unpack_f32<Bits>(b, p, w + p * kFloats);
  }
  for_each_halving<T.mr>(b.rows, 0, [&]<int R>(int64_t row) {
    for_each_tile<2>(Cut().chunks(b.panels),
                     [&]<int V>(int64_t first) { tile_f32<R, V>(b, sides, w, kFloats, row, first); });
  });
}

// One row of V chunks from `first` on.
template <int Bits, Offset O, int V>
QMM_NOINLINE void chunks_f32(Block b, int64_t row, int64_t first) {
  constexpr int64_t kSize = kPanel * Bits / 8, kAhead = 1024 / Bits;  // bytes of one k; k to prefetch ahead
  constexpr int kPlaces = neon::kPlaces<Bits>, kBiases = O == Offset::Zeros ? V : 1;
  const Cut cut;
  const svbool_t words = cut.words();
  const Places<V> places(b, cut, row, first);
  const auto* lhs = static_cast<const float*>(b.lhs) + row * b.lhs_stride;
  auto* carry = static_cast<float*>(b.carry);
  const uint8_t* codes[V];
  unroll<V>([&](auto v) QMM_FLAT { codes[v] = b.codes + places.panel[v] * b.panel_stride + places.column[v] * 4; });
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    const auto sides_of = [&](auto v) QMM_FLAT { return PackedSides{sides_at(b, g.index, places.panel[v])}; };
    // What is to be subtracted for a code at a place, of a chunk or of all.
    const auto bias = [&](auto j) QMM_FLAT {
      constexpr int place = j / kBiases;
      const auto excess = static_cast<float>((1 << (23 - 4 * place)) + (Bits == 8 ? 128 : 0));
      if constexpr (O == Offset::Zeros)
        return svadd_n_f32_x(
            words, svcvt_f32_s32_x(words, sides_of(j % kBiases).zero(words, places.column[j % kBiases])), excess);
      else
        return svdup_n_f32(excess + (O == Offset::Symmetric ? static_cast<float>(symmetric_zero(Bits)) : 0.0f));
    };
    const auto begin = [&](auto v) QMM_FLAT {
      if (g.resume) return svld1_f32(words, carry + places.at[v]);
      return svreinterpret_f32_s32(zero_now());
    };
    with_vectors<kPlaces * kBiases>(bias, [&](auto&... biases) QMM_FLAT {
      with_vectors<V>(begin, [&](auto&... t) QMM_FLAT {
        for (int64_t k = g.begin; k < g.end; k += 8) {
          const int64_t ahead = distance_ahead<Bits>(b, k, kAhead);
          for (int64_t p = cut.panel(first + V - 1); cut.chunks(p) >= first; --p)  // panels that begin here
            for (int64_t i = 0; i < 8 * kSize; i += kLine)
              prefetch(b.codes, p * b.panel_stride + k * kSize + ahead + i);
          const auto multiply = [&](auto j, svfloat32_t x) QMM_FLAT {
            constexpr int place = neon::place_of<Bits>(j);
            constexpr auto exponent = static_cast<uint32_t>(127 + 23 - 4 * place) << 23;
            for_each_vector(
                [&](auto v, svfloat32_t& sum) QMM_FLAT {
                  const uint8_t* at = codes[v] + k * kSize + (Bits == 8 ? j / 4 * kLine : 0) + j % 4;
                  svuint32_t code = svreinterpret_u32_u8(svld1_u8(words, at));
                  if constexpr (Bits == 4) code = svand_n_u32_x(words, code, 15u << (4 * place));
                  // Signed codes become unsigned, 128 more.
                  code = sveor_n_u32_x(words, code, exponent | (Bits == 8 ? 0x80 : 0));
                  const svfloat32_t w =
                      svsub_f32_x(words, svreinterpret_f32_u32(code), pick<place * kBiases + v % kBiases>(biases...));
                  sum = svmla_lane_f32(sum, w, x, j % 4);
                },
                t...);
          };
          const svfloat32_t x0 = svld1rq_f32(svptrue_b32(), lhs + k);
          const svfloat32_t x1 = svld1rq_f32(svptrue_b32(), lhs + k + 4);
          unroll<4>([&](auto j) QMM_FLAT { multiply(j, x0); });
          unroll<4>([&](auto j) QMM_FLAT { multiply(Constant<j + 4>(), x1); });
        }
        const float* lhs_sum = static_cast<const float*>(b.lhs_sums) + row * b.lhs_group_stride + g.index;
        for_each_vector(
            [&](auto v, svfloat32_t& sum) QMM_FLAT {
              if (g.suspend)
                svst1_f32(words, carry + places.at[v], sum);
              else
                end_f32(O, words, sides_of(v), places.column[v], lhs_sum, b.acc + places.at[v], sum);
            },
            t...);
      });
    });
    for (int64_t p = cut.panel(first); p <= cut.panel(first + V - 1); ++p) prefetch_sides(b, g.index, p);
  });
}

template <int Bits>
void gemv_f32(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() {
    for (int64_t row = 0; row < b.rows; ++row)
      for_each_halving<8>(Cut().chunks(b.panels), 0,
                          [&]<int V>(int64_t first) { chunks_f32<Bits, O, V>(b, row, first); });
  });
}

}  // namespace
}  // namespace qmm::sve
