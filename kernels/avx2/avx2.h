// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The vectors of AVX2, eight columns each, by the names that the tiles in kernels/x86 call them.
#pragma once

#include <immintrin.h>

#include "../walk.h"

namespace qmm::isa {
namespace {

using Int = __m256i;
using Float = __m256;
constexpr int kColumns = 8;                  // 32-bit lanes
constexpr int kVectors = kPanel / kColumns;  // of a row of a panel
constexpr int kBytes = 4 * kColumns;         // of a vector
constexpr int kRegisters = 16;

QMM_INLINE Int load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
QMM_INLINE void store(void* p, Int v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
QMM_INLINE Float load_f32(const float* p) { return _mm256_loadu_ps(p); }
QMM_INLINE void store_f32(float* p, Float v) { _mm256_storeu_ps(p, v); }
QMM_INLINE Float load_aligned(const float* p) { return _mm256_load_ps(p); }
QMM_INLINE void store_aligned(float* p, Float v) { _mm256_store_ps(p, v); }
QMM_INLINE Int zero() { return _mm256_setzero_si256(); }
QMM_INLINE Float zero_f32() { return _mm256_setzero_ps(); }
QMM_INLINE Int set1(int32_t x) { return _mm256_set1_epi32(x); }
QMM_INLINE Int set1_s8(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
QMM_INLINE Int set1_s16(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
QMM_INLINE Float set1_f32(float x) { return _mm256_set1_ps(x); }

// x += y in the register of x. What GCC makes of intrinsics adds to a copy and moves it back, eight moves a step, and
// moves the products of unrolled steps together until the sums spill.
QMM_INLINE void add16(Int& x, Int y) { asm("vpaddw %1, %0, %0" : "+x"(x) : "x"(y)); }
QMM_INLINE void add32(Int& x, Int y) { asm("vpaddd %1, %0, %0" : "+x"(x) : "x"(y)); }
// t = fma(a, b, t)
QMM_INLINE void add_product(Float& t, Float a, Float b) { asm("vfmadd231ps %2, %1, %0" : "+x"(t) : "x"(a), "x"(b)); }

// Loads here, not where a compiler would: it keeps constants and lines in registers over many steps, and spills.
QMM_INLINE Int load_now(const void* p) {
  Int v;
  asm volatile("vmovdqu %1, %0" : "=x"(v) : "m"(*static_cast<const __m256i_u*>(p)));
  return v;
}

// The first `count` of a vector's elements; 0 past them, where nothing is read.
QMM_INLINE Int load_first(const int32_t* p, int64_t count) {
  const Int lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_epi32(p, _mm256_cmpgt_epi32(set1(static_cast<int32_t>(count)), lanes));
}

// Four bytes to every lane. Not the intrinsic, for which GCC 12 may load them to a general register first.
QMM_INLINE Int broadcast4(const void* p) {
  Int v;
  asm("vpbroadcastd %1, %0" : "=x"(v) : "m"(*static_cast<const uint8_t(*)[4]>(p)));
  return v;
}

// A float to every lane.
QMM_INLINE Float broadcast_f32(const float* p) { return _mm256_broadcast_ss(p); }

QMM_INLINE Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
QMM_INLINE Int sub(Int a, Int b) { return _mm256_sub_epi32(a, b); }
template <int Bits>
QMM_INLINE Int shift_left(Int v) {
  return _mm256_slli_epi32(v, Bits);
}
template <int Bits>
QMM_INLINE Int shift_right(Int v) {
  return _mm256_srli_epi32(v, Bits);
}

// Signed bytes as unsigned ones, 128 more.
QMM_INLINE Int load_unsigned(const void* p) { return _mm256_xor_si256(load(p), set1_s8(-128)); }

// The nibbles of bytes.
QMM_INLINE Int low_nibbles(Int bytes) { return _mm256_and_si256(bytes, set1_s8(15)); }
QMM_INLINE Int high_nibbles(Int bytes) { return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), set1_s8(15)); }

// Bytes to int16: of every two, the even and the odd one.
QMM_INLINE Int even(Int bytes) { return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8); }
QMM_INLINE Int odd(Int bytes) { return _mm256_srai_epi16(bytes, 8); }

// Sums of two products: of unsigned and signed bytes to int16, of int16 to int32.
QMM_INLINE Int multiply_bytes(Int codes, Int a) { return _mm256_maddubs_epi16(codes, a); }
QMM_INLINE Int multiply_s16(Int a, Int b) { return _mm256_madd_epi16(a, b); }

QMM_INLINE Float to_float(Int v) { return _mm256_cvtepi32_ps(v); }
QMM_INLINE Int as_int(Float v) { return _mm256_castps_si256(v); }
QMM_INLINE Float as_float(Int v) { return _mm256_castsi256_ps(v); }
QMM_INLINE Float add_f32(Float a, Float b) { return _mm256_add_ps(a, b); }
QMM_INLINE Float sub_f32(Float a, Float b) { return _mm256_sub_ps(a, b); }
QMM_INLINE Float mul_f32(Float a, Float b) { return _mm256_mul_ps(a, b); }
QMM_INLINE Float fma_f32(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }

// The bits of a that the mask has, with those of c, which lie elsewhere.
QMM_INLINE Int pick(Int a, Int mask, Int c) { return _mm256_or_si256(_mm256_and_si256(a, mask), c); }

// Scales or mins of a vector's columns.
QMM_INLINE Float widen(Scale type, const uint8_t* values, int64_t i) {
  if (type == Scale::F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(values) + i);
  const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i * 2));
  return type == Scale::F16 ? _mm256_cvtph_ps(h) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

// Zeros of a vector's columns.
QMM_INLINE Int widen_zero(const uint8_t* values) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(values)));
}

// A zero as two factors of multiply_s16, zero and zero * 256, in a lane.
QMM_INLINE Int split_zero(Int zero) { return _mm256_blend_epi16(zero, _mm256_slli_epi32(zero, 24), 0xaa); }

// The factors that belong to it: sum & 255 and sum >> 8. |sum| is below 2^23, 127 * kMaxSegment.
QMM_INLINE Int split_sums(Int sums) {
  constexpr int8_t no = -1;
  return _mm256_shuffle_epi8(
      sums, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, no, 1, 2, 4, no, 5, 6, 8, no, 9, 10, 12, no, 13, 14)));
}

#if defined(__AVXVNNI__)
// x += sums of four products of an unsigned and a signed byte.
QMM_INLINE void dot(Int& x, Int codes, Int a) { asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(x) : "x"(codes), "x"(a)); }
// The same of two signed bytes; for files that need AVX-VNNI-INT8, which GCC 12 has no name for.
QMM_INLINE void dot_signed(Int& x, Int codes, Int a) { asm("vpdpbssd %2, %1, %0" : "+x"(x) : "x"(codes), "x"(a)); }
// x += sums of two products of int16.
QMM_INLINE void add_products_s16(Int& x, Int a, Int b) { x = _mm256_dpwssd_avx_epi32(x, a, b); }
#endif

}  // namespace
}  // namespace qmm::isa
