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
// scales. Signed codes become unsigned, 128 more. Bytes of two codes are loaded twice, since decoding one destroys the
// lanes: a copy takes a vector pipe, which a load does not.
template <int Bits>
QMM_INLINE uint32x4_t load_lanes(const uint8_t* codes, int k) {
  const uint8_t* at = codes + (Bits == 8 ? k / 4 * kLine : 0) + k % 4;
  return vreinterpretq_u32_u8(Bits == 8 ? veorq_u8(load(at), vdupq_n_u8(0x80)) : load_now(at));
}

// Zeros of four columns of a panel; and what is to be subtracted for a code at a place.
template <int Bits>
QMM_INLINE float32x4_t zeros_f32(const Block& b, Offset offset, const Group& g, int64_t panel, int64_t column) {
  if (offset != Offset::Zeros)
    return vdupq_n_f32(offset == Offset::Symmetric ? static_cast<float>(symmetric_zero(Bits)) : 0.0f);
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

// Decodes a panel of a block, for all its rows: [k][16].
template <int Bits>
void unpack_f32(const Block& b, int64_t panel, float* to) {
  const uint8_t* codes = b.codes + panel * b.panel_stride;
  for_each_group(b, [&](const Group& g) {
    for (int c = 0; c < kPanel; c += 4) {
      const float32x4_t zero = zeros_f32<Bits>(b, b.offset, g, panel, c);
      for (int64_t k = g.begin; k < g.end; k += 8) {
        const int64_t line = k * 2 * Bits + c * 4;
        if (c == 0)
          for (int64_t i = 0; i < 16 * Bits; i += kLine) prefetch(b.next_codes, panel * b.panel_stride + line + i);
        unroll<8>([&](auto i) QMM_FLAT {
          constexpr int place = place_of<Bits>(i);
          vst1q_f32(to + (k + i) * kPanel + c,
                    decode<Bits>(load_lanes<Bits>(codes + line, i), place, bias<Bits>(zero, place)));
        });
      }
    }
    prefetch_sides(b, g.index, panel);
  });
}

// Ends a group for four columns: acc = fma(t, scale, acc), then mins, of which there is a sum of the row each.
template <class AnySides>
QMM_INLINE void end_f32(Offset offset, const AnySides& sides, int64_t column, const float* lhs_sum, float* acc,
                        float32x4_t t) {
  float32x4_t y = vfmaq_f32(vld1q_f32(acc), t, sides.scale(column));
  if (offset == Offset::Mins) y = vfmaq_n_f32(y, sides.min(column), *lhs_sum);
  vst1q_f32(acc, y);
}

}  // namespace
}  // namespace qmm::neon
