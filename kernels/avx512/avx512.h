// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The vectors of AVX-512, sixteen columns each, by the names that the tiles in kernels/x86 call them.
#pragma once

#include <immintrin.h>

#include "../walk.h"

namespace qmm::isa {
namespace {

using Int = __m512i;
using Float = __m512;
constexpr int kColumns = 16;                 // 32-bit lanes
constexpr int kVectors = kPanel / kColumns;  // of a row of a panel
constexpr int kBytes = 4 * kColumns;         // of a vector
constexpr int kRegisters = 32;

// Not the intrinsic: GCC 12 moves its result through the stack where 32-bit lanes are wanted of it.
QMM_INLINE Int load(const void* p) {
  Int v;
  asm("vmovdqu64 %1, %0" : "=v"(v) : "m"(*static_cast<const __m512i_u*>(p)));
  return v;
}
QMM_INLINE void store(void* p, Int v) { _mm512_storeu_si512(p, v); }
QMM_INLINE Float load_f32(const float* p) { return _mm512_loadu_ps(p); }
QMM_INLINE void store_f32(float* p, Float v) { _mm512_storeu_ps(p, v); }
QMM_INLINE Float load_aligned(const float* p) { return _mm512_load_ps(p); }
QMM_INLINE void store_aligned(float* p, Float v) { _mm512_store_ps(p, v); }
QMM_INLINE Int zero() { return _mm512_setzero_si512(); }
QMM_INLINE Float zero_f32() { return _mm512_setzero_ps(); }
QMM_INLINE Int set1(int32_t x) { return _mm512_set1_epi32(x); }
QMM_INLINE Int set1_s8(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
QMM_INLINE Int set1_s16(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
QMM_INLINE Float set1_f32(float x) { return _mm512_set1_ps(x); }

// x += y in the register of x. What GCC makes of intrinsics adds to a copy and moves it back, eight moves a step, and
// moves the products of unrolled steps together until the sums spill.
QMM_INLINE void add16(Int& x, Int y) { asm("vpaddw %1, %0, %0" : "+v"(x) : "v"(y)); }
QMM_INLINE void add32(Int& x, Int y) { asm("vpaddd %1, %0, %0" : "+v"(x) : "v"(y)); }
// t = fma(a, b, t)
QMM_INLINE void add_product(Float& t, Float a, Float b) { asm("vfmadd231ps %2, %1, %0" : "+v"(t) : "v"(a), "v"(b)); }

// Loads here, not where a compiler would: it keeps constants and lines in registers over many steps, and spills.
QMM_INLINE Int load_now(const void* p) {
  Int v;
  asm volatile("vmovdqu64 %1, %0" : "=v"(v) : "m"(*static_cast<const __m512i_u*>(p)));
  return v;
}

// The first `count` of a vector's elements; 0 past them, where nothing is read.
QMM_INLINE Int load_first(const int32_t* p, int64_t count) {
  return _mm512_maskz_loadu_epi32(static_cast<__mmask16>(count < kColumns ? (1 << count) - 1 : -1), p);
}

// Four bytes to every lane. Not the intrinsic, for which GCC 12 may load them to a general register first.
QMM_INLINE Int broadcast4(const void* p) {
  Int v;
  asm("vpbroadcastd %1, %0" : "=v"(v) : "m"(*static_cast<const uint8_t(*)[4]>(p)));
  return v;
}

// A float to every lane.
QMM_INLINE Float broadcast_f32(const float* p) { return _mm512_set1_ps(*p); }

QMM_INLINE Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
QMM_INLINE Int sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
template <int Bits>
QMM_INLINE Int shift_left(Int v) {
  return _mm512_slli_epi32(v, Bits);
}
template <int Bits>
QMM_INLINE Int shift_right(Int v) {
  return _mm512_srli_epi32(v, Bits);
}

// Signed bytes as unsigned ones, 128 more.
QMM_INLINE Int load_unsigned(const void* p) {
  Int v;
  asm("vpxord %1, %2, %0" : "=v"(v) : "m"(*static_cast<const __m512i_u*>(p)), "v"(set1_s8(-128)));
  return v;
}

// The nibbles of bytes.
QMM_INLINE Int low_nibbles(Int bytes) { return _mm512_and_si512(bytes, set1_s8(15)); }
QMM_INLINE Int high_nibbles(Int bytes) { return _mm512_and_si512(_mm512_srli_epi16(bytes, 4), set1_s8(15)); }

// Bytes to int16: of every two, the even and the odd one.
QMM_INLINE Int even(Int bytes) { return _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8); }
QMM_INLINE Int odd(Int bytes) { return _mm512_srai_epi16(bytes, 8); }

// Sums of two products: of unsigned and signed bytes to int16, of int16 to int32.
QMM_INLINE Int multiply_bytes(Int codes, Int a) { return _mm512_maddubs_epi16(codes, a); }
QMM_INLINE Int multiply_s16(Int a, Int b) { return _mm512_madd_epi16(a, b); }

QMM_INLINE Float to_float(Int v) { return _mm512_cvtepi32_ps(v); }
QMM_INLINE Int as_int(Float v) { return _mm512_castps_si512(v); }
QMM_INLINE Float as_float(Int v) { return _mm512_castsi512_ps(v); }
QMM_INLINE Float add_f32(Float a, Float b) { return _mm512_add_ps(a, b); }
QMM_INLINE Float sub_f32(Float a, Float b) { return _mm512_sub_ps(a, b); }
QMM_INLINE Float mul_f32(Float a, Float b) { return _mm512_mul_ps(a, b); }
QMM_INLINE Float fma_f32(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }

// The bits of a that the mask has, with those of c, which lie elsewhere.
QMM_INLINE Int pick(Int a, Int mask, Int c) { return _mm512_ternarylogic_epi32(a, mask, c, 0xea); }

// Scales or mins of a vector's columns.
QMM_INLINE Float widen(Scale type, const uint8_t* values, int64_t i) {
  if (type == Scale::F32) return _mm512_loadu_ps(reinterpret_cast<const float*>(values) + i);
  const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i * 2));
  return type == Scale::F16 ? _mm512_cvtph_ps(h) : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

// Zeros of a vector's columns.
QMM_INLINE Int widen_zero(const uint8_t* values) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
}

// A zero as two factors of multiply_s16, zero and zero * 256, in a lane.
QMM_INLINE Int split_zero(Int zero) { return _mm512_mask_blend_epi16(0xaaaaaaaa, zero, _mm512_slli_epi32(zero, 24)); }

// The factors that belong to it: sum & 255 and sum >> 8. |sum| is below 2^23, 127 * kMaxSegment.
QMM_INLINE Int split_sums(Int sums) {
  constexpr int8_t no = -1;
  return _mm512_shuffle_epi8(
      sums, _mm512_broadcast_i32x4(_mm_setr_epi8(0, no, 1, 2, 4, no, 5, 6, 8, no, 9, 10, 12, no, 13, 14)));
}

#if defined(__AVX512VNNI__)
// x += sums of four products of an unsigned and a signed byte.
QMM_INLINE void dot(Int& x, Int codes, Int a) { asm("vpdpbusd %2, %1, %0" : "+v"(x) : "v"(codes), "v"(a)); }
// x += sums of two products of int16.
QMM_INLINE void add_products_s16(Int& x, Int a, Int b) { x = _mm512_dpwssd_epi32(x, a, b); }
#endif

}  // namespace
}  // namespace qmm::isa
