// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM and few rows, for any way to multiply: a Multiply has
//   kTiles                                                  rows x panels whose sums it holds in registers
//   add<C>(a, stride, codes, panel_stride, k, d, prefetch)  d[P][R] += the products of R rows and P panels over k,
//                                                           with prefetch(p, k, lines) for what it has read
#pragma once

#include "neon.h"

namespace qmm::neon {
namespace {

// A group of R rows and P panels from `first`.
template <class Multiply, Codes C, Offset O, int Zero, int R, int P, class SidesOf, class Prefetch>
QMM_INLINE void group_s8(const Block& b, const Group& g, int64_t row, int64_t first, const uint8_t* codes,
                         int64_t panel_stride, SidesOf sides_of, Prefetch prefetch) {
  int32x4_t d[P][R][4];
  unroll<P>([&](auto p) QMM_FLAT { begin_s8<O, Zero>(b, g, sides_of(first + p), row, first + p, d[p]); });
  const auto* a = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride + g.begin;
  Multiply::template add<C>(a, b.lhs_stride, codes + g.begin / line_k(C) * kLine, panel_stride, g.end - g.begin, d,
                            prefetch);
  unroll<P>([&](auto p) QMM_FLAT { end_s8<O>(b, g, sides_of(first + p), row, first + p, 0, d[p]); });
}

// Few rows: panels from `first` on, P side by side, a group of each in turn. One stream of reads leaves memory
// bandwidth unused.
template <class Multiply, int Bits, Offset O, int R, int P>
QMM_NOINLINE void panels_s8(Block b, int64_t row, int64_t first) {
  constexpr int64_t kAhead = 1024 / Bits;  // k to prefetch ahead: 2 KiB of a panel
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = first; panel + P <= b.panels; panel += P) {
      group_s8<Multiply, Bits == 4 ? Codes::Nibbles : Codes::Bytes, O, symmetric_zero(Bits), R, P>(
          b, g, row, panel, b.codes + panel * b.panel_stride, b.panel_stride,
          [&](int64_t p) QMM_FLAT { return packed_sides(b, g.index, p); },
          [&](int64_t p, int64_t k, int lines)
              QMM_FLAT { prefetch_ahead<Bits>(b, panel + p, g.begin + k, kAhead, lines); });
      unroll<P>([&](auto p) QMM_FLAT { prefetch_sides(b, g.index, panel + p); });
    }
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
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    group_s8<Multiply, C, O, 0, R, 1>(
        b, g, row, 0, codes, 0, [&](int64_t) QMM_FLAT { return sides.of_group(g.index); },
        [&](int64_t, int64_t k, int lines) QMM_FLAT {
          if constexpr (First)
            for (int i = 0; i < lines; ++i) prefetch(b.next_codes, (g.begin + k) * kPanel + i * kLine);
        });
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
