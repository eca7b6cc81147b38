// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the AVX2 kernels share: sums that stay in registers, scales and offsets (widened once a block, or where they are
// used), and a group's end.
#pragma once

#include <immintrin.h>

#include "../walk.h"

namespace qmm::avx2 {
namespace {

QMM_INLINE __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
QMM_INLINE void store(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

// x += y in the register of x. What GCC makes of intrinsics adds to a copy and moves it back, eight moves a step, and
// moves the products of unrolled steps together until the sums spill.
QMM_INLINE void add16(__m256i& x, __m256i y) { asm("vpaddw %1, %0, %0" : "+x"(x) : "x"(y)); }
QMM_INLINE void add32(__m256i& x, __m256i y) { asm("vpaddd %1, %0, %0" : "+x"(x) : "x"(y)); }
// t = fma(a, b, t)
QMM_INLINE void add_product(__m256& t, __m256 a, __m256 b) { asm("vfmadd231ps %2, %1, %0" : "+x"(t) : "x"(a), "x"(b)); }

// Loads here, not where a compiler would: it keeps constants and lines in registers over many steps, and spills.
QMM_INLINE __m256i load_now(const void* p) {
  __m256i v;
  asm volatile("vmovdqu %1, %0" : "=x"(v) : "m"(*static_cast<const __m256i_u*>(p)));
  return v;
}

// Four bytes to every 32-bit lane.
QMM_INLINE __m256i broadcast4(const void* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

// Bytes to int16: of every two, the even and the odd one.
QMM_INLINE __m256i even(__m256i bytes) { return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8); }
QMM_INLINE __m256i odd(__m256i bytes) { return _mm256_srai_epi16(bytes, 8); }

// Eight scales or mins.
QMM_INLINE __m256 widen(Scale type, const uint8_t* values, int64_t i) {
  if (type == Scale::F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(values) + i);
  const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i * 2));
  return type == Scale::F16 ? _mm256_cvtph_ps(h) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

// A zero as two factors of vpmaddwd, zero and zero * 256, in a lane.
QMM_INLINE __m256i split_zero(__m256i zero) { return _mm256_blend_epi16(zero, _mm256_slli_epi32(zero, 24), 0xaa); }

// The factors that belong to it: sum & 255 and sum >> 8. |sum| is below 2^23, 127 * kMaxSegment.
QMM_INLINE __m256i split_sums(__m256i sums) {
  constexpr int8_t no = -1;
  return _mm256_shuffle_epi8(sums, _mm256_setr_epi8(0, no, 1, 2, 4, no, 5, 6, 8, no, 9, 10, 12, no, 13, 14,  //
                                                    0, no, 1, 2, 4, no, 5, 6, 8, no, 9, 10, 12, no, 13, 14));
}

// Eight zeros.
QMM_INLINE __m256i widen_zero(const uint8_t* values) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(values)));
}

// Bytes of the sides of a block.
constexpr int64_t sides_size(const Tile& t) { return t.block_k / 8 * t.nr * 2 * 4; }

// The scales, zeros and mins of a block, widened for all its rows: [groups][panels][16]. Zeros are split, and are there
// for an S8 lhs and a format that has them; mins where the format has them.
struct Sides {
  float* scales;
  int32_t* zeros;
  float* mins;
  QMM_INLINE __m256 scale(int64_t at) const { return _mm256_loadu_ps(scales + at); }
  QMM_INLINE __m256i zero(int64_t at) const { return load(zeros + at); }
  QMM_INLINE __m256 min(int64_t at) const { return _mm256_loadu_ps(mins + at); }
};

QMM_INLINE Sides widen_sides(const Block& b, Lhs lhs) {
  const int64_t groups = (b.k + b.group - 1) / b.group, count = groups * b.panels * kPanel;
  auto* scales = static_cast<float*>(b.scratch);
  const Sides sides{scales, reinterpret_cast<int32_t*>(scales + count), scales + count};
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t p = 0; p < b.panels; ++p)
      for (int64_t c = 0; c < kPanel; c += 8) {
        const int64_t from = g * kPanel + c, to = (g * b.panels + p) * kPanel + c;
        const uint8_t* offsets = b.offsets + p * b.panel_stride;
        _mm256_storeu_ps(sides.scales + to, widen(b.scale, b.scales + p * b.panel_stride, from));
        if (b.offset == Offset::Zeros && lhs == Lhs::S8)
          store(sides.zeros + to, split_zero(widen_zero(offsets + from)));
        if (b.offset == Offset::Mins) _mm256_storeu_ps(sides.mins + to, widen(b.scale, offsets, from));
      }
  return sides;
}

// The same of a group of one panel, widened where they are used.
struct PackedSides {
  Scale type;
  const uint8_t* scales;
  const uint8_t* offsets;
  QMM_INLINE __m256 scale(int64_t at) const { return widen(type, scales, at); }
  QMM_INLINE __m256i zero(int64_t at) const { return split_zero(widen_zero(offsets + at)); }
  QMM_INLINE __m256 min(int64_t at) const { return widen(type, offsets, at); }
};

// The sides of a group of a panel.
QMM_INLINE PackedSides packed_sides(const Block& b, const Group& g, int64_t panel) {
  return {b.scale, b.scales + panel * b.panel_stride + g.index * scales_size(b),
          b.offsets + panel * b.panel_stride + g.index * offsets_size(b)};
}

// acc = fma(float(sum - zero * lhs_sum) * lhs_scale, scale, acc), then mins, for a row of V * 8 columns; `side` is
// their place in the sides.
template <int Bits, Offset O, int V, class AnySides>
QMM_INLINE void add_row_s8(const AnySides& sides, int64_t side, int32_t sum_of_lhs, float scale_of_lhs, float* acc,
                           const __m256i (&sums)[V]) {
  const __m256i lhs_sum = _mm256_set1_epi32(sum_of_lhs);
  const __m256 lhs_scale = _mm256_set1_ps(scale_of_lhs);
  const __m256i eight = _mm256_slli_epi32(lhs_sum, 3), split = split_sums(lhs_sum);
  const __m256 lhs_min = _mm256_mul_ps(_mm256_cvtepi32_ps(lhs_sum), lhs_scale);
  unroll<V>([&](auto v) QMM_FLAT {
    __m256i sum = sums[v];
    if constexpr (O == Offset::Symmetric && Bits == 4) sum = _mm256_sub_epi32(sum, eight);
    if constexpr (O == Offset::Zeros) sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(sides.zero(side + v * 8), split));
    const __m256 u = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), lhs_scale);
    __m256 y = _mm256_fmadd_ps(u, sides.scale(side + v * 8), _mm256_loadu_ps(acc + v * 8));
    if constexpr (O == Offset::Mins) y = _mm256_fmadd_ps(lhs_min, sides.min(side + v * 8), y);
    _mm256_storeu_ps(acc + v * 8, y);
  });
}

// Ends a group for a row, S8: adds it to acc, or leaves the sums in carry. `at` is the columns' place in both.
template <int Bits, Offset O, int V, class AnySides>
QMM_INLINE void end_row_s8(const Block& b, const Group& g, const AnySides& sides, int64_t row, int64_t side, int64_t at,
                           __m256i (&sums)[V]) {
  auto* carry = static_cast<int32_t*>(b.carry) + at;
  if (g.resume)
    for (int v = 0; v < V; ++v) sums[v] = _mm256_add_epi32(sums[v], load(carry + v * 8));
  if (g.suspend) {
    for (int v = 0; v < V; ++v) store(carry + v * 8, sums[v]);
    return;
  }
  const int64_t lhs_group = row * b.lhs_group_stride + g.index;
  add_row_s8<Bits, O>(sides, side, static_cast<const int32_t*>(b.lhs_sums)[lhs_group], b.lhs_scales[lhs_group],
                      b.acc + at, sums);
}

// Begins a group for eight columns, F32.
QMM_INLINE __m256 begin_f32(const Block& b, const Group& g, int64_t at) {
  return g.resume ? _mm256_loadu_ps(static_cast<const float*>(b.carry) + at) : _mm256_setzero_ps();
}

// Zeros of eight columns of a panel, F32.
template <int Bits>
QMM_INLINE __m256 zeros_f32(const Block& b, const Group& g, int64_t panel, int64_t column) {
  if (b.offset != Offset::Zeros)
    return _mm256_set1_ps(b.offset == Offset::Symmetric ? static_cast<float>(symmetric_zero(Bits)) : 0.0f);
  return _mm256_cvtepi32_ps(widen_zero(b.offsets + panel * b.panel_stride + g.index * kPanel + column));
}

// Ends it: acc = fma(t, scale, acc), then mins; or leaves t in carry.
template <class AnySides>
QMM_INLINE void end_f32(const Block& b, const Group& g, const AnySides& sides, int64_t row, int64_t side, int64_t at,
                        __m256 t) {
  if (g.suspend) return _mm256_storeu_ps(static_cast<float*>(b.carry) + at, t);
  __m256 acc = _mm256_fmadd_ps(t, sides.scale(side), _mm256_loadu_ps(b.acc + at));
  if (b.offset == Offset::Mins)
    acc = _mm256_fmadd_ps(_mm256_set1_ps(static_cast<const float*>(b.lhs_sums)[row * b.lhs_group_stride + g.index]),
                          sides.min(side), acc);
  _mm256_storeu_ps(b.acc + at, acc);
}

}  // namespace
}  // namespace qmm::avx2
