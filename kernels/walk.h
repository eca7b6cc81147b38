// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How vector kernels of any ISA walk through a block: its tiles and groups, where a group's sides (its scales and
// offsets) lie, and what to prefetch on the way.
#pragma once

#include <utility>

#include "kernel.h"

#define QMM_INLINE inline __attribute__((always_inline))
// For a tile: by itself, it has all the registers. It takes the block by value, so that stores to acc can not be taken
// for changes of it; but x86's tiles of few rows take a reference: a compiler that may keep the block's members in
// registers keeps all of them, and spills.
#define QMM_NOINLINE __attribute__((noinline))

namespace qmm {
namespace {

// A constant of its own type. The members of the standard's are functions that the files of all ISAs share where a
// compiler does not inline them (-O0).
template <auto Value>
struct Constant {
  constexpr operator decltype(Value)() const { return Value; }
};

// Calls body(i) for i = 0 .. N-1, each a Constant. GCC unrolls long loops too late to see that an array that they index
// could live in registers. The body is to be a lambda [&](auto i) QMM_FLAT { ... }.
#define QMM_FLAT __attribute__((always_inline))
template <int N, class Body>
QMM_INLINE void unroll(Body body) {
  [&]<int... I>(std::integer_sequence<int, I...>)
      QMM_FLAT { (body(Constant<I>()), ...); }(std::make_integer_sequence<int, N>());
}

// Calls tile<R>(first) for so many rows or panels, R = Most at a time and the rest in one narrower tile.
template <int Most, class Tile>
QMM_INLINE void for_each_tile(int64_t count, Tile tile) {
  int64_t first = 0;
  for (; first + Most <= count; first += Most) tile.template operator()<Most>(first);
  [&]<int... R>(std::integer_sequence<int, R...>) {
    ((count - first == R + 1 ? tile.template operator()<R + 1>(first) : void()), ...);
  }(std::make_integer_sequence<int, Most - 1>());
}

// Calls run<O>() for the block's offset O.
template <class Run>
QMM_INLINE void for_offset(Offset offset, Run run) {
  switch (offset) {
    case Offset::Symmetric: return run.template operator()<Offset::Symmetric>();
    case Offset::Zeros: return run.template operator()<Offset::Zeros>();
    case Offset::Mins: return run.template operator()<Offset::Mins>();
  }
}

// Bytes of the scales and of the offsets of a group of a panel.
QMM_INLINE int64_t scales_size(Scale scale) { return kPanel * (scale == Scale::F32 ? 4 : 2); }
QMM_INLINE int64_t offsets_size(Scale scale, Offset offset) {
  return offset == Offset::Symmetric ? 0 : offset == Offset::Zeros ? kPanel : scales_size(scale);
}

// Where the sides of a group of a panel lie, in a block of this type and offset.
struct SidesAt {
  Scale type;
  const uint8_t* scales;
  const uint8_t* offsets;
};
QMM_INLINE SidesAt sides_at(const Block& b, Scale scale, Offset offset, int64_t group, int64_t panel) {
  return {scale, b.scales + panel * b.panel_stride + group * scales_size(scale),
          b.offsets + panel * b.panel_stride + group * offsets_size(scale, offset)};
}
QMM_INLINE SidesAt sides_at(const Block& b, int64_t group, int64_t panel) {
  return sides_at(b, b.scale, b.offset, group, panel);
}

// Where a group begins and ends in a block.
struct Group {
  int64_t index, begin, end;
  bool resume, suspend;
};

// Calls body for each group of the block.
template <class Body>
QMM_INLINE void for_each_group(const Block& b, Body body) {
  for (int64_t k = 0, g = 0; k < b.k; ++g) {
    const int64_t end = k + b.group < b.k ? k + b.group : b.k;
    body(Group{g, k, end, g == 0 && b.resume, end == b.k && b.suspend});
    k = end;
  }
}

// The line at an address, which may lie outside, into the nearest cache.
QMM_INLINE void prefetch(const uint8_t* base, int64_t offset) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(offset)));
}

// Bytes from one address to another, which may be of another array.
QMM_INLINE int64_t distance(const uint8_t* from, const uint8_t* to) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from));
}

// A pointer or index as it is, of which the compiler does not know how it was made: it would keep each address of a
// loop that it can count up in a register of its own, of which there are too few.
template <class T>
QMM_INLINE T opaque(T x) {
  asm("" : "+r"(x));
  return x;
}

// Where the codes lie that a kernel of few rows prefetches, in bytes from those that it reads at k: `ahead` k on, in
// this block or in the next. What lies ahead is what memory takes, some 100 ns, at the speed of the kernel, and as much
// again.
template <int Bits>
QMM_INLINE int64_t distance_ahead(const Block& b, int64_t k, int64_t ahead) {
  constexpr int64_t size = kPanel * Bits / 8;  // bytes of one k
  return k + ahead < b.k ? ahead * size : distance(b.codes, b.next_codes) + (ahead - b.k) * size;
}

// The codes of P panels side by side, as a kernel of few rows goes through them.
template <int Bits, int P>
struct PanelCodes {
  static constexpr int64_t kSize = kPanel * Bits / 8;  // bytes of one k
  const uint8_t* at[P];
  QMM_INLINE PanelCodes(const Block& b, int64_t panel, int64_t k) {
    const uint8_t* base = opaque(b.codes + panel * b.panel_stride + k * kSize);
    unroll<P>([&](auto p) QMM_FLAT { at[p] = opaque(base + p * b.panel_stride); });
  }
  // In step S of so many, prefetches so many k of some of the panels: one after another, so that one address is enough.
  template <int K, int S, int Steps>
  QMM_INLINE void prefetch_some(int64_t ahead) const {
    unroll<P>([&](auto p) QMM_FLAT {
      if constexpr (p * Steps / P == S) {
        const auto next = opaque(reinterpret_cast<uintptr_t>(at[p]) + static_cast<uintptr_t>(ahead));
        unroll<K * kSize / kLine>([&](auto line)
                                      QMM_FLAT { prefetch(reinterpret_cast<const uint8_t*>(next), line * kLine); });
      }
    });
  }
  QMM_INLINE void advance(int64_t k) {
    unroll<P>([&](auto p) QMM_FLAT { at[p] = opaque(at[p] + k * kSize); });
  }
};

// Prefetches what stands in the place of a group's sides in the next block.
QMM_INLINE void prefetch_sides(const Block& b, int64_t group, int64_t panel) {
  prefetch(b.next_scales, panel * b.panel_stride + group * scales_size(b.scale));
  if (b.offset != Offset::Symmetric)
    prefetch(b.next_offsets, panel * b.panel_stride + group * offsets_size(b.scale, b.offset));
}

}  // namespace
}  // namespace qmm
