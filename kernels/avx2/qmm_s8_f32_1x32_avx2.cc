// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quantizes a row of the lhs: the largest |x| of a group on its bits, then code = round-half-even(x * inverse), 32 k at
// a time.
//   eight k take vpand, vpmaxud; vmulps, vcvtps2dq, vpaddd and one pack: 2 cycles on three vector ports. A group ends
//   with two horizontal steps of 3 and two divisions; they overlap with the next group.
#include "../quantizer.h"
#include "avx2.h"

namespace qmm::avx2 {
namespace {

// Eight of the `left` elements that are left; 0 past them.
template <bool Dense>
QMM_INLINE __m256 load8(const float* x, int64_t stride, int64_t left) {
  if (Dense && left >= 8) return _mm256_loadu_ps(x);
  alignas(32) float values[8] = {};
  for (int64_t i = 0; i < 8 && i < left; ++i) values[i] = x[i * stride];
  return _mm256_load_ps(values);
}

template <class Combine>
QMM_INLINE int32_t reduce(__m256i v, Combine combine) {
  __m128i half = combine(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = combine(half, _mm_shuffle_epi32(half, 0x4e));
  half = combine(half, _mm_shuffle_epi32(half, 0xb1));
  return _mm_cvtsi128_si32(half);
}

template <bool Dense>
QMM_INLINE float find_amax(const float* x, int64_t stride, int64_t count) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i bits = _mm256_setzero_si256();
  const auto add = [&](int64_t k, int64_t left) QMM_FLAT {
    const __m256 values = load8<Dense>(x + k * stride, stride, left);
    bits = _mm256_max_epu32(bits, _mm256_and_si256(_mm256_castps_si256(values), magnitude));
  };
  int64_t k = 0;
  for (; k + 8 <= count; k += 8) add(k, 8);
  if (k < count) add(k, count - k);
  return bit_copy<float>(reduce(bits, [](__m128i a, __m128i b) QMM_FLAT { return _mm_max_epu32(a, b); }));
}

// Returns the sum of the codes. Codes are written by eights; there is room.
template <bool Dense>
QMM_INLINE int32_t quantize(const float* x, int64_t stride, int64_t count, float inverse, int8_t* codes) {
  if (inverse == 0) {  // x may be infinite
    std::memset(codes, 0, static_cast<size_t>((count + 7) / 8 * 8));
    return 0;
  }
  const __m256 factor = _mm256_set1_ps(inverse);
  const auto code = [&](int64_t k, int64_t left) QMM_FLAT {
    return _mm256_cvtps_epi32(_mm256_mul_ps(load8<Dense>(x + k * stride, stride, left), factor));
  };
  __m256i sum = _mm256_setzero_si256();
  int64_t k = 0;
  for (; k + 32 <= count; k += 32) {
    const __m256i a = code(k, 8), b = code(k + 8, 8), c = code(k + 16, 8), d = code(k + 24, 8);
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)));
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    store(codes + k, _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
  for (; k < count; k += 8) {
    const __m256i a = code(k, count - k);
    sum = _mm256_add_epi32(sum, a);
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + k), _mm_packs_epi16(half, half));
  }
  return reduce(sum, [](__m128i a, __m128i b) QMM_FLAT { return _mm_add_epi32(a, b); });
}

// The row comes by value, so that stores of codes can not be taken for changes of it.
template <bool Dense>
void quantize_dense(QuantizedRow r) {
  quantize_row(
      r, [&](const float* x, int64_t count) QMM_FLAT { return find_amax<Dense>(x, r.stride, count); },
      [&](const float* x, int64_t count, float inverse, int8_t* codes)
          QMM_FLAT { return quantize<Dense>(x, r.stride, count, inverse, codes); });
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_s8_f32_1x32_avx2(const QuantizedRow& r) {
  r.stride == 1 ? avx2::quantize_dense<true>(r) : avx2::quantize_dense<false>(r);
}
