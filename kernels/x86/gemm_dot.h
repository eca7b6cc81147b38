// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM on vpdpbusd: I = sum of a * code over a group, see dot.h.
//
// Tile of R rows x C vectors of columns; a step is 4 k. The panels of a block are unpacked once for all rows: nibbles
// to bytes, s8 to code + 128 (vpdpbssd needs none of that, and the copy only puts the panels side by side).
//   d[R][C]  int32 sums     w[C]  the columns' codes of 4 k     a  4 k of a row, in every lane
// AVX-512: 12 rows x 2 panels, 27 registers of 32. A step takes 24 dots and 14 loads for 1536 MAC; two ports bound it
// at 128 MAC/cycle (Ice Lake-SP, Sapphire Rapids, Zen 5), one at 64 (Zen 4).
// AVX-VNNI: 6 rows x 1 panel, 15 registers of 16. A step takes 12 dots and 8 loads for 384 MAC: 64 MAC/cycle on two
// ports (Alder Lake P, Zen 5).
// A group's end adds 3 instructions on the same ports to the group / 4 dots of a sum: 8 of 11 are dots at group 32, 32
// of 35 at group 128. Larger groups, and a scale a row for the lhs, are what helps. bench/model/results.md has what the
// code leaves of it: 0.93 to 1.00 of it on these CPUs.
#pragma once

#include "dot.h"

namespace qmm::isa {
namespace {

// Panel p of the block to w[k / 4][NR][4].
template <Codes T, int64_t NR>
QMM_INLINE void unpack_bytes(const Block& b, int64_t p, uint8_t* w) {
  const int64_t at = p * b.panel_stride;
  w += p * kLine;
  for (int64_t k = 0; k < b.k; k += 8, w += 2 * NR * 4) {
    constexpr int64_t kSize = kPanel * kBits<T> / 8;  // bytes of one k
    unroll<kBits<T> / 4>([&](auto line) QMM_FLAT { prefetch(b.next_codes, at + k * kSize + line * kLine); });
    unroll<kVectors>([&](auto v) QMM_FLAT {
      const uint8_t* from = b.codes + at + k * kSize + v * kBytes;
      store(w + v * kBytes, T == Codes::U4 ? low_nibbles(load(from)) : operand<T>(from));
      store(w + NR * 4 + v * kBytes, T == Codes::U4 ? high_nibbles(load(from)) : operand<T>(from + kLine));
    });
  }
}

// What the rows of a tile bring to each of its groups, G at most, computed for many groups at once. All are bits of
// float to the compiler: an integer it may load to a general register first, and spill that.
template <int R, int64_t G>
struct Rows {
  float starts[R][G];
  float scales[R][G];
  float splits[R][G];
  float mins[R][G];
};

template <Codes T, int R, int64_t G>
QMM_INLINE void prepare(const Block& b, int64_t row, Rows<R, G>& rows) {
  const int64_t groups = (b.k + b.group - 1) / b.group;
  for (int64_t i = 0; i < R; ++i) {
    const int64_t at = (row + i) * b.lhs_group_stride;
    for (int64_t g = 0; g < groups; g += kColumns) {
      const Int sums = load_first(static_cast<const int32_t*>(b.lhs_sums) + at + g, groups - g);
      const Int scales = load_first(reinterpret_cast<const int32_t*>(b.lhs_scales) + at + g, groups - g);
      const RowTerms terms = row_terms(sums, as_float(scales));
      store(rows.starts[i] + g, start_of<T>(b.offset, sums));
      store(rows.scales[i] + g, scales);
      if (b.offset == Offset::Zeros) store(rows.splits[i] + g, terms.split);
      if (b.offset == Offset::Mins) store_f32(rows.mins[i] + g, terms.min);
    }
  }
}

template <Codes T, int R, int C, int64_t NR, int64_t G>
QMM_NOINLINE void tile(Block b, Sides sides, const uint8_t* w, Rows<R, G>& rows, int64_t row) {
  constexpr int64_t columns = C * kColumns;
  prepare<T>(b, row, rows);
  RowsOfThree<R, int8_t> a(static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride, b.lhs_stride);
  float* acc = b.acc + row * columns;
  int32_t* carry = static_cast<int32_t*>(b.carry) + row * columns;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    Int d[R][C];
    unroll<R>([&](auto i) QMM_FLAT {
      const Int start = as_int(broadcast_f32(&rows.starts[i][g.index]));
      unroll<C>([&](auto c) QMM_FLAT { d[i][c] = start; });
    });
    if (g.resume) unroll<R * C>([&](auto i) QMM_FLAT { d[i / C][i % C] = load(carry + i * kColumns); });
    for (int64_t left = g.end - g.begin; left > 0; left -= 8) {
      unroll<2>([&](auto s) QMM_FLAT {
        Int wk[C];
        unroll<C>([&](auto c) QMM_FLAT { wk[c] = load(w + s * NR * 4 + c * kBytes); });
        unroll<R>([&](auto i) QMM_FLAT {
          const Int av = broadcast4(a[i] + s * 4);
          unroll<C>([&](auto c) QMM_FLAT { multiply<T>(d[i][c], wk[c], av); });
        });
      });
      a.advance(8);
      w += 8 * NR;
    }
    if (g.suspend) {
      unroll<R * C>([&](auto i) QMM_FLAT { store(carry + i * kColumns, d[i / C][i % C]); });
      return;
    }
    for_offset(b.offset, [&]<Offset O>() QMM_FLAT {
      unroll<R>([&](auto i) QMM_FLAT {
        RowTerms terms;
        terms.scale = broadcast_f32(&rows.scales[i][g.index]);
        if constexpr (O == Offset::Zeros) terms.split = as_int(broadcast_f32(&rows.splits[i][g.index]));
        if constexpr (O == Offset::Mins) terms.min = broadcast_f32(&rows.mins[i][g.index]);
        add_row_dot<O>(sides, g.index * columns, terms, acc + i * columns, d[i]);
      });
    });
  });
}

template <Codes C, Tile T>
void gemm_dot(const Block& b) {
  constexpr int64_t kSides = sides_size(T), kCodes = T.block_k * T.nr, kGroups = T.block_k / 8;
  static_assert(kSides + kCodes + int64_t(sizeof(Rows<T.mr, kGroups>)) <= kScratch);
  auto* w = static_cast<uint8_t*>(b.scratch) + kSides;
  const Sides sides = widen_sides(b, Lhs::S8);
  for (int64_t p = 0; p < b.panels; ++p) {
    unpack_bytes<C, T.nr>(b, p, w);
    for_each_group(b, [&](const Group& g) { prefetch_sides(b, g.index, p); });
  }
  for_each_tile<T.nr / kPanel>(b.panels, [&]<int P>(int64_t) {
    for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) {
      tile<C, R, P * kVectors, T.nr>(b, sides, w, *reinterpret_cast<Rows<R, kGroups>*>(w + kCodes), row);
    });
  });
}

}  // namespace
}  // namespace qmm::isa
