// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the NEON kernels share, with or without dot products: scales and offsets (widened once a block, or where they
// are used), codes as bytes, and the begin and the end of a group.
#pragma once

#include <arm_neon.h>

#include "../walk.h"

namespace qmm::neon {
namespace {

// Loads and stores go through bytes, since packed weights may lie at any address.
QMM_INLINE uint8x16_t load(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
QMM_INLINE int8x16_t load_s8(const void* p) { return vld1q_s8(static_cast<const int8_t*>(p)); }

// Loads here, not where a compiler would: it keeps what it loaded in registers over many steps, and spills or copies.
QMM_INLINE uint8x16_t load_now(const void* p) {
  typedef uint8x16_t Bytes __attribute__((aligned(1), may_alias));
  uint8x16_t v;
  asm volatile("ldr %q0, %1" : "=w"(v) : "m"(*static_cast<const Bytes*>(p)));
  return v;
}

// A vector as it is, of which the compiler does not know how it was made: it would spread an element that many FMLA
// multiply by to all lanes first, which FMLA does by itself.
QMM_INLINE float32x4_t opaque_vector(float32x4_t v) {
  asm("" : "+w"(v));
  return v;
}

// A zero of its own: compilers make one, and copy it, which takes a pipe where this takes none.
QMM_INLINE int32x4_t zero_now() {
  int32x4_t v;
  asm volatile("movi %0.4s, #0" : "=w"(v));
  return v;
}

// Four scales or mins.
QMM_INLINE float32x4_t widen(Scale type, const uint8_t* values, int64_t i) {
  if (type == Scale::F32) return vreinterpretq_f32_u8(load(values + i * 4));
  const uint16x4_t h = vreinterpret_u16_u8(vld1_u8(values + i * 2));
  return type == Scale::F16 ? vcvt_f32_f16(vreinterpret_f16_u16(h)) : vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}

// Four zeros.
QMM_INLINE int32x4_t widen_zero(const uint8_t* values) {
  int32_t four;
  std::memcpy(&four, values, 4);
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)))));
}

// The scales, zeros and mins of a panel of a block, widened for all its rows: [groups][16] each. Zeros are there for a
// format that has them, mins too.
struct Sides {
  float* scales;
  int32_t* zeros;
  float* mins;
  QMM_INLINE float32x4_t scale(int64_t at) const { return vld1q_f32(scales + at); }
  QMM_INLINE int32x4_t zero(int64_t at) const { return vld1q_s32(zeros + at); }
  QMM_INLINE float32x4_t min(int64_t at) const { return vld1q_f32(mins + at); }
  QMM_INLINE Sides of_group(int64_t g) const { return {scales + g * kPanel, zeros + g * kPanel, mins + g * kPanel}; }
};

// Floats of the sides of a panel.
constexpr int64_t sides_count(const Tile& t) { return t.block_k / 8 * kPanel * 2; }

QMM_INLINE Sides widen_sides(const Block& b, int64_t panel, float* to) {
  const int64_t count = (b.k + b.group - 1) / b.group * kPanel;
  const Sides sides{to, reinterpret_cast<int32_t*>(to + count), to + count};
  const uint8_t* scales = b.scales + panel * b.panel_stride;
  const uint8_t* offsets = b.offsets + panel * b.panel_stride;
  for (int64_t i = 0; i < count; i += 4) {
    vst1q_f32(sides.scales + i, widen(b.scale, scales, i));
    if (b.offset == Offset::Zeros) vst1q_s32(sides.zeros + i, widen_zero(offsets + i));
    if (b.offset == Offset::Mins) vst1q_f32(sides.mins + i, widen(b.scale, offsets, i));
  }
  return sides;
}

// The same of a group of one panel, widened where they are used.
struct PackedSides : SidesAt {
  QMM_INLINE float32x4_t scale(int64_t at) const { return widen(type, scales, at); }
  QMM_INLINE int32x4_t zero(int64_t at) const { return widen_zero(offsets + at); }
  QMM_INLINE float32x4_t min(int64_t at) const { return widen(type, offsets, at); }
};

QMM_INLINE PackedSides packed_sides(const Block& b, int64_t group, int64_t panel) {
  return {sides_at(b, group, panel)};
}

// Calls end(p, sides) for the sides of a group of P panels side by side, and prefetches what stands in their place in
// the next block. Their type is asked once for all.
template <Offset O, int P, class End>
QMM_INLINE void for_sides(const Block& b, int64_t group, int64_t panel, End end) {
  const auto run = [&](Scale type) QMM_FLAT {
    PackedSides sides{sides_at(b, type, O, group, panel)};
    unroll<P>([&](auto p) QMM_FLAT {
      sides.scales = opaque(sides.scales), sides.offsets = opaque(sides.offsets);
      end(p, sides);
      prefetch(sides.scales, distance(b.scales, b.next_scales));
      if constexpr (O != Offset::Symmetric) prefetch(sides.offsets, distance(b.offsets, b.next_offsets));
      sides.scales += b.panel_stride, sides.offsets += b.panel_stride;
    });
  };
  switch (b.scale) {
    case Scale::F16: return run(Scale::F16);
    case Scale::BF16: return run(Scale::BF16);
    case Scale::F32: return run(Scale::F32);
  }
}

// Codes as a kernel multiplies them: the nibbles of the panels; bytes of 4-bit codes less their zero, -16 .. 15; and
// the bytes of 8-bit codes.
enum class Codes { Nibbles, Small, Bytes };
constexpr int64_t line_k(Codes c) { return c == Codes::Nibbles ? 8 : 4; }

// Eight k of four columns: k .. k + 3 and k + 4 .. k + 7, four in the lane of their column.
struct EightK {
  int8x16_t low, high;
};
template <Codes C>
QMM_INLINE EightK load_codes(const uint8_t* codes) {
  if constexpr (C == Codes::Nibbles) {
    const uint8x16_t line = load(codes);
    return {vreinterpretq_s8_u8(vandq_u8(line, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8(line, 4))};
  } else {
    return {load_s8(codes), load_s8(codes + kLine)};
  }
}

// Calls keep(k, v, codes) for eight k of columns 4 * v .. 4 * v + 3 of a panel, all of them, with 4-bit codes less
// their zeros; and prefetches what comes next.
template <int Bits, class Keep>
QMM_INLINE void unpack(const Block& b, int64_t panel, Keep keep) {
  const uint8_t* codes = b.codes + panel * b.panel_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    int8x16_t zero[4];
    unroll<4>([&](auto v) QMM_FLAT {
      zero[v] = vdupq_n_s8(b.offset == Offset::Symmetric ? symmetric_zero(Bits) : 0);
      if (Bits == 4 && b.offset == Offset::Zeros) {
        // Four zeros, each of them four times.
        int32_t four;
        std::memcpy(&four, b.offsets + panel * b.panel_stride + g.index * kPanel + v * 4, 4);
        const int8x16_t all = vreinterpretq_s8_s32(vdupq_n_s32(four)), twice = vzip1q_s8(all, all);
        zero[v] = vreinterpretq_s8_s16(vzip1q_s16(vreinterpretq_s16_s8(twice), vreinterpretq_s16_s8(twice)));
      }
    });
    for (int64_t k = g.begin; k < g.end; k += 8) {
      for (int64_t i = 0; i < 2 * Bits * 8; i += kLine)
        prefetch(b.next_codes, panel * b.panel_stride + k * 2 * Bits + i);
      unroll<4>([&](auto v) QMM_FLAT {
        EightK w = load_codes < Bits == 4 ? Codes::Nibbles : Codes::Bytes > (codes + k * 2 * Bits + v * 16);
        if constexpr (Bits == 4) w = {vsubq_s8(w.low, zero[v]), vsubq_s8(w.high, zero[v])};
        keep(k, v, w);
      });
    }
    prefetch_sides(b, g.index, panel);
  });
}

// What R rows bring to a group, S8.
template <int R>
struct RowTerms {
  float scales[R];
  int32_t sums[R];
};
template <int R>
QMM_INLINE RowTerms<R> row_terms(const Block& b, const Group& g, int64_t row) {
  RowTerms<R> terms;
  unroll<R>([&](auto i) QMM_FLAT {
    const int64_t at = (row + i) * b.lhs_group_stride + g.index;
    terms.scales[i] = b.lhs_scales[at];
    terms.sums[i] = static_cast<const int32_t*>(b.lhs_sums)[at];
  });
  return terms;
}

// Begins a group for R rows of a panel, S8: from carry, where rows are `stride` apart, or with what the zeros take
// away.
template <Offset O, int Zero, int R, class AnySides>
QMM_INLINE void begin_s8(const Group& g, const RowTerms<R>& rows, const AnySides& sides, const int32_t* carry,
                         int64_t stride, int32x4_t (&d)[R][4]) {
  unroll<4 * R>([&](auto j) QMM_FLAT {
    constexpr int i = j / 4, v = j % 4;
    if (g.resume)
      d[i][v] = vld1q_s32(carry + i * stride + v * 4);
    else if constexpr (O == Offset::Zeros)
      d[i][v] = vmulq_n_s32(sides.zero(v * 4), -rows.sums[i]);
    else if constexpr (O == Offset::Symmetric && Zero != 0)
      d[i][v] = vdupq_n_s32(-Zero * rows.sums[i]);
    else
      d[i][v] = zero_now();
  });
}

// Ends it: acc = fma(float(d) * lhs_scale, scale, acc), then mins; or leaves d in carry.
template <Offset O, int R, class AnySides>
QMM_INLINE void end_s8(const RowTerms<R>& rows, const AnySides& sides, float* acc, int64_t stride,
                       const int32x4_t (&d)[R][4]) {
  unroll<4>([&](auto v) QMM_FLAT {
    const float32x4_t scale = sides.scale(v * 4);
    unroll<R>([&](auto i) QMM_FLAT {
      float* at = acc + i * stride + v * 4;
      const float32x4_t u = vmulq_n_f32(vcvtq_f32_s32(d[i][v]), rows.scales[i]);
      float32x4_t y = vfmaq_f32(vld1q_f32(at), u, scale);
      if constexpr (O == Offset::Mins)
        y = vfmaq_n_f32(y, sides.min(v * 4), static_cast<float>(rows.sums[i]) * rows.scales[i]);
      vst1q_f32(at, y);
    });
  });
}
template <int R>
QMM_INLINE void suspend_s8(int32_t* carry, int64_t stride, const int32x4_t (&d)[R][4]) {
  unroll<4 * R>([&](auto j) QMM_FLAT { vst1q_s32(carry + j / 4 * stride + j % 4 * 4, d[j / 4][j % 4]); });
}

}  // namespace
}  // namespace qmm::neon
