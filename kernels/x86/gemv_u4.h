// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, few rows: as the GEMM kernel, with the nibbles unpacked in registers and the scales widened
// where they are used. It reads four panels side by side, a group of each in turn, because one stream of reads leaves
// memory bandwidth unused and four do not.
//
// Tile of R = 1 .. 4 rows x one panel, which is 2 vectors of AVX2 or one of AVX-512; a step is one line of 8 k.
//   x[R][kVectors]  int16 sums of up to 4 lines       a            4 k of a row, in every lane
//   sums            int32 sums of the group (memory)  b[kVectors]  16 columns x 4 k, from the line by mask and shift
// AVX2: 32 bytes take 2 vpand, 1 vpsrlw and, a row, 2 vpmaddubsw and 2 vpaddw; with the ends of chains one row reads 13
// bytes/cycle on three vector ports, above what one core reads from memory, and four rows multiply at 38 MAC/cycle.
// AVX-512: half as many instructions on two ports, 17 bytes/cycle and 50 MAC/cycle.
#pragma once

#include "sides.h"

namespace qmm::isa {
namespace {

constexpr int64_t kAhead = 256;  // k to prefetch ahead

// x = the sums of `Lines` lines, or += those.
template <bool First, int Lines, int R>
QMM_INLINE void chain(const int8_t* a, int64_t stride, const uint8_t* codes, Int (&x)[R][kVectors]) {
  unroll<2 * Lines>([&](auto s) QMM_FLAT {
    Int b[kVectors];
    unroll<kVectors>([&](auto v) QMM_FLAT {
      const Int line = load_now(codes + s / 2 * kLine + v * kBytes);
      b[v] = s % 2 == 0 ? low_nibbles(line) : high_nibbles(line);
    });
    unroll<R>([&](auto i) QMM_FLAT {
      const Int av = broadcast4(a + i * stride + s * 4);
      unroll<kVectors>([&](auto v) QMM_FLAT {
        const Int y = multiply_bytes(b[v], av);
        if constexpr (First && s == 0)
          x[i][v] = y;
        else
          add16(x[i][v], y);
      });
    });
  });
}

// Groups of up to 32 k: nothing but acc leaves the registers.
template <Offset O, int R>
QMM_NOINLINE void tile_of_chains(Block b, int64_t row) {
  const Int ones = set1_s16(1);
  const auto* a = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const auto* sum = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride;
  const float* scale = b.lhs_scales + row * b.lhs_group_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    float* acc = b.acc + row * b.panels * kPanel;
    for (int64_t panel = 0; panel < b.panels; ++panel, acc += kPanel) {
      Int x[R][kVectors];
      const uint8_t* codes = b.codes + panel * b.panel_stride + g.begin * 8;
      prefetch_ahead<4>(b, panel, g.begin, kAhead, 4);
      if (g.end - g.begin == 32) {
        chain<true, 4>(a, b.lhs_stride, codes, x);
      } else {
        unroll<R * kVectors>([&](auto i) QMM_FLAT { x[i / kVectors][i % kVectors] = zero(); });
        for (int64_t k = 0; k < g.end - g.begin; k += 8) chain<false, 1>(a + k, b.lhs_stride, codes + k * 8, x);
      }
      const PackedSides sides = packed_sides(b, g.index, panel);
      unroll<R>([&](auto i) QMM_FLAT {
        Int d[kVectors];
        unroll<kVectors>([&](auto v) QMM_FLAT { d[v] = multiply_s16(x[i][v], ones); });
        const int64_t at = i * b.lhs_group_stride;
        add_row_s8<4, O>(sides, 0, sum[at], scale[at], acc + i * b.panels * kPanel, d);
      });
      prefetch_sides(b, g.index, panel);
    }
    a += b.group, ++sum, ++scale;
  });
}

template <Offset O, int R>
QMM_NOINLINE void tile(Block b, int64_t row) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const Int ones = set1_s16(1);
  auto* sums = static_cast<int32_t*>(b.scratch);
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = 0; panel < b.panels; ++panel) {
      int64_t k = g.begin;
      const auto add_lines = [&](auto is_first, auto lines) QMM_FLAT {
        Int x[R][kVectors];
        prefetch_ahead<4>(b, panel, k, kAhead, lines);
        chain<true, lines>(lhs + k, b.lhs_stride, b.codes + panel * b.panel_stride + k * 8, x);
        unroll<kVectors * R>([&](auto i) QMM_FLAT {
          const Int sum = multiply_s16(x[i / kVectors][i % kVectors], ones);
          store(sums + i * kColumns, is_first ? sum : add(sum, load(sums + i * kColumns)));
        });
        k += 8 * lines;
      };
      constexpr Constant<4> four;
      constexpr Constant<1> one;
      if (g.end - k >= 32)
        add_lines(Constant<true>(), four);
      else
        add_lines(Constant<true>(), one);
      while (g.end - k >= 32) add_lines(Constant<false>(), four);
      while (k < g.end) add_lines(Constant<false>(), one);
      unroll<R>([&](auto i) QMM_FLAT {
        Int d[kVectors];
        unroll<kVectors>([&](auto v) QMM_FLAT { d[v] = load(sums + i * kPanel + v * kColumns); });
        end_row_s8<4, O>(b, g, packed_sides(b, g.index, panel), row + i, 0, ((row + i) * b.panels + panel) * kPanel, d);
      });
      prefetch_sides(b, g.index, panel);
    }
  });
}

inline void gemv_u4(const Block& b) {
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<4>(b.rows,
                     [&]<int R>(int64_t row) { b.group <= 32 ? tile_of_chains<O, R>(b, row) : tile<O, R>(b, row); });
  });
}

}  // namespace
}  // namespace qmm::isa
