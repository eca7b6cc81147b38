// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// XNNPACK's fully connected operator, in a subgraph as its users build them. Quantized weights: activations are
// converted to 8 bits, a scale and zero point for each row, in the timed part.
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "contender.h"
#include "xnnpack_abi.h"

namespace bench {
namespace {

constexpr Format kQb4wG32 = {"u4_g32_bf16", 4, 32, QMM_SYMMETRIC, QMM_BF16};
constexpr Format kQb4wG128 = {"u4_g128_bf16", 4, 128, QMM_SYMMETRIC, QMM_BF16};
constexpr size_t kSlack = 128;  // it may read as far past packed weights

pthreadpool* pool = nullptr;

void check(xnn_status status, const char* what) {
  if (status == xnn_status_success) return;
  std::fprintf(stderr, "qmm_bench: XNNPACK returns %d from %s\n", static_cast<int>(status), what);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

// The weights cache of one operator: gives it memory to pack to, or weights that are packed.
class WeightsCache {
 public:
  explicit WeightsCache(const std::byte* packed) : packed_(const_cast<std::byte*>(packed)), full_(packed != nullptr) {}
  WeightsCache(const WeightsCache&) = delete;
  WeightsCache& operator=(const WeightsCache&) = delete;

  xnn_weights_cache_provider* provider() { return &provider_; }
  Buffer<std::byte> take() { return std::move(memory_); }

 private:
  static WeightsCache& self(void* context) { return *static_cast<WeightsCache*>(context); }
  static size_t look_up(void* context, const void*) { return self(context).full_ ? 0 : SIZE_MAX; }
  static void* reserve(void* context, size_t size) {
    WeightsCache& cache = self(context);
    cache.memory_ = allocate<std::byte>(size + kSlack);
    return cache.packed_ = cache.memory_.get();
  }
  static size_t insert(void* context, const void*, void*, size_t) {
    self(context).full_ = true;
    return 0;
  }
  static bool is_finalized(void* context) { return self(context).full_; }
  static void* address(void* context, size_t offset) { return self(context).packed_ + offset; }
  static xnn_status nothing(void*) { return xnn_status_success; }
  static xnn_status no_alias(void*, void*, void*) { return xnn_status_success; }

  std::byte* packed_;
  bool full_;
  Buffer<std::byte> memory_;
  xnn_weights_cache_provider provider_ = {this, look_up, reserve, insert, is_finalized, address, nothing, no_alias};
};

struct Runtime {
  explicit Runtime(const std::byte* packed) : cache(packed) {}
  ~Runtime() { xnn_delete_runtime(runtime); }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  WeightsCache cache;
  xnn_runtime* runtime = nullptr;
};

class XnnPack : public Contender {
 public:
  XnnPack(const char* name, const Format& format, xnn_datatype type)
      : Contender(name, format, type == xnn_datatype_fp32 ? kFloatTolerance : kDynamicTolerance), type_(type) {}

  Buffer<std::byte> pack(Shape shape) const override { return make_runtime(shape, 1, nullptr)->cache.take(); }

  Bound bind(Shape shape, int64_t m, const float* x, const std::byte* packed, float* y) const override {
    const auto runtime = make_runtime(shape, m, packed);
    const xnn_external_value values[] = {{kX, const_cast<float*>(x)}, {kY, y}};
    CHECK(xnn_reshape_runtime(runtime->runtime));
    CHECK(xnn_setup_runtime_v2(runtime->runtime, std::size(values), values));
    return {[runtime] { CHECK(xnn_invoke_runtime(runtime->runtime)); }, ""};
  }

 private:
  static constexpr uint32_t kX = 0, kY = 1;

  // With weights that are packed already, or to be packed to its cache.
  std::shared_ptr<Runtime> make_runtime(Shape shape, int64_t m, const std::byte* packed) const {
    const size_t x_dims[] = {static_cast<size_t>(m), static_cast<size_t>(shape.k)};
    const size_t y_dims[] = {static_cast<size_t>(m), static_cast<size_t>(shape.n)};
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    xnn_subgraph* graph;
    uint32_t x, y;
    CHECK(xnn_create_subgraph(2, 0, &graph));
    CHECK(xnn_define_tensor_value(graph, xnn_datatype_fp32, 2, x_dims, nullptr, kX, XNN_VALUE_FLAG_EXTERNAL_INPUT, &x));
    CHECK(
        xnn_define_tensor_value(graph, xnn_datatype_fp32, 2, y_dims, nullptr, kY, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &y));
    uint32_t lhs = x;
    if (type_ != xnn_datatype_fp32) {
      CHECK(xnn_define_dynamically_quantized_tensor_value(graph, xnn_datatype_qdint8, 2, 1, x_dims,
                                                          XNN_INVALID_VALUE_ID, 0, &lhs));
      CHECK(xnn_define_convert(graph, x, lhs, 0));
    }
    CHECK(xnn_define_fully_connected(graph, -kInfinity, kInfinity, lhs, define_weights(graph, shape),
                                     XNN_INVALID_VALUE_ID, y, 0));
    auto made = std::make_shared<Runtime>(packed);
    CHECK(xnn_create_runtime_v3(graph, made->cache.provider(), pool, 0, &made->runtime));
    CHECK(xnn_delete_subgraph(graph));
    return made;
  }

  uint32_t define_weights(xnn_subgraph* graph, Shape shape) const {
    const size_t dims[] = {static_cast<size_t>(shape.n), static_cast<size_t>(shape.k)};
    uint32_t w;
    if (type_ == xnn_datatype_fp32) {
      CHECK(xnn_define_tensor_value(graph, type_, 2, dims, float_weights(shape).data(), XNN_INVALID_VALUE_ID, 0, &w));
      return w;
    }
    const CanonicalWeights& weights = canonical_weights(shape, format());
    const int32_t zero = format().bits == 4 ? 8 : 0;
    if (type_ == xnn_datatype_qbint4)
      CHECK(xnn_define_blockwise_quantized_tensor_value(
          graph, type_, zero, reinterpret_cast<const uint16_t*>(weights.scales.get()), 2, 0,
          static_cast<size_t>(format().group), dims, weights.codes.get(), XNN_INVALID_VALUE_ID, 0, &w));
    else
      CHECK(xnn_define_channelwise_quantized_tensor_value_v2(graph, type_, zero,
                                                             reinterpret_cast<const float*>(weights.scales.get()), 2, 0,
                                                             dims, weights.codes.get(), XNN_INVALID_VALUE_ID, 0, &w));
    return w;
  }

  const xnn_datatype type_;
};

}  // namespace

Contenders start_xnnpack(int threads) {
  CHECK(xnn_initialize(nullptr));
  if (threads > 1) pool = pthreadpool_create(static_cast<size_t>(threads));
  Contenders contenders;
  const auto add = [&](const char* name, const Format& format, xnn_datatype type) {
    contenders.push_back(std::make_unique<XnnPack>(name, format, type));
  };
  add("f32_xnnpack", kF32, xnn_datatype_fp32);
  add("peer_xnnpack_qb4w_g32", kQb4wG32, xnn_datatype_qbint4);
  add("peer_xnnpack_qb4w_g128", kQb4wG128, xnn_datatype_qbint4);
  add("peer_xnnpack_qc4w", kU4Channel, xnn_datatype_qcint4);
  add("peer_xnnpack_qc8w", kS8Channel, xnn_datatype_qcint8);
  return contenders;
}

std::string xnnpack_conditions() { return "of executorch " QMM_BENCH_XNNPACK ", ISA by CPUID"; }

}  // namespace bench
