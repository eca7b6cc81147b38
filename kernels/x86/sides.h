// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the tiles of AVX2 and AVX-512 share: pointers to rows; scales and offsets, widened once a block or where they
// are used; which tiles few rows are cut into; the sums that go on from block to block, and a group's end.
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
      first[i] = opaque(first[i] + k);  // or else the compiler keeps a pointer to every row
    });
  }
};

// A pointer to each row: of a sum of pointer and stride the compiler keeps one for each k of a step.
template <int R>
struct LhsRows {
  const int8_t* at[R];
  QMM_INLINE LhsRows(const int8_t* a, int64_t stride) {
    unroll<R>([&](auto i) QMM_FLAT { at[i] = opaque(a + i * stride); });
  }
  QMM_INLINE const int8_t* operator[](int i) const { return at[i]; }
  QMM_INLINE void advance(int64_t k) {
    unroll<R>([&](auto i) QMM_FLAT { at[i] = opaque(at[i] + k); });
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

// The sides of a group of P panels side by side, of a type that the compiler knows: widened where they are used.
template <Scale Type, int P>
struct TypedSides {
  const uint8_t* scales[P];
  const uint8_t* offsets[P];
  QMM_INLINE Float scale(int64_t at) const { return widen(Type, scales[at / kPanel], at % kPanel); }
  QMM_INLINE Int zero(int64_t at) const { return split_zero(widen_zero(offsets[at / kPanel] + at % kPanel)); }
  QMM_INLINE Float min(int64_t at) const { return widen(Type, offsets[at / kPanel], at % kPanel); }
};

// The same in registers, for several rows.
template <Offset O, int P>
struct LoadedSides {
  Float scales[P * kVectors], mins[P * kVectors];
  Int zeros[P * kVectors];
  template <Scale Type>
  QMM_INLINE explicit LoadedSides(const TypedSides<Type, P>& sides) {
    unroll<P * kVectors>([&](auto v) QMM_FLAT {
      scales[v] = sides.scale(v * kColumns);
      if constexpr (O == Offset::Mins) mins[v] = sides.min(v * kColumns);
      if constexpr (O == Offset::Zeros) zeros[v] = sides.zero(v * kColumns);
    });
  }
  QMM_INLINE Float scale(int64_t at) const { return scales[at / kColumns]; }
  QMM_INLINE Int zero(int64_t at) const { return zeros[at / kColumns]; }
  QMM_INLINE Float min(int64_t at) const { return mins[at / kColumns]; }
};

// Calls use(the TypedSides of a group of P panels), and prefetches what stands in their place in the next block. Their
// type is asked once for all of them.
template <Offset O, int P, class Use>
QMM_INLINE void with_sides(const Block& b, int64_t group, int64_t panel, Use use) {
  const auto with = [&]<Scale Type>() QMM_FLAT {
    TypedSides<Type, P> sides;
    SidesAt at = sides_at(b, Type, O, group, panel);
    unroll<P>([&](auto p) QMM_FLAT {
      sides.scales[p] = at.scales = opaque(at.scales);
      prefetch(at.scales, distance(b.scales, b.next_scales));
      at.scales += b.panel_stride;
      if constexpr (O != Offset::Symmetric) {
        sides.offsets[p] = at.offsets = opaque(at.offsets);
        prefetch(at.offsets, distance(b.offsets, b.next_offsets));
        at.offsets += b.panel_stride;
      }
    });
    use(sides);
  };
  switch (b.scale) {
    case Scale::F16: return with.template operator()<Scale::F16>();
    case Scale::BF16: return with.template operator()<Scale::BF16>();
    case Scale::F32: return with.template operator()<Scale::F32>();
  }
}

// Calls add(row, sides) for R rows of a tile of P panels, with the sides of a group: loaded for all of them, where they
// fit beside the sums.
template <Offset O, int P, int R, class Add>
QMM_INLINE void for_rows_with_sides(const Block& b, int64_t group, int64_t panel, Add add) {
  with_sides<O, P>(b, group, panel, [&](const auto& sides) QMM_FLAT {
    constexpr int V = P * kVectors, kSides = O == Offset::Symmetric ? V : 2 * V, kTemporaries = 5;
    if constexpr (R > 1 && R * V + kSides + kTemporaries <= kRegisters) {
      const LoadedSides<O, P> loaded(sides);
      unroll<R>([&](auto i) QMM_FLAT { add(i, loaded); });
    } else {
      unroll<R>([&](auto i) QMM_FLAT { add(i, sides); });
    }
  });
}

// Kernels for few rows are as wide as that. They take so many panels in a step as there are registers for their sums.
constexpr int kMostPanels = 4;

// Calls run<R, P>(row, first panel) for tiles of up to T.mr rows, and P panels of which kSums vectors hold the sums.
template <Tile T, int kSums, class Run>
QMM_INLINE void for_few_rows(const Block& b, Run run) {
  static_assert(T.nr == kMostPanels * kPanel);
  for_each_tile<T.mr>(b.rows, [&]<int R>(int64_t row) {
    constexpr int kMost = kSums / (R * kVectors), P = kMost < kMostPanels ? kMost : kMostPanels;
    if (b.panels >= P) run.template operator()<R, P>(row, 0);
    if (b.panels % P != 0) run.template operator()<R, 1>(row, b.panels / P * P);
  });
}

// Calls body(panel) for the panels from `first` on, P at a time.
template <int P, class Body>
QMM_INLINE void for_panels(const Block& b, int64_t first, Body body) {
  if constexpr (P == kMostPanels)  // all that there are: no loop, for which the compiler would prepare
    body(int64_t(0));
  else
    for (int64_t panel = first; panel + P <= b.panels; panel = opaque(panel + P)) body(panel);
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
QMM_INLINE void add_row_s8(const AnySides& sides, int64_t side, Int lhs_sum, Float lhs_scale, float* acc,
                           const Int (&sums)[V]) {
  const Int eight = shift_left<3>(lhs_sum), split = split_sums(lhs_sum);
  const Float lhs_min = mul_f32(to_float(lhs_sum), lhs_scale);
  unroll<V>([&](auto v) QMM_FLAT {
    Int sum = sums[v];
    if constexpr (O == Offset::Symmetric && Bits == 4) sum = sub(sum, eight);
    if constexpr (O == Offset::Zeros) sum = sub(sum, multiply_s16(sides.zero(side + v * kColumns), split));
    add_sum<O>(sides, side + v * kColumns, sum, lhs_scale, lhs_min, acc + v * kColumns);
  });
}

// Adds to the sums of R rows and P panels what carry has of a group that goes on, and leaves them there where it goes
// on further: returns whether it does.
template <int P, int R>
QMM_INLINE bool carry_rows(const Block& b, const Group& g, int64_t row, int64_t panel, Int (&sums)[R][P * kVectors]) {
  constexpr int V = P * kVectors;
  const int64_t width = b.panels * kPanel;
  auto* carry = static_cast<int32_t*>(b.carry) + row * width + panel * kPanel;
  if (g.resume)
    unroll<R * V>([&](auto i) QMM_FLAT { add32(sums[i / V][i % V], load(carry + i / V * width + i % V * kColumns)); });
  if (g.suspend)
    unroll<R * V>([&](auto i) QMM_FLAT { store(carry + i / V * width + i % V * kColumns, sums[i / V][i % V]); });
  return g.suspend;
}

// Goes through the rows of a tile, from `row` on, at the end of a group, S8.
struct EndOfRows {
  const int32_t* lhs_sum;
  const float* lhs_scale;
  float* acc;  // of the tile's first panel
  int64_t lhs_group_stride, width;
  QMM_INLINE EndOfRows(const Block& b, int64_t group, int64_t row, int64_t panel)
      : lhs_sum(static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride + group),
        lhs_scale(b.lhs_scales + row * b.lhs_group_stride + group),
        acc(b.acc + (row * b.panels + panel) * kPanel),
        lhs_group_stride(b.lhs_group_stride),
        width(b.panels * kPanel) {}
  // Calls use(sum of the lhs, its scale, acc) for the next row.
  template <class Use>
  QMM_INLINE void next(Use use) {
    acc = opaque(acc), lhs_scale = opaque(lhs_scale);  // not the sum, which not all need
    use(broadcast4(lhs_sum), broadcast_f32(lhs_scale), acc);
    acc += width, lhs_sum += lhs_group_stride, lhs_scale += lhs_group_stride;
  }
  template <int Bits, Offset O, int V, class AnySides>
  QMM_INLINE void add(const AnySides& sides, int64_t side, const Int (&sums)[V]) {
    next([&](Int sum, Float scale, float* to) QMM_FLAT { add_row_s8<Bits, O>(sides, side, sum, scale, to, sums); });
  }
};

// Begins a group for a vector of columns, F32.
QMM_INLINE Float begin_f32(const Block& b, const Group& g, int64_t at) {
  return g.resume ? load_f32(static_cast<const float*>(b.carry) + at) : zero_f32();
}

// Zeros of a vector of columns of a panel, F32.
template <int Bits>
QMM_INLINE Float zeros_f32(const Block& b, Offset offset, const Group& g, int64_t panel, int64_t column) {
  if (offset != Offset::Zeros)
    return set1_f32(offset == Offset::Symmetric ? static_cast<float>(symmetric_zero(Bits)) : 0.0f);
  return to_float(widen_zero(b.offsets + panel * b.panel_stride + g.index * kPanel + column));
}

// Ends it: acc = fma(t, scale, acc), then mins; or leaves t in carry.
template <class AnySides>
QMM_INLINE void end_f32(const Block& b, Offset offset, const Group& g, const AnySides& sides, int64_t row, int64_t side,
                        int64_t at, Float t) {
  if (g.suspend) return store_f32(static_cast<float*>(b.carry) + at, t);
  Float acc = fma_f32(t, sides.scale(side), load_f32(b.acc + at));
  if (offset == Offset::Mins)
    acc = fma_f32(set1_f32(static_cast<const float*>(b.lhs_sums)[row * b.lhs_group_stride + g.index]), sides.min(side),
                  acc);
  store_f32(b.acc + at, acc);
}

}  // namespace
}  // namespace qmm::isa
