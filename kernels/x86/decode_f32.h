// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Codes of a vector of columns to float(code - zero): a column's k lie in one 32-bit lane. Instead of a shift and a
// conversion, a code is left where it is, at bit p, among the fraction of a float whose exponent gives that bit the
// weight 1: it then is 2^(23-p) + code, exactly, and 2^(23-p) + zero is subtracted.
#pragma once

#include "sides.h"

namespace qmm::isa {
namespace {

// The k of the columns' lanes come in quarters of two: k + 2 * quarter and the next lie eight bits apart, and the
// first of them at this bit.
template <int Bits>
constexpr int first_bit(int quarter) {
  return Bits == 4 ? quarter / 2 * 4 : 0;
}
// Codes lie at multiples of so many bits, below 16.
template <int Bits>
constexpr int kStep = Bits == 4 ? 4 : 8;

// The lanes of a quarter; `line` points to the columns' bytes at k. Signed codes become unsigned, 128 more.
template <int Bits>
QMM_INLINE Int load_quarter(const uint8_t* line, int quarter) {
  const Int lanes = Bits == 8 ? load_unsigned(line + quarter / 2 * kLine) : load(line);
  return quarter % 2 == 0 ? lanes : shift_right<16>(lanes);
}

// What is to be subtracted for a code at a bit.
template <int Bits>
QMM_INLINE Float bias(Float zero, int bit) {
  return add_f32(zero, set1_f32(static_cast<float>((1 << (23 - bit)) + (Bits == 8 ? 128 : 0))));
}

// For codes at each of these places: their mask, and the exponent.
template <int Bits>
struct Constants {
  static constexpr int kPlaces = 16 / kStep<Bits>;
  alignas(64) uint32_t mask[kPlaces][kColumns];
  alignas(64) uint32_t exponent[kPlaces][kColumns];
  constexpr Constants() : mask(), exponent() {
    for (int i = 0; i < kPlaces; ++i)
      for (int c = 0; c < kColumns; ++c) {
        mask[i][c] = ((1u << Bits) - 1) << (kStep<Bits> * i);
        exponent[i][c] = static_cast<uint32_t>(127 + 23 - kStep<Bits> * i) << 23;
      }
  }
};
template <int Bits>
constexpr Constants<Bits> kConstants;

// Decodes the codes at a bit of several columns' lanes.
template <int Bits>
struct Decoder {
  Int mask, exponent;
  QMM_INLINE explicit Decoder(int bit)
      : mask(load_now(kConstants<Bits>.mask[bit / kStep<Bits>])),
        exponent(load_now(kConstants<Bits>.exponent[bit / kStep<Bits>])) {}
  QMM_INLINE Float operator()(Int lanes, Float bias) const {
    return sub_f32(as_float(pick(lanes, mask, exponent)), bias);
  }
};

}  // namespace
}  // namespace qmm::isa
