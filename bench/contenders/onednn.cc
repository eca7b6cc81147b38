// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// oneDNN's matmul, in f32 and with 8-bit weights.
//
// Weights stay row-major, which is no slower than the layout that it asks for, and at M = 4 and 16 a fifth faster.
// Activations are quantized here, with one scale for all of X, as PyTorch does before it calls oneDNN, in the timed
// part. They get 7 bits, unsigned: without VNNI, sums of two products saturate where they have all 8, and signed ones
// are made unsigned by adding 128. What 64 more on each activation adds to Y is taken off here too: oneDNN would sum up
// the weights for it at every call.
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

#include "contender.h"

namespace bench {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Tag = memory::format_tag;

constexpr float kLargest = 63, kZero = 64;  // of the quantized lhs
constexpr int64_t kParallel = 65536;        // elements that are worth the threads

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory view(memory::desc desc, const void* data) {
  return {std::move(desc), engine(), const_cast<void*>(data)};  // it takes no const
}

// Quantizes x to kZero + round(x / scale), and returns the scale.
float quantize(const float* x, int64_t count, uint8_t* to) {
  // On the bits, and by adding a number whose last bit is 1: so that compilers make vector loops of both.
  uint32_t amax_bits = 0;
#pragma omp parallel for simd reduction(max : amax_bits) if (parallel : count > kParallel)
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    amax_bits = std::max(amax_bits, bits & 0x7fffffff);
  }
  float amax;
  std::memcpy(&amax, &amax_bits, sizeof amax);
  const float inverse = amax == 0 ? 0 : kLargest / amax;
#pragma omp parallel for simd if (parallel : count > kParallel)
  for (int64_t i = 0; i < count; ++i) {
    const float rounded = x[i] * inverse + (0x1.8p23f + kZero);
    uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    to[i] = static_cast<uint8_t>(bits);
  }
  return amax / kLargest;
}

// Subtracts scale * column[n] from each row of y.
void subtract(int64_t m, int64_t n, float scale, const float* column, float* y) {
#pragma omp parallel for if (m * n > kParallel)
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) y[i * n + j] -= scale * column[j];
}

dnnl::matmul::primitive_desc describe_matmul(Shape shape, int64_t m, Type lhs, Type rhs,
                                             const dnnl::primitive_attr& attributes) {
  // Row-major W[n,k] is the transpose of the matrix that oneDNN multiplies by.
  return {engine(), memory::desc({m, shape.k}, lhs, Tag::ab), memory::desc({shape.k, shape.n}, rhs, Tag::ba),
          memory::desc({m, shape.n}, Type::f32, Tag::ab), attributes};
}

// A matmul and what it is called with.
struct Call {
  Call(const dnnl::matmul::primitive_desc& desc, const void* x, const void* w, float* y)
      : matmul(desc),
        arguments{{DNNL_ARG_SRC, view(desc.src_desc(), x)},
                  {DNNL_ARG_WEIGHTS, view(desc.weights_desc(), w)},
                  {DNNL_ARG_DST, view(desc.dst_desc(), y)}} {}

  void run() {
    matmul.execute(stream, arguments);
    stream.wait();
  }

  dnnl::stream stream{engine()};
  dnnl::matmul matmul;
  std::unordered_map<int, memory> arguments;
};

class OneDnnF32 : public Contender {
 public:
  OneDnnF32() : Contender("f32_onednn", kF32, kFloatTolerance) {}

  Buffer<std::byte> pack(Shape shape) const override { return copy_float_weights(shape); }

  Bound bind(Shape shape, int64_t m, const float* x, const std::byte* packed, float* y) const override {
    const auto desc = describe_matmul(shape, m, Type::f32, Type::f32, {});
    const auto call = std::make_shared<Call>(desc, x, packed, y);
    return {[call] { call->run(); }, desc.impl_info_str()};
  }
};

class OneDnnU8S8 : public Contender {
 public:
  OneDnnU8S8() : Contender("peer_onednn_u8s8", kS8Channel, 2 * kDynamicTolerance) {}

  // Codes, then for each column its scale, then what kZero adds to it.
  Buffer<std::byte> pack(Shape shape) const override {
    const auto [n, k] = shape;
    const CanonicalWeights& weights = canonical_weights(shape, format());
    auto packed = allocate<std::byte>(scales_at(shape) + static_cast<size_t>(2 * n) * sizeof(float));
    std::memcpy(packed.get(), weights.codes.get(), static_cast<size_t>(n * k));
    auto* scales = reinterpret_cast<float*>(packed.get() + scales_at(shape));
    std::memcpy(scales, weights.scales.get(), static_cast<size_t>(n) * sizeof(float));
    const auto* codes = reinterpret_cast<const int8_t*>(weights.codes.get());
    for (int64_t i = 0; i < n; ++i) {
      int64_t sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += codes[i * k + j];
      scales[n + i] = kZero * scales[i] * static_cast<float>(sum);
    }
    return packed;
  }

  Bound bind(Shape shape, int64_t m, const float* x, const std::byte* packed, float* y) const override {
    const auto [n, k] = shape;
    dnnl::primitive_attr attributes;
    attributes.set_scales_mask(DNNL_ARG_SRC, 0);
    attributes.set_scales_mask(DNNL_ARG_WEIGHTS, 1 << 1);  // one for each column
    const auto desc = describe_matmul(shape, m, Type::u8, Type::s8, attributes);
    struct Quantized {
      std::vector<uint8_t> lhs;
      float scale;
      Call call;
    };
    std::vector<uint8_t> lhs(static_cast<size_t>(m * k));
    const Call call(desc, lhs.data(), packed, y);
    const auto q = std::make_shared<Quantized>(std::move(lhs), 0.0f, call);
    const auto* scales = reinterpret_cast<const float*>(packed + scales_at(shape));
    q->call.arguments[DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC] = view({{1}, Type::f32, Tag::a}, &q->scale);
    q->call.arguments[DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS] = view({{n}, Type::f32, Tag::a}, scales);
    const auto run = [=, n = n, k = k] {
      q->scale = quantize(x, m * k, q->lhs.data());
      q->call.run();
      subtract(m, n, q->scale, scales + n, y);
    };
    return {run, desc.impl_info_str()};
  }

 private:
  static size_t scales_at(Shape shape) { return (static_cast<size_t>(shape.n * shape.k) + 63) / 64 * 64; }
};

}  // namespace

Contenders start_onednn(int threads) {
  omp_set_num_threads(threads);
  Contenders contenders;
  contenders.push_back(std::make_unique<OneDnnF32>());
  contenders.push_back(std::make_unique<OneDnnU8S8>());
  return contenders;
}

std::string onednn_conditions() {
  const dnnl_version_t& version = *dnnl_version();
  const auto isa = dnnl::get_effective_cpu_isa();
  const std::string name = isa == dnnl::cpu_isa::avx2 ? "avx2" : "number " + std::to_string(static_cast<int>(isa));
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch) +
         ", ISA " + name;
}

}  // namespace bench
