// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "contender.h"

namespace bench {

// A library that multiplies f32 by f32, and takes the weights as they are.
class Float32 : public Contender {
 public:
  using Matmul = void(int64_t m, int64_t n, int64_t k, const float* x, const float* w, float* y);
  Float32(const char* name, Matmul* matmul) : Contender(name, kF32, kFloatTolerance), matmul_(matmul) {}

  Buffer<std::byte> pack(Shape shape) const override { return copy_float_weights(shape); }

  Bound bind(Shape shape, int64_t m, const float* x, const std::byte* packed, float* y) const override {
    const auto* w = reinterpret_cast<const float*>(packed);
    return {[=, matmul = matmul_] { matmul(m, shape.n, shape.k, x, w, y); }, ""};
  }

 private:
  Matmul* const matmul_;
};

}  // namespace bench
