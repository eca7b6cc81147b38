// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the tiles of AVX2 and AVX-512 share: pointers to rows, scales and offsets, widened once a block or where they
// are used, and a group's end.
#pragma once

#include "vectors.h"

namespace qmm::isa {
namespace {

// The first row of every three; the address of others is a sum of it and the stride, for which there are few registers.
template <int R, class T>
struct RowsOfThree {
  const T* first[(R + 2) / 3];
  int64_t stride;
  QMM_INLINE RowsOfThree(const T* a, int64_t stride) : stride(stride) {
    unroll<(R + 2) / 3>([&](auto i) QMM_FLAT { first[i] = a + 3 * i * stride; });
  }
  QMM_INLINE const T* operator[](int i) const { return first[i / 3] + i % 3 * stride; }
  QMM_INLINE void advance(int64_t k) {
    unroll<(R + 2) / 3>([&](auto i) QMM_FLAT {
      first[i] += k;
      asm("" : "+r"(first[i]));  // or else the compiler keeps a pointer to every row
    });
  }
};

// Bytes of the sides of a block.
constexpr int64_t sides_size(const Tile& t) { return t.block_k / 8 * t.nr * 2 * 4; }

// The scales, zeros and mins of a block, widened for all its rows: [groups][panels][16]. Zeros are split, and are there
// for an S8 lhs and a format that has them; mins where the format has them.
struct Sides {
  float* scales;
  int32_t* zeros;
  float* mins;
  QMM_INLINE Float scale(int64_t at) const { return load_f32(scales + at); }
  QMM_INLINE Int zero(int64_t at) const { return load(zeros + at); }
  QMM_INLINE Float min(int64_t at) const { return load_f32(mins + at); }
};

QMM_INLINE Sides widen_sides(const Block& b, Lhs lhs) {
  const int64_t groups = (b.k + b.group - 1) / b.group, count = groups * b.panels * kPanel;
  auto* scales = static_cast<float*>(b.scratch);
  const Sides sides{scales, reinterpret_cast<int32_t*>(scales + count), scales + count};
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t p = 0; p < b.panels; ++p)
      for (int64_t c = 0; c < kPanel; c += kColumns) {
        const int64_t from = g * kPanel + c, to = (g * b.panels + p) * kPanel + c;
        const uint8_t* offsets = b.offsets + p * b.panel_stride;
        store_f32(sides.scales + to, widen(b.scale, b.scales + p * b.panel_stride, from));
        if (b.offset == Offset::Zeros && lhs == Lhs::S8)
          store(sides.zeros + to, split_zero(widen_zero(offsets + from)));
        if (b.offset == Offset::Mins) store_f32(sides.mins + to, widen(b.scale, offsets, from));
      }
  return sides;
}

// The same of a group of one panel, widened where they are used.
struct PackedSides : SidesAt {
  QMM_INLINE Float scale(int64_t at) const { return widen(type, scales, at); }
  QMM_INLINE Int zero(int64_t at) const { return split_zero(widen_zero(offsets + at)); }
  QMM_INLINE Float min(int64_t at) const { return widen(type, offsets, at); }
};

// The sides of a group of P panels side by side, in registers, by the vectors of their columns.
template <int P>
struct LoadedSides {
  Float scales[P * kVectors], mins[P * kVectors];
  Int zeros[P * kVectors];
  QMM_INLINE Float scale(int64_t at) const { return scales[at / kColumns]; }
  QMM_INLINE Int zero(int64_t at) const { return zeros[at / kColumns]; }
  QMM_INLINE Float min(int64_t at) const { return mins[at / kColumns]; }
};

// Loads them, and prefetches what stands in their place in the next block. Their type is asked once for all.
template <Offset O, int P>
QMM_INLINE LoadedSides<P> load_sides(const Block& b, int64_t group, int64_t panel) {
  LoadedSides<P> sides;
  const auto load_all = [&]<Scale Type>() QMM_FLAT {
    SidesAt at = sides_at(b, Type, O, group, panel);
    unroll<P>([&](auto p) QMM_FLAT {
      at.scales = opaque(at.scales), at.offsets = opaque(at.offsets);
      unroll<kVectors>([&](auto v) QMM_FLAT {
        constexpr int i = p * kVectors + v;
        sides.scales[i] = widen(Type, at.scales, v * kColumns);
        if constexpr (O == Offset::Mins) sides.mins[i] = widen(Type, at.offsets, v * kColumns);
        if constexpr (O == Offset::Zeros) sides.zeros[i] = split_zero(widen_zero(at.offsets + v * kColumns));
      });
      prefetch(at.scales, distance(b.scales, b.next_scales));
      if constexpr (O != Offset::Symmetric) prefetch(at.offsets, distance(b.offsets, b.next_offsets));
      at.scales += b.panel_stride, at.offsets += b.panel_stride;
    });
  };
  switch (b.scale) {
    case Scale::F16: load_all.template operator()<Scale::F16>(); break;
    case Scale::BF16: load_all.template operator()<Scale::BF16>(); break;
    case Scale::F32: load_all.template operator()<Scale::F32>(); break;
  }
  return sides;
}

// The sides of a group of a panel.
QMM_INLINE PackedSides packed_sides(const Block& b, int64_t group, int64_t panel) {
  return {sides_at(b, group, panel)};
}

// acc = fma(float(sum) * lhs_scale, scale, acc), then mins, for a vector of columns; `side` is its place in the sides.
template <Offset O, class AnySides>
QMM_INLINE void add_sum(const AnySides& sides, int64_t side, Int sum, Float lhs_scale, Float lhs_min, float* acc) {
  const Float u = mul_f32(to_float(sum), lhs_scale);
  Float y = fma_f32(u, sides.scale(side), load_f32(acc));
  if constexpr (O == Offset::Mins) y = fma_f32(lhs_min, sides.min(side), y);
  store_f32(acc, y);
}

// The same for a row of V vectors, of sum - zero * lhs_sum.
template <int Bits, Offset O, int V, class AnySides>
QMM_INLINE void add_row_s8(const AnySides& sides, int64_t side, int32_t sum_of_lhs, float scale_of_lhs, float* acc,
                           const Int (&sums)[V]) {
  const Int lhs_sum = set1(sum_of_lhs);
  const Float lhs_scale = set1_f32(scale_of_lhs);
  const Int eight = shift_left<3>(lhs_sum), split = split_sums(lhs_sum);
  const Float lhs_min = mul_f32(to_float(lhs_sum), lhs_scale);
  unroll<V>([&](auto v) QMM_FLAT {
    Int sum = sums[v];
    if constexpr (O == Offset::Symmetric && Bits == 4) sum = sub(sum, eight);
    if constexpr (O == Offset::Zeros) sum = sub(sum, multiply_s16(sides.zero(side + v * kColumns), split));
    add_sum<O>(sides, side + v * kColumns, sum, lhs_scale, lhs_min, acc + v * kColumns);
  });
}

// Ends a group for a row, S8: adds it to acc, or leaves the sums in carry. `at` is the columns' place in both.
template <int Bits, Offset O, int V, class AnySides>
QMM_INLINE void end_row_s8(const Block& b, const Group& g, const AnySides& sides, int64_t row, int64_t side, int64_t at,
                           Int (&sums)[V]) {
  auto* carry = static_cast<int32_t*>(b.carry) + at;
  if (g.resume)
    for (int v = 0; v < V; ++v) sums[v] = add(sums[v], load(carry + v * kColumns));
  if (g.suspend) {
    for (int v = 0; v < V; ++v) store(carry + v * kColumns, sums[v]);
    return;
  }
  const int64_t lhs_group = row * b.lhs_group_stride + g.index;
  add_row_s8<Bits, O>(sides, side, static_cast<const int32_t*>(b.lhs_sums)[lhs_group], b.lhs_scales[lhs_group],
                      b.acc + at, sums);
}

// Begins a group for a vector of columns, F32.
QMM_INLINE Float begin_f32(const Block& b, const Group& g, int64_t at) {
  return g.resume ? load_f32(static_cast<const float*>(b.carry) + at) : zero_f32();
}

// Zeros of a vector of columns of a panel, F32.
template <int Bits>
QMM_INLINE Float zeros_f32(const Block& b, const Group& g, int64_t panel, int64_t column) {
  if (b.offset != Offset::Zeros)
    return set1_f32(b.offset == Offset::Symmetric ? static_cast<float>(symmetric_zero(Bits)) : 0.0f);
  return to_float(widen_zero(b.offsets + panel * b.panel_stride + g.index * kPanel + column));
}

// Ends it: acc = fma(t, scale, acc), then mins; or leaves t in carry.
template <class AnySides>
QMM_INLINE void end_f32(const Block& b, const Group& g, const AnySides& sides, int64_t row, int64_t side, int64_t at,
                        Float t) {
  if (g.suspend) return store_f32(static_cast<float*>(b.carry) + at, t);
  Float acc = fma_f32(t, sides.scale(side), load_f32(b.acc + at));
  if (b.offset == Offset::Mins)
    acc = fma_f32(set1_f32(static_cast<const float*>(b.lhs_sums)[row * b.lhs_group_stride + g.index]), sides.min(side),
                  acc);
  store_f32(b.acc + at, acc);
}

}  // namespace
}  // namespace qmm::isa
