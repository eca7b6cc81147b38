// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 8-bit lhs, GEMM on AMX: I = sum of a * code over a group, by TDPBSSD.
//
// Tile of 32 rows x 32 columns. A line of 8-bit codes, 16 columns x 4 k, is a row of TDPBSSD's right operand, so that
// 8-bit panels are multiplied where they lie; 4-bit ones are unpacked once a block to s8, their zeros subtracted. The
// left operand is 16 rows of the lhs, where they lie. The k of a product, `depth`, are the most that divide a group: 64
// where it is a multiple of 64, and all 32 of group 32. Groups of few factors (8 * 17) are right and slow.
//   tmm0-3  int32 sums: 2 x 2 tiles of 16 rows x 16 columns
//   tmm4-5  16 rows x depth of the lhs              tmm6-7  depth x 16 columns of codes
// The sums go through memory to the contract's float arithmetic, those of one group while the next is multiplied.
//
// TDPBSSD takes a cycle a row, whatever the depth: 16 rows x 16 columns x 64 k in 16 cycles bound it at 1024 MAC/cycle.
// A group's end stores 32 x 32 sums and then acc, one vector of 16 a cycle: 128 cycles; the conversion, multiplication
// and FMA of each vector take 96 on two ports. In group 32 the products take 64: its end bounds it, at 256 MAC/cycle.
// In group 128 they take 128, as long as the end: 1024, which is also the bound per channel. Unpacking takes 2.5 cycles
// of each line of 8 k x 16 columns, 1/6 of what multiplying it by 128 rows takes.
#pragma once

#include "../x86/dot.h"

namespace qmm::amx {
namespace {

using namespace isa;

constexpr int64_t kTileRows = 16;             // and columns, of sums
constexpr int64_t kRow = 64;                  // bytes of the longest row
constexpr int64_t kSums = 32 * 32;            // of a tile of the kernel
constexpr int64_t kSumsSize = 2 * kSums * 4;  // bytes of those of two groups

// GCC's intrinsics do not say that they read memory: stores that were to come first may come later.
template <int Tile>
QMM_INLINE void load_tile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}
template <int Tile>
QMM_INLINE void store_tile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}
template <int Tile>
QMM_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}
template <int Sums, int Left, int Right>
QMM_INLINE void multiply() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(Left), "i"(Right));
}

// Sets the shapes of the tiles for so many rows of the lhs; they hold 0 then.
inline void configure(int64_t rows, int64_t depth) {
  struct alignas(64) {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } c = {};
  static_assert(sizeof c == 64);
  c.palette = 1;
  const auto set = [&](int tile, int64_t tile_rows, int64_t row_bytes) {
    c.rows[tile] = static_cast<uint8_t>(tile_rows);
    c.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  };
  for (int i = 0; i < 2 && rows > i * kTileRows; ++i) {
    const int64_t left = rows - i * kTileRows, tile_rows = left < kTileRows ? left : kTileRows;
    set(2 * i, tile_rows, kRow), set(2 * i + 1, tile_rows, kRow);
    set(4 + i, tile_rows, depth);
  }
  set(6, depth / 4, kRow), set(7, depth / 4, kRow);
  asm volatile("ldtilecfg %0" : : "m"(c) : "memory");
}

// The most k that a product takes of a group: a divisor of it.
inline int64_t depth_of(int64_t group) {
  int64_t depth = group < kRow ? group : kRow;
  while (group % depth != 0) depth -= 4;
  return depth;
}

// Unpacks 4-bit panels to lines of 4 k in s8, less their zeros: [panels][k / 4].
template <Offset O>
inline void unpack(const Block& b, uint8_t* to) {
  for (int64_t p = 0; p < b.panels; ++p)
    for_each_group(b, [&](const Group& g) QMM_FLAT {
      Int zeros = set1_s8(O == Offset::Symmetric ? symmetric_zero(4) : 0);
      if constexpr (O == Offset::Zeros)  // to the four bytes of their columns
        zeros = _mm512_mullo_epi32(widen_zero(b.offsets + p * b.panel_stride + g.index * kPanel), set1(0x01010101));
      for (int64_t k = g.begin; k < g.end; k += 8) {
        const int64_t at = p * b.panel_stride + k / 8 * kLine;
        prefetch(b.next_codes, at);
        const Int line = load(b.codes + at);
        uint8_t* lines = to + (p * b.k + k) * kPanel;
        store(lines, _mm512_sub_epi8(low_nibbles(line), zeros));
        store(lines + kLine, _mm512_sub_epi8(high_nibbles(line), zeros));
      }
    });
}

// What is multiplied in a tile: s8 lines of 4 k, panels so many bytes apart.
struct Lines {
  const uint8_t* first;
  int64_t panel_stride;
};

// The sums of a group for R x P tiles, from carry where the group goes on, left in tmm0-3.
template <int R, int P>
QMM_INLINE void add_products(const int8_t* lhs, int64_t stride, const uint8_t* codes, int64_t panel_stride, int64_t k,
                             int64_t depth) {
  for (; k > 0; k -= depth) {
    load_tile<4>(lhs, stride);
    load_tile<6>(codes, kLine);
    multiply<0, 4, 6>();
    if constexpr (R == 2) {
      load_tile<5>(lhs + kTileRows * stride, stride);
      multiply<2, 5, 6>();
    }
    if constexpr (P == 2) {
      load_tile<7>(codes + panel_stride, kLine);
      multiply<1, 4, 7>();
    }
    if constexpr (R == 2 && P == 2) multiply<3, 5, 7>();
    lhs += depth, codes += depth * kPanel;
  }
}

// Calls use<tile>(where it lies among rows of P panels) for each of the R x P tiles of sums.
template <int R, int P, class Use>
QMM_INLINE void for_each_sum(Use use) {
  unroll<R>([&](auto i) QMM_FLAT {
    unroll<P>([&](auto p) QMM_FLAT { use.template operator()<2 * i + p>((i * kTileRows * P + p) * kPanel); });
  });
}

// Adds the sums of a group to acc, for the rows of a tile.
template <Offset O, int P>
QMM_NOINLINE void end_group(Block b, int64_t group, int64_t row, int64_t rows, const int32_t* sums) {
  // Rows of acc are P panels long, which is known here: EndOfRows would add for each.
  const int64_t first = row * b.lhs_group_stride + group;
  const auto* lhs_sum = static_cast<const int32_t*>(b.lhs_sums) + first;
  const float* lhs_scale = b.lhs_scales + first;
  float* acc = b.acc + row * P * kPanel;
  with_sides<O, P>(b, group, 0, [&](const auto& typed) QMM_FLAT {
    const LoadedSides<O, P> sides(typed);
    const auto add_rows = [&]<int R>() QMM_FLAT {
      unroll<R>([&](auto i) QMM_FLAT {
        Int d[P];
        unroll<P>([&](auto p) QMM_FLAT { d[p] = load(sums + (i * P + p) * kPanel); });
        const RowTerms terms = row_terms(broadcast4(lhs_sum), broadcast_f32(lhs_scale));
        add_row_dot<O>(sides, 0, terms, acc + i * P * kPanel, d);
        lhs_sum += b.lhs_group_stride, lhs_scale += b.lhs_group_stride;
      });
      sums += R * P * kPanel, acc += R * P * kPanel;
    };
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) add_rows.template operator()<4>();
    for (; i < rows; ++i) add_rows.template operator()<1>();
  });
}

// R x P tiles of up to 32 rows, over the groups from g to the end, which are of one length. `sums`: of two groups.
template <int Bits, Offset O, int R, int P>
QMM_NOINLINE void tile(Block b, Lines lines, int32_t* sums, int64_t row, int64_t rows, Group g, int64_t end) {
  constexpr int64_t width = P * kPanel;  // of a row of carry and of sums
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  auto* carry = static_cast<int32_t*>(b.carry) + row * width;
  const int64_t first = g.index, length = g.end - g.begin, depth = depth_of(length);
  const auto sums_of = [&](int64_t group) { return sums + group % 2 * kSums; };
  const auto end_of = [&](int64_t group) {
    constexpr Offset kOffset = Bits == 4 && O == Offset::Zeros ? Offset::Symmetric : O;  // unpack took the zeros off
    end_group<kOffset, P>(b, group, row, rows, sums_of(group));
  };
  configure(rows, depth);
  for (; g.begin < end; ++g.index, g.begin += length) {
    for_each_sum<R, P>([&]<int Tile>(int64_t at)
                           QMM_FLAT { g.resume ? load_tile<Tile>(carry + at, width * 4) : zero_tile<Tile>(); });
    add_products<R, P>(lhs + g.begin, b.lhs_stride, lines.first + g.begin * kPanel, lines.panel_stride, length, depth);
    int32_t* to = g.suspend ? carry : sums_of(g.index);
    for_each_sum<R, P>([&]<int Tile>(int64_t at) QMM_FLAT { store_tile<Tile>(to + at, width * 4); });
    if (g.index > first) end_of(g.index - 1);
  }
  if (!g.suspend) end_of(g.index - 1);
}

// A kernel. `sums`: kSumsSize bytes.
template <int Bits, Offset O>
inline void multiply_block(const Block& b, Lines lines, int32_t* sums) {
  // The groups of a block have one length, but for the last one, which may be short.
  const int64_t whole = b.k / b.group * b.group;
  for (int64_t row = 0; row < b.rows; row += 2 * kTileRows) {
    const int64_t rows = b.rows - row < 2 * kTileRows ? b.rows - row : 2 * kTileRows;
    const auto run = [&](int64_t begin, int64_t end, int64_t length) {
      if (begin == end) return;
      const Group g = {begin / b.group, begin, begin + length, begin == 0 && b.resume, end == b.k && b.suspend};
      const auto with = [&]<int R, int P>() { tile<Bits, O, R, P>(b, lines, sums, row, rows, g, end); };
      if (rows > kTileRows)
        b.panels == 2 ? with.template operator()<2, 2>() : with.template operator()<2, 1>();
      else
        b.panels == 2 ? with.template operator()<1, 2>() : with.template operator()<1, 1>();
    };
    run(0, whole, b.group);
    run(whole, b.k, b.k - whole);
  }
  asm volatile("tilerelease" : : : "memory");
}

}  // namespace
}  // namespace qmm::amx
