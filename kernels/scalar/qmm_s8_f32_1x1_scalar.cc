// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../quantizer.h"

void qmm::qmm_s8_f32_1x1_scalar(const QuantizedRow& r) {
  quantize_row(
      r,
      [&](const float* x, int64_t count) {
        uint32_t bits = 0;
        for (int64_t k = 0; k < count; ++k) {
          const uint32_t magnitude = bit_copy<uint32_t>(x[k * r.stride]) & 0x7fffffff;
          bits = magnitude > bits ? magnitude : bits;
        }
        return bit_copy<float>(bits);
      },
      [&](const float* x, int64_t count, float inverse, int8_t* codes) {
        int32_t sum = 0;
        for (int64_t k = 0; k < count; ++k) {
          const int32_t code = inverse == 0 ? 0 : static_cast<int32_t>(round_even(x[k * r.stride] * inverse));
          codes[k] = static_cast<int8_t>(code);
          sum += code;
        }
        return sum;
      });
}
