// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the SVE kernels share. They run on vectors of any length, and use as much of one as a line has, 64 bytes: a
// panel is cut into chunks of 4, 8 or 16 columns, and a predicate leaves out the rest of a longer vector.
#pragma once

#include <arm_sve.h>

#include "../neon/neon.h"

namespace qmm::sve {
namespace {

using neon::Codes;
using neon::line_k;

// Vectors without a size can not lie in arrays: they travel as parameter packs instead.

// Calls body(x0, x1, ...) with N vectors, which make(i) makes.
template <int N, class Make, class Body, class... Made>
QMM_INLINE void with_vectors(Make make, Body body, Made&... made) {
  if constexpr (sizeof...(Made) == N) {
    body(made...);
  } else {
    auto next = make(Constant<int(sizeof...(Made))>());
    with_vectors<N>(make, body, made..., next);
  }
}

// The vector I of a pack.
template <int I, class First, class... Rest>
QMM_INLINE auto& pick(First& first, Rest&... rest) {
  if constexpr (I == 0)
    return first;
  else
    return pick<I - 1>(rest...);
}

// Calls body(i, x) for each vector of a pack, i being a constant.
template <class Body, class... X>
QMM_INLINE void for_each_vector(Body body, X&... x) {
  [&]<int... I>(std::integer_sequence<int, I...>)
      QMM_FLAT { (body(Constant<I>(), x), ...); }(std::make_integer_sequence<int, sizeof...(X)>());
}

// Calls tile<R>(row) for rows from `row` on, R = Most at a time, and then half as many.
template <int Most, class Tile>
QMM_INLINE void for_each_halving(int64_t rows, int64_t row, Tile tile) {
  for (; row + Most <= rows; row += Most) tile.template operator()<Most>(row);
  if constexpr (Most > 1) for_each_halving<Most / 2>(rows, row, tile);
}

// A zero of its own, as in neon.h.
QMM_INLINE svint32_t zero_now() {
  svint32_t v;
  asm volatile("movi %d0, #0" : "=w"(v));
  return v;
}

// In one of the registers z0 .. z7, where SDOT by an element wants it: GCC copies it there for each of them.
QMM_INLINE svint8_t keep_low(svint8_t v) {
  asm("" : "+y"(v));
  return v;
}

// How panels are cut: into 1, 2 or 4 chunks each.
struct Cut {
  int64_t length = static_cast<int64_t>(svcntb());                // of a vector, in bytes
  int shift = length >= kLine ? 0 : length >= kLine / 2 ? 1 : 2;  // 2^shift chunks a panel

  QMM_INLINE svbool_t bytes() const { return svwhilelt_b8_s64(0, kLine >> shift); }
  QMM_INLINE svbool_t words() const { return svwhilelt_b32_s64(0, kPanel >> shift); }
  QMM_INLINE int64_t chunks(int64_t panels) const { return panels << shift; }
  QMM_INLINE int64_t panel(int64_t chunk) const { return chunk >> shift; }
  QMM_INLINE int64_t column(int64_t chunk) const { return (chunk & ((1 << shift) - 1)) * (kPanel >> shift); }
};

// Where V chunks from `first` on lie: in the panels, and of a row in acc and carry.
template <int V>
struct Places {
  int64_t panel[V], column[V], at[V];
  QMM_INLINE Places(const Block& b, Cut cut, int64_t row, int64_t first) {
    unroll<V>([&](auto v) QMM_FLAT {
      panel[v] = cut.panel(first + v);
      column[v] = cut.column(first + v);
      at[v] = (row * b.panels + panel[v]) * kPanel + column[v];
    });
  }
};

// The scales, zeros and mins of a panel, widened before, [groups][16] ...
struct WideSides {
  neon::Sides sides;
  QMM_INLINE svfloat32_t scale(svbool_t in, int64_t at) const { return svld1_f32(in, sides.scales + at); }
  QMM_INLINE svint32_t zero(svbool_t in, int64_t at) const { return svld1_s32(in, sides.zeros + at); }
  QMM_INLINE svfloat32_t min(svbool_t in, int64_t at) const { return svld1_f32(in, sides.mins + at); }
};

// ... or widened where they are used.
QMM_INLINE svfloat32_t widen(svbool_t in, Scale type, const uint8_t* values, int64_t at) {
  if (type == Scale::F32) return svld1_f32(in, reinterpret_cast<const float*>(values) + at);
  const svuint32_t h = svld1uh_u32(in, reinterpret_cast<const uint16_t*>(values) + at);
  return type == Scale::F16 ? svcvt_f32_f16_x(in, svreinterpret_f16_u32(h))
                            : svreinterpret_f32_u32(svlsl_n_u32_x(in, h, 16));
}
struct PackedSides : SidesAt {
  QMM_INLINE svfloat32_t scale(svbool_t in, int64_t at) const { return widen(in, type, scales, at); }
  QMM_INLINE svint32_t zero(svbool_t in, int64_t at) const {
    return svld1sb_s32(in, reinterpret_cast<const int8_t*>(offsets) + at);
  }
  QMM_INLINE svfloat32_t min(svbool_t in, int64_t at) const { return widen(in, type, offsets, at); }
};

// Ends a group for a row of a chunk, S8: acc = fma(float(sum) * lhs_scale, scale, acc), then mins.
template <Offset O, class AnySides>
QMM_INLINE void add_s8(svbool_t words, const AnySides& sides, int64_t column, svfloat32_t scale, svint32_t sum,
                       float lhs_scale, int32_t lhs_sum, float* acc) {
  const svfloat32_t u = svmul_n_f32_x(words, svcvt_f32_s32_x(words, sum), lhs_scale);
  svfloat32_t y = svmla_f32_x(words, svld1_f32(words, acc), u, scale);
  if constexpr (O == Offset::Mins)
    y = svmla_n_f32_x(words, y, sides.min(words, column), static_cast<float>(lhs_sum) * lhs_scale);
  svst1_f32(words, acc, y);
}

}  // namespace
}  // namespace qmm::sve
