// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Codes of four columns to float(code - zero): a column's k lie in one 32-bit lane, and a load that begins k bytes
// later has those of the k in its low byte. There a code is left, at bit 0 or 4, among the fraction of a float whose
// exponent gives that bit the weight 1: it then is 2^(23-bit) + code, exactly, and 2^(23-bit) + zero is subtracted.
#pragma once

#include "neon.h"

namespace qmm::neon {
namespace {

// Places of a code in a byte, and which one k of eight has.
template <int Bits>
constexpr int kPlaces = 8 / Bits;
template <int Bits>
constexpr int place_of(int k) {
  return Bits == 4 ? k / 4 : 0;
}

// The lanes of four columns for k of eight, from their 16 bytes. The last loads end 3 bytes past the codes, among the
// scales. Signed codes become unsigned, 128 more.
template <int Bits>
QMM_INLINE uint32x4_t load_lanes(const uint8_t* codes, int k) {
  uint8x16_t bytes = load(codes + (Bits == 8 ? k / 4 * kLine : 0) + k % 4);
  if constexpr (Bits == 8) bytes = veorq_u8(bytes, vdupq_n_u8(0x80));
  return vreinterpretq_u32_u8(bytes);
}

// Zeros of four columns of a panel; and what is to be subtracted for a code at a place.
template <int Bits>
QMM_INLINE float32x4_t zeros_f32(const Block& b, const Group& g, int64_t panel, int64_t column) {
  if (b.offset != Offset::Zeros)
    return vdupq_n_f32(b.offset == Offset::Symmetric ? static_cast<float>(symmetric_zero(Bits)) : 0.0f);
  return vcvtq_f32_s32(widen_zero(b.offsets + panel * b.panel_stride + g.index * kPanel + column));
}
template <int Bits>
QMM_INLINE float32x4_t bias(float32x4_t zero, int place) {
  return vaddq_f32(zero, vdupq_n_f32(static_cast<float>((1 << (23 - 4 * place)) + (Bits == 8 ? 128 : 0))));
}

// Decodes the codes at a place of four columns' lanes.
template <int Bits>
QMM_INLINE float32x4_t decode(uint32x4_t lanes, int place, float32x4_t bias) {
  const uint32x4_t mask = vdupq_n_u32(((1u << Bits) - 1) << (4 * place));
  const uint32x4_t exponent = vdupq_n_u32(static_cast<uint32_t>(127 + 23 - 4 * place) << 23);
  return vsubq_f32(vreinterpretq_f32_u32(vbslq_u32(mask, lanes, exponent)), bias);
}

// Begins a group for four columns.
QMM_INLINE float32x4_t begin_f32(const Block& b, const Group& g, int64_t at) {
  return g.resume ? vld1q_f32(static_cast<const float*>(b.carry) + at) : vdupq_n_f32(0);
}

// Ends it: acc = fma(t, scale, acc), then mins; or leaves t in carry.
template <class AnySides>
QMM_INLINE void end_f32(const Block& b, const Group& g, const AnySides& sides, int64_t row, int64_t side, int64_t at,
                        float32x4_t t) {
  if (g.suspend) return vst1q_f32(static_cast<float*>(b.carry) + at, t);
  float32x4_t acc = vfmaq_f32(vld1q_f32(b.acc + at), t, sides.scale(side));
  if (b.offset == Offset::Mins)
    acc = vfmaq_n_f32(acc, sides.min(side), static_cast<const float*>(b.lhs_sums)[row * b.lhs_group_stride + g.index]);
  vst1q_f32(b.acc + at, acc);
}

}  // namespace
}  // namespace qmm::neon
