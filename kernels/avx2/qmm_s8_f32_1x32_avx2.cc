// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quantizes a row of the lhs: the largest |x| of a group on its bits, then code = round-half-even(x * inverse), 32 k at
// a time, and eight groups at a time: what a group needs beside its k is done for all eight by the same instructions.
//   eight k take vpand, vpmaxud; vmulps, vcvtps2dq and one pack, 32 k one permute, mask and three for the sum: 2 cycles
//   on three vector ports. Eight groups end with two transposing sums of 21 and two divisions.
#include "../quantizer.h"
#include "avx2.h"

namespace qmm::isa {
namespace {

// Eight of the `left` elements that are left; 0 past them.
template <bool Dense>
QMM_INLINE __m256 load8(const float* x, int64_t stride, int64_t left) {
  if (Dense && left >= 8) return _mm256_loadu_ps(x);
  if (Dense) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(x, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(left)), lanes));
  }
  alignas(32) float values[8] = {};
  for (int64_t i = 0; i < 8 && i < left; ++i) values[i] = x[i * stride];
  return _mm256_load_ps(values);
}

constexpr struct {
  QMM_INLINE __m128i operator()(__m128i a, __m128i b) const { return _mm_max_epu32(a, b); }
  QMM_INLINE __m256i operator()(__m256i a, __m256i b) const { return _mm256_max_epu32(a, b); }
} max;
constexpr struct {
  QMM_INLINE __m128i operator()(__m128i a, __m128i b) const { return _mm_add_epi32(a, b); }
  QMM_INLINE __m256i operator()(__m256i a, __m256i b) const { return _mm256_add_epi32(a, b); }
} plus;

template <class Combine>
QMM_INLINE int32_t reduce(__m256i v, Combine combine) {
  __m128i half = combine(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = combine(half, _mm_shuffle_epi32(half, 0x4e));
  half = combine(half, _mm_shuffle_epi32(half, 0xb1));
  return _mm_cvtsi128_si32(half);
}

// Lane i of the result is v[i] reduced.
template <class Combine>
QMM_INLINE __m256i reduce_each(const __m256i (&v)[8], Combine combine) {
  const auto twos = [&](int i) QMM_FLAT {
    return combine(_mm256_unpacklo_epi32(v[i], v[i + 1]), _mm256_unpackhi_epi32(v[i], v[i + 1]));
  };
  const auto fours = [&](int i) QMM_FLAT {
    const __m256i a = twos(i), b = twos(i + 2);
    return combine(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  };
  const __m256i a = fours(0), b = fours(4);
  return combine(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

QMM_INLINE __m256i magnitude(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

// The largest |x| in each lane, as bits, of a count of k that is a multiple of 32.
QMM_INLINE __m256i largest(const float* x, int64_t count) {
  __m256i bits = _mm256_setzero_si256();
  for (const float* end = x + count; x != end; x += 32)
    unroll<4>([&](auto i) QMM_FLAT { bits = max(bits, magnitude(_mm256_loadu_ps(x + 8 * i))); });
  return bits;
}

template <bool Dense>
QMM_INLINE __m256i largest(const float* x, int64_t stride, int64_t count) {
  int64_t k = Dense ? count / 32 * 32 : 0;
  __m256i bits = largest(x, k);
  for (; k < count; k += 8) bits = max(bits, magnitude(load8<Dense>(x + k * stride, stride, count - k)));
  return bits;
}

struct Factor {
  __m256 inverse;
  __m256i keep;  // where the inverse is 0, codes are, though x may be infinite

  QMM_INLINE explicit Factor(float value)
      : inverse(_mm256_set1_ps(value)),
        keep(_mm256_castps_si256(_mm256_cmp_ps(inverse, _mm256_setzero_ps(), _CMP_NEQ_UQ))) {}
  QMM_INLINE __m256i operator()(__m256 x) const { return _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)); }
};

// Writes codes of a count of k that is a multiple of 32; returns eight parts of their sum.
QMM_INLINE __m256i quantize(const float* x, int64_t count, const Factor& factor, int8_t* codes) {
  __m256i sum = _mm256_setzero_si256();
  for (const float* end = x + count; x != end; x += 32, codes += 32) {
    const auto sixteen = [&](const float* from) QMM_FLAT {
      return _mm256_packs_epi32(factor(_mm256_loadu_ps(from)), factor(_mm256_loadu_ps(from + 8)));
    };
    const __m256i packed = _mm256_and_si256(_mm256_packs_epi16(sixteen(x), sixteen(x + 16)), factor.keep);
    store(codes, _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), packed);
    sum = plus(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return sum;
}

// Codes are written by eights; there is room.
template <bool Dense>
QMM_INLINE __m256i quantize(const float* x, int64_t stride, int64_t count, float inverse, int8_t* codes) {
  const Factor factor(inverse);
  int64_t k = Dense ? count / 32 * 32 : 0;
  __m256i sum = quantize(x, k, factor, codes);
  for (; k < count; k += 8) {
    const __m256i a = _mm256_and_si256(factor(load8<Dense>(x + k * stride, stride, count - k)), factor.keep);
    sum = plus(sum, a);
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + k), _mm_packs_epi16(half, half));
  }
  return sum;
}

// factors_of for eight groups.
QMM_INLINE void factors_of_each(__m256i amax, float* inverses, float* scales) {
  const __m256i infinity = _mm256_set1_epi32(0x7f800000);
  const __m256 limit = _mm256_set1_ps(127), value = _mm256_castsi256_ps(amax);
  const __m256 inverse = _mm256_div_ps(limit, value);
  const __m256 is_number = _mm256_castsi256_ps(_mm256_cmpgt_epi32(infinity, amax));
  const __m256 is_factor = _mm256_castsi256_ps(_mm256_cmpgt_epi32(infinity, _mm256_castps_si256(inverse)));
  const __m256 scale = _mm256_and_ps(_mm256_div_ps(value, limit), is_factor);
  _mm256_storeu_ps(inverses, _mm256_and_ps(inverse, _mm256_and_ps(is_number, is_factor)));
  _mm256_storeu_ps(scales, _mm256_blendv_ps(_mm256_set1_ps(__builtin_nanf("")), scale, is_number));
}

// Quantizes the whole groups of a dense row, eight at a time, and returns what is left of it. Rows come by value, so
// that stores of codes can not be taken for changes of them.
QMM_NOINLINE QuantizedRow quantize_groups(QuantizedRow r) {
  int64_t left = r.k / r.group;
  r.k -= left * r.group;
  for (; left > 0; left -= 8) {
    const int64_t groups = left < 8 ? left : 8;
    __m256i parts[8];
    for (int64_t g = 0; g < 8; ++g)
      parts[g] = g < groups ? largest(r.x + g * r.group, r.group) : _mm256_setzero_si256();
    float inverses[8], scales[8];
    factors_of_each(reduce_each(parts, max), inverses, scales);
    for (int64_t g = 0; g < groups; ++g) {
      parts[g] = quantize(r.x, r.group, Factor(inverses[g]), r.codes);
      r.x += r.group;
      r.codes += r.group;
    }
    int32_t sums[8];
    store(sums, reduce_each(parts, plus));
    for (int64_t g = 0; g < groups; ++g) {
      *r.scales++ = scales[g];
      *r.sums++ = sums[g];
    }
  }
  return r;
}

template <bool Dense>
QMM_NOINLINE void quantize_any(QuantizedRow r) {
  const int64_t stride = Dense ? 1 : r.stride;
  quantize_row(
      r,
      [&](const float* x, int64_t count)
          QMM_FLAT { return bit_copy<float>(reduce(largest<Dense>(x, stride, count), max)); },
      [&](const float* x, int64_t count, float inverse, int8_t* codes)
          QMM_FLAT { return reduce(quantize<Dense>(x, stride, count, inverse, codes), plus); });
}

}  // namespace
}  // namespace qmm::isa

void qmm::qmm_s8_f32_1x32_avx2(const QuantizedRow& r) {
  if (r.stride != 1) return isa::quantize_any<false>(r);
  const bool by_eight = r.token_scale == nullptr && r.group % 32 == 0 && r.group <= kMaxSegment;
  const QuantizedRow rest = by_eight ? isa::quantize_groups(r) : r;
  if (rest.k > 0) isa::quantize_any<true>(rest);
}
