// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the kernels on vpdpbusd share. It multiplies unsigned codes by a signed lhs and sums four products in a 32-bit
// lane, exactly: with u4 as it is, and with s8 as code + 128, which makes every zero point 128 more. vpdpbssd takes s8
// as it is.
//
// I = sum of a * code - zero * sum of a. A group's sums start at the second term where all columns have the same zero,
// so that its end has nothing to do for it; other zeros are multiplied as two halves of int16, which is exact.
#pragma once

#include "sides.h"

namespace qmm::isa {
namespace {

enum class Codes { U4, S8, S8Signed };  // S8Signed: for vpdpbssd
template <Codes C>
constexpr int kBits = C == Codes::U4 ? 4 : 8;

template <Codes C>
QMM_INLINE void multiply(Int& sum, Int codes, Int a) {
#if defined(__AVXVNNI__)
  if constexpr (C == Codes::S8Signed) return dot_signed(sum, codes, a);
#else
  static_assert(C != Codes::S8Signed);
#endif
  dot(sum, codes, a);
}

// A vector of a line of s8 codes, as the operand.
template <Codes C>
QMM_INLINE Int operand(const uint8_t* line) {
  return C == Codes::S8 ? load_unsigned(line) : load(line);
}

// What a group's sums start with: zero * -sum of a, for the zero that all columns have.
template <Codes C>
QMM_INLINE Int start_of(Offset offset, Int lhs_sum) {
  static_assert(symmetric_zero(4) == 8 && symmetric_zero(8) == 0);
  if constexpr (C == Codes::S8) return sub(zero(), shift_left<7>(lhs_sum));
  if constexpr (C == Codes::S8Signed) return zero();
  return offset == Offset::Symmetric ? sub(zero(), shift_left<3>(lhs_sum)) : zero();
}

// What a row of the lhs brings to the end of a group, in every lane: its scale and, where the columns have zeros or
// mins, the factors of those.
struct RowTerms {
  Float scale;
  Int split;  // -sum of a, split
  Float min;  // float(sum of a) * scale
};

QMM_INLINE RowTerms row_terms(Int lhs_sum, Float lhs_scale) {
  return {lhs_scale, split_sums(sub(zero(), lhs_sum)), mul_f32(to_float(lhs_sum), lhs_scale)};
}

// Ends a group for a row of V vectors.
template <Offset O, int V, class AnySides>
QMM_INLINE void add_row_dot(const AnySides& sides, int64_t side, const RowTerms& row, float* acc, Int (&sums)[V]) {
  unroll<V>([&](auto v) QMM_FLAT {
    if constexpr (O == Offset::Zeros) add_products_s16(sums[v], sides.zero(side + v * kColumns), row.split);
    add_sum<O>(sides, side + v * kColumns, sums[v], row.scale, row.min, acc + v * kColumns);
  });
}

}  // namespace
}  // namespace qmm::isa
