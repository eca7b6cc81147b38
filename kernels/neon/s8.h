// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM and few rows, for any way to multiply: a Multiply has
//   kTiles                   rows x panels whose sums it holds in registers
//   add<C>(stride, walk, d)  d[P][R][4] += the products of R rows and P panels over a group. walk calls what it is
//   given
//                            for `Steps` times eight k, with the first of them in the row and in each panel, and
//                            prefetch(s), which is to be called at each of these steps
#pragma once

#include "neon.h"

namespace qmm::neon {
namespace {

// Walks through a group of R rows and P panels, 32 k at a time and what is left by eights. From ahead_of(k) on, in
// bytes from the codes at k, it prefetches as many lines as it reads.
template <Codes C, bool Prefetches, int P, class AheadOf, class Add>
QMM_INLINE void walk_s8(const Group& g, const int8_t* a, const uint8_t* (&codes)[P], AheadOf ahead_of, Add add) {
  int64_t k = opaque(g.begin);
  a = opaque(a);
  const auto steps = [&]<int Steps>() QMM_FLAT {
    constexpr int kLines = Steps * 8 / line_k(C);  // of a panel
    const int64_t ahead = Prefetches ? ahead_of(k) : 0;
    add.template operator()<Steps>(a, codes, [&](auto s) QMM_FLAT {
      unroll<P>([&](auto p) QMM_FLAT {
        if constexpr (Prefetches && p * Steps / P == s) {
          const uint8_t* next = opaque(codes[p] + ahead);
          unroll<kLines>([&](auto line) QMM_FLAT { prefetch(next, line * kLine); });
        }
      });
    });
    a += Steps * 8;
    unroll<P>([&](auto p) QMM_FLAT { codes[p] = opaque(codes[p] + kLines * kLine); });
    k += Steps * 8;
  };
  while (k + 32 <= g.end) steps.template operator()<4>();
  k = opaque(k);  // or else the compiler unrolls what is left
  while (k < g.end) steps.template operator()<1>();
}

// Few rows: panels from `first` on, P side by side, a group of each in turn. One stream of reads leaves memory
// bandwidth unused.
template <class Multiply, int Bits, Offset O, int R, int P>
QMM_NOINLINE void panels_s8(Block b, int64_t row, int64_t first) {
  constexpr Codes C = Bits == 4 ? Codes::Nibbles : Codes::Bytes;
  constexpr int64_t kSize = kPanel * Bits / 8, kAhead = 1024 / Bits;  // bytes of one k; k to prefetch ahead
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    const RowTerms<R> rows = row_terms<R>(b, g, row);
    int64_t panel = first;
    do {
      int32x4_t d[P][R][4];
      const int64_t stride = b.panels * kPanel, at = row * stride + panel * kPanel;
      float* acc = opaque(b.acc + at);
      int32_t* carry = opaque(static_cast<int32_t*>(b.carry) + at);
      const uint8_t* base = opaque(b.codes + panel * b.panel_stride + g.begin * kSize);
      const uint8_t* codes[P];
      unroll<P>([&](auto p) QMM_FLAT {
        begin_s8<O, symmetric_zero(Bits)>(g, rows, packed_sides(b, g.index, panel + p), carry + p * kPanel, stride,
                                          d[p]);
        codes[p] = opaque(base + p * b.panel_stride);
      });
      Multiply::template add<C>(
          b.lhs_stride,
          [&](auto add) QMM_FLAT {
            walk_s8<C, true>(
                g, lhs + g.begin, codes, [&](int64_t k) QMM_FLAT { return distance_ahead<Bits>(b, k, kAhead); }, add);
          },
          d);
      if (g.suspend)
        unroll<P>([&](auto p) QMM_FLAT { suspend_s8(carry + p * kPanel, stride, d[p]); });
      else
        for_sides<O, P>(b, g.index, panel, [&](auto p, const PackedSides& sides) QMM_FLAT {
          end_s8<O>(rows, sides, acc + p * kPanel, stride, d[p]);
        });
    } while (P < Multiply::kTiles && (panel = opaque(panel + P)) + P <= b.panels);  // kTiles are all of a block
  });
}

template <class Multiply, int Bits>
void few_rows_s8(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<Multiply::kTiles>(b.rows, [&]<int R>(int64_t row) {
      constexpr int P = Multiply::kTiles / R;
      const int64_t whole = b.panels / P * P;
      if (whole > 0) panels_s8<Multiply, Bits, O, R, P>(b, row, 0);
      if (whole < b.panels) panels_s8<Multiply, Bits, O, R, 1>(b, row, whole);
    });
  });
}

// GEMM: R rows of one panel, whose lines of four k lie at `codes`. Where nothing unpacks them, the first tile
// prefetches what comes next.
template <class Multiply, Codes C, Offset O, int R, bool First>
QMM_NOINLINE void tile_s8(Block b, Sides sides, const uint8_t* codes, int64_t row) {
  float* acc = b.acc + row * kPanel;
  int32_t* carry = static_cast<int32_t*>(b.carry) + row * kPanel;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    const RowTerms<R> rows = row_terms<R>(b, g, row);
    const Sides here = sides.of_group(g.index);
    int32x4_t d[1][R][4];
    begin_s8<O, 0>(g, rows, here, carry, kPanel, d[0]);
    const uint8_t* lines[1] = {codes + g.begin * kPanel};
    Multiply::template add<C>(
        b.lhs_stride,
        [&](auto add) QMM_FLAT {
          walk_s8<C, First>(
              g, static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride + g.begin, lines,
              [&](int64_t) QMM_FLAT { return distance(b.codes, b.next_codes); }, add);
        },
        d);
    g.suspend ? suspend_s8(carry, kPanel, d[0]) : end_s8<O>(rows, here, acc, kPanel, d[0]);
    if constexpr (First) prefetch_sides(b, g.index, 0);
  });
}

template <class Multiply, int Bits, Tile T>
void gemm_s8(const Block& b) {
  static_assert(T.nr == kPanel && sides_count(T) * 4 + (Bits == 4 ? T.block_k * kPanel : 0) <= kScratch);
  auto* scratch = static_cast<float*>(b.scratch);
  const Sides sides = widen_sides(b, 0, scratch);
  const auto tiles = [&]<Codes C, Offset O>(const uint8_t* codes) {
    for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) {
      C == Codes::Bytes&& row == 0 ? tile_s8<Multiply, C, O, R, C == Codes::Bytes>(b, sides, codes, row)
                                   : tile_s8<Multiply, C, O, R, false>(b, sides, codes, row);
    });
  };
  if constexpr (Bits == 4) {
    auto* bytes = reinterpret_cast<uint8_t*>(scratch + sides_count(T));
    unpack<4>(b, 0, [&](int64_t k, int64_t v, const EightK& w) QMM_FLAT {
      uint8_t* to = bytes + k * kPanel + v * 16;
      vst1q_u8(to, vreinterpretq_u8_s8(w.low));
      vst1q_u8(to + kLine, vreinterpretq_u8_s8(w.high));
    });
    b.offset == Offset::Mins ? tiles.template operator()<Codes::Small, Offset::Mins>(bytes)
                             : tiles.template operator()<Codes::Small, Offset::Symmetric>(bytes);
  } else {
    for_offset(b.offset, [&]<Offset O>() { tiles.template operator()<Codes::Bytes, O>(b.codes); });
  }
}

}  // namespace
}  // namespace qmm::neon
