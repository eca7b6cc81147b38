// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM and few rows: I = sum of a * code over a group, by SDOT of four k of a column in each lane with four
// k of a row, which a load repeats in every 128 bits.
//
// Tile of R rows x V chunks of columns:
//   d...  R * V int32 sums     a...  16 k of R rows     w...  four k of V chunks
// 8 rows x 2 chunks for GEMM: 16 k take 64 SDOT beside 16 loads, one of 4 MAC a lane. Two pipes of 256 bits (Neoverse
// V1) reach 64 MAC/cycle, four of 128 (Neoverse V2) as many, by LLVM 19's models. Two of 512 (A64FX) reach 128 if SDOT
// by lane takes one of them, and 64 if it takes both as FMLA by lane does; 16 sums hide most of its latency of 9. A
// group's end takes a conversion, FMUL and FMA a sum.
#pragma once

#include "sve.h"

namespace qmm::sve {
namespace {

// A group of R rows and V chunks from `first`; the lines of panel p begin at codes_of(p). Before it reads up to 32 k,
// it calls prefetch(k, end).
template <Codes C, Offset O, int Zero, int R, int V, class CodesOf, class SidesOf, class Prefetch>
QMM_INLINE void group_s8(const Block& b, const Group& g, Cut cut, int64_t row, int64_t first, CodesOf codes_of,
                         SidesOf sides_of, Prefetch prefetch) {
  const svbool_t bytes = cut.bytes(), words = cut.words();
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const auto* lhs_sums = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride + g.index;
  const float* lhs_scales = b.lhs_scales + row * b.lhs_group_stride + g.index;
  const int64_t row_stride = b.panels * kPanel;
  auto* carry = static_cast<int32_t*>(b.carry);
  const Places<V> places(b, cut, row, first);
  const uint8_t* codes[V];
  unroll<V>([&](auto v) QMM_FLAT { codes[v] = codes_of(places.panel[v]) + places.column[v] * 4; });

  const auto begin = [&](auto j) QMM_FLAT {
    constexpr int i = j / V, v = j % V;
    if (g.resume) return svld1_s32(words, carry + places.at[v] + i * row_stride);
    if constexpr (O == Offset::Zeros)
      return svmul_n_s32_x(words, sides_of(places.panel[v]).zero(words, places.column[v]),
                           -lhs_sums[i * b.lhs_group_stride]);
    else if constexpr (O == Offset::Symmetric && Zero != 0)
      return svdup_n_s32(-Zero * lhs_sums[i * b.lhs_group_stride]);
    else
      return zero_now();
  };
  with_vectors<R * V>(begin, [&](auto&... d) QMM_FLAT {
    // The products of four k: k + 4 * step, with those from k on in a.
    const auto add = [&](auto step, auto&... a) QMM_FLAT {
      return [&, step](auto&... w) QMM_FLAT {
        for_each_vector(
            [&](auto j, svint32_t& sum)
                QMM_FLAT { sum = svdot_lane_s32(sum, pick<j % V>(w...), keep_low(pick<j / V>(a...)), step); },
            d...);
      };
    };
    const auto multiply = [&](int64_t k, auto steps) QMM_FLAT {
      const svbool_t of_row = svwhilelt_b8_s64(0, steps * 4);
      with_vectors<R>(
          [&](auto i) QMM_FLAT { return keep_low(svld1rq_s8(of_row, lhs + i * b.lhs_stride + k)); },
          [&](auto&... a) QMM_FLAT {
            unroll<steps / 2>([&](auto half) QMM_FLAT {
              const int64_t line = k * (kLine / line_k(C)) + half * (8 / line_k(C)) * kLine;
              const auto low = add(Constant<half * 2>(), a...);
              const auto high = add(Constant<half * 2 + 1>(), a...);
              const auto load = [&](auto v) QMM_FLAT { return svld1_u8(bytes, codes[v] + line); };
              if constexpr (C == Codes::Nibbles) {
                // The high nibbles first: AND destroys what it reads.
                with_vectors<V>(load, [&](auto&... w) QMM_FLAT {
                  with_vectors<V>([&](auto v)
                                      QMM_FLAT { return svreinterpret_s8_u8(svlsr_n_u8_x(bytes, pick<v>(w...), 4)); },
                                  high);
                  with_vectors<V>([&](auto v)
                                      QMM_FLAT { return svreinterpret_s8_u8(svand_n_u8_x(bytes, pick<v>(w...), 15)); },
                                  low);
                });
              } else {
                with_vectors<V>([&](auto v) QMM_FLAT { return svreinterpret_s8_u8(load(v)); }, low);
                with_vectors<V>(
                    [&](auto v)
                        QMM_FLAT { return svld1_s8(bytes, reinterpret_cast<const int8_t*>(codes[v]) + line + kLine); },
                    high);
              }
            });
          });
    };
    for (int64_t k = g.begin; k < g.end;) {
      const int64_t end = k + 32 < g.end ? k + 32 : g.end;
      prefetch(k, end);
      for (; k + 16 <= end; k += 16) multiply(k, Constant<4>());
      if (k < end) multiply(k, Constant<2>()), k += 8;
    }

    if (g.suspend) {
      for_each_vector([&](auto j, svint32_t& sum)
                          QMM_FLAT { svst1_s32(words, carry + places.at[j % V] + j / V * row_stride, sum); },
                      d...);
      return;
    }
    with_vectors<V>([&](auto v) QMM_FLAT { return sides_of(places.panel[v]).scale(words, places.column[v]); },
                    [&](auto&... scale) QMM_FLAT {
                      for_each_vector(
                          [&](auto j, svint32_t& sum) QMM_FLAT {
                            constexpr int i = j / V, v = j % V;
                            add_s8<O>(words, sides_of(places.panel[v]), places.column[v], pick<v>(scale...), sum,
                                      lhs_scales[i * b.lhs_group_stride], lhs_sums[i * b.lhs_group_stride],
                                      b.acc + places.at[v] + i * row_stride);
                          },
                          d...);
                    });
  });
}

// Few rows: chunks from `first` on, V side by side, a group of each in turn.
template <int Bits, Offset O, int R, int V>
QMM_NOINLINE void chunks_s8(Block b, int64_t row, int64_t first) {
  constexpr int64_t kSize = kPanel * Bits / 8, kAhead = 1024 / Bits;  // bytes of one k; k to prefetch ahead
  const Cut cut;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t chunk = first; chunk + V <= cut.chunks(b.panels); chunk += V)
      group_s8<Bits == 4 ? Codes::Nibbles : Codes::Bytes, O, symmetric_zero(Bits), R, V>(
          b, g, cut, row, chunk, [&](int64_t panel) QMM_FLAT { return b.codes + panel * b.panel_stride; },
          [&](int64_t panel) QMM_FLAT { return PackedSides{sides_at(b, g.index, panel)}; },
          [&](int64_t k, int64_t end) QMM_FLAT {
            constexpr int kLines = 32 * kSize / kLine;
            const int64_t ahead = distance_ahead<Bits>(b, k, kAhead) + k * kSize;
            for (int64_t p = cut.panel(chunk + V - 1); cut.chunks(p) >= chunk; --p) {  // panels that begin here
              const uint8_t* next = opaque(b.codes + p * b.panel_stride + ahead);
              if (k + 32 == end)
                unroll<kLines>([&](auto line) QMM_FLAT { prefetch(next, line * kLine); });
              else
                for (int64_t at = 0; at < (end - k) * kSize; at += kLine) prefetch(next, at);
            }
          });
    for (int64_t p = cut.panel(first); p < b.panels; ++p) prefetch_sides(b, g.index, p);
  });
}

template <int Bits>
void few_rows_s8(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<4>(b.rows, [&]<int R>(int64_t row) {
      constexpr int V = 4 / R;
      const int64_t chunks = Cut().chunks(b.panels), whole = chunks / V * V;
      if (whole > 0) chunks_s8<Bits, O, R, V>(b, row, 0);
      if (V > 1 && whole < chunks) chunks_s8<Bits, O, R, 1>(b, row, whole);
    });
  });
}

// GEMM: R rows of V chunks from `first` on; panel p has its lines at codes + p * stride. Where nothing unpacks them,
// the first tile prefetches what comes next.
template <Codes C, Offset O, int R, int V>
QMM_NOINLINE void tile_s8(Block b, const neon::Sides* sides, const uint8_t* codes, int64_t stride, int64_t row,
                          int64_t first) {
  const Cut cut;
  const bool reads_first = C == Codes::Bytes && row == 0;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    group_s8<C, O, 0, R, V>(
        b, g, cut, row, first, [&](int64_t panel) QMM_FLAT { return codes + panel * stride; },
        [&](int64_t panel) QMM_FLAT { return WideSides{sides[panel].of_group(g.index)}; },
        [&](int64_t k, int64_t end) QMM_FLAT {
          if (reads_first)
            for (int64_t p = cut.panel(first + V - 1); cut.chunks(p) >= first; --p)
              for (int64_t at = k * kPanel; at < end * kPanel; at += kLine)
                prefetch(b.next_codes, p * b.panel_stride + at);
        });
    if (reads_first) prefetch_sides(b, g.index, cut.panel(first));
  });
}

template <int Bits, Tile T>
void gemm_s8(const Block& b) {
  constexpr int64_t kPanels = T.nr / kPanel, kBytes = Bits == 4 ? T.block_k * kPanel : 0;  // of an unpacked panel
  constexpr Codes C = Bits == 4 ? Codes::Small : Codes::Bytes;
  static_assert(kPanels * (neon::sides_count(T) * 4 + kBytes) <= kScratch);
  auto* scratch = static_cast<float*>(b.scratch);
  auto* unpacked = reinterpret_cast<uint8_t*>(scratch + kPanels * neon::sides_count(T));
  neon::Sides sides[kPanels];
  for (int64_t p = 0; p < b.panels; ++p) {
    sides[p] = neon::widen_sides(b, p, scratch + p * neon::sides_count(T));
    if constexpr (Bits == 4)
      neon::unpack<4>(b, p, [&](int64_t k, int64_t v, const neon::EightK& w) QMM_FLAT {
        uint8_t* to = unpacked + p * kBytes + k * kPanel + v * 16;
        vst1q_u8(to, vreinterpretq_u8_s8(w.low));
        vst1q_u8(to + kLine, vreinterpretq_u8_s8(w.high));
      });
  }
  const uint8_t* codes = Bits == 4 ? unpacked : b.codes;
  const int64_t stride = Bits == 4 ? kBytes : b.panel_stride, chunks = Cut().chunks(b.panels);
  const auto tiles = [&]<Offset O>() {
    for_each_halving<T.mr>(b.rows, 0, [&]<int R>(int64_t row) {
      for_each_tile<2>(chunks, [&]<int V>(int64_t first) { tile_s8<C, O, R, V>(b, sides, codes, stride, row, first); });
    });
  };
  // The zeros of 4-bit codes are gone when they are unpacked.
  if constexpr (Bits == 4)
    b.offset == Offset::Mins ? tiles.template operator()<Offset::Mins>()
                             : tiles.template operator()<Offset::Symmetric>();
  else
    for_offset(b.offset, tiles);
}

}  // namespace
}  // namespace qmm::sve
