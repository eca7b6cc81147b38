// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quantizes a row of the lhs: the largest |x| of a group on its bits, then code = round-half-even(x * inverse), 16 k at
// a time: FCVTNS rounds so, and makes 0 of the NaN that an infinite x gives with an inverse of 0.
//   16 k take 4 AND and 4 UMAX; 4 FMUL, 4 FCVTNS, 3 narrowing UZP1, SADDLP and SADALP: 21 vector operations.
#include "../quantizer.h"
#include "neon.h"

namespace qmm::neon {
namespace {

// Four of the `left` elements that are left; 0 past them.
template <bool Dense>
QMM_INLINE float32x4_t load4(const float* x, int64_t stride, int64_t left) {
  if (Dense && left >= 4) return vld1q_f32(x);
  float values[4] = {};
  for (int64_t i = 0; i < 4 && i < left; ++i) values[i] = x[i * stride];
  return vld1q_f32(values);
}

QMM_INLINE uint32x4_t magnitude(float32x4_t x) { return vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7fffffff)); }

template <bool Dense>
QMM_INLINE float find_amax(const float* x, int64_t stride, int64_t count) {
  uint32x4_t bits[4] = {};
  int64_t k = 0;
  if (Dense)
    for (; k + 16 <= count; k += 16)
      unroll<4>([&](auto i) QMM_FLAT { bits[i] = vmaxq_u32(bits[i], magnitude(vld1q_f32(x + k + i * 4))); });
  for (; k < count; k += 4) bits[0] = vmaxq_u32(bits[0], magnitude(load4<Dense>(x + k * stride, stride, count - k)));
  return bit_copy<float>(vmaxvq_u32(vmaxq_u32(vmaxq_u32(bits[0], bits[1]), vmaxq_u32(bits[2], bits[3]))));
}

// Codes are written by eights; there is room.
template <bool Dense>
QMM_INLINE int32_t quantize(const float* x, int64_t stride, int64_t count, float inverse, int8_t* codes) {
  const auto eight = [&](float32x4_t low, float32x4_t high) QMM_FLAT {
    return vuzp1q_s16(vreinterpretq_s16_s32(vcvtnq_s32_f32(vmulq_n_f32(low, inverse))),
                      vreinterpretq_s16_s32(vcvtnq_s32_f32(vmulq_n_f32(high, inverse))));
  };
  const auto narrow = [](int16x8_t low, int16x8_t high)
                          QMM_FLAT { return vuzp1q_s8(vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high)); };
  int32x4_t sum = vdupq_n_s32(0);
  int64_t k = 0;
  if (Dense)
    for (; k + 16 <= count; k += 16) {
      const int8x16_t a =
          narrow(eight(vld1q_f32(x + k), vld1q_f32(x + k + 4)), eight(vld1q_f32(x + k + 8), vld1q_f32(x + k + 12)));
      vst1q_s8(codes + k, a);
      sum = vpadalq_s16(sum, vpaddlq_s8(a));
    }
  for (; k < count; k += 8) {
    const float* from = x + k * stride;
    const int16x8_t a =
        eight(load4<Dense>(from, stride, count - k), load4<Dense>(from + 4 * stride, stride, count - k - 4));
    vst1_s8(codes + k, vget_low_s8(narrow(a, a)));
    sum = vpadalq_s16(sum, a);
  }
  return vaddvq_s32(sum);
}

// The row comes by value, so that stores of codes can not be taken for changes of it.
template <bool Dense>
QMM_NOINLINE void quantize_any(QuantizedRow r) {
  const int64_t stride = Dense ? 1 : r.stride;
  quantize_row(
      r, [&](const float* x, int64_t count) QMM_FLAT { return find_amax<Dense>(x, stride, count); },
      [&](const float* x, int64_t count, float inverse, int8_t* codes)
          QMM_FLAT { return quantize<Dense>(x, stride, count, inverse, codes); });
}

}  // namespace
}  // namespace qmm::neon

void qmm::qmm_s8_f32_1x16_neon(const QuantizedRow& r) {
  r.stride == 1 ? neon::quantize_any<true>(r) : neon::quantize_any<false>(r);
}
