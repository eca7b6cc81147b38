// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdio>
#include <cstdlib>

#include "contender.h"

namespace bench {
namespace {

const char* lhs_name(int32_t kind) { return kind == QMM_LHS_F32 ? "f32" : kind == QMM_LHS_S8 ? "s8" : "s8_token"; }

class LibQmm : public Contender {
 public:
  LibQmm(const Format& format, int32_t lhs_kind)
      : Contender(std::string("qmm_") + format.name + "_" + lhs_name(lhs_kind), format,
                  lhs_kind == QMM_LHS_F32 ? kFloatTolerance : kDynamicTolerance),
        lhs_kind_(lhs_kind) {}

  Buffer<std::byte> pack(Shape shape) const override {
    const CanonicalWeights& weights = canonical_weights(shape, format());
    const qmm_weights arrays = weights.arrays();
    size_t size;
    require(qmm_packed_size(&weights.desc, &size));
    auto packed = allocate<std::byte>(size);
    require(qmm_pack(&weights.desc, &arrays, packed.get(), size));
    return packed;
  }

  Bound bind(Shape shape, int64_t m, const float* x, const std::byte* packed, float* y) const override {
    struct Call {
      qmm_rhs rhs = {};
      qmm_matmul_args args = {};
    };
    const auto call = std::make_shared<Call>();
    call->rhs.struct_size = sizeof call->rhs;
    const qmm_rhs_desc desc = describe(shape, format());
    size_t size;
    require(qmm_packed_size(&desc, &size));
    require(qmm_rhs_open(packed, size, &call->rhs));
    call->args.struct_size = sizeof call->args;
    call->args.lhs_kind = lhs_kind_;
    call->args.m = m;
    call->args.x = x;
    call->args.x_row_stride = shape.k;
    call->args.rhs = &call->rhs;
    call->args.y = y;
    call->args.y_row_stride = shape.n;
    const char* kernel;
    require(qmm_kernel_name(lhs_kind_, &call->rhs.desc, m, &kernel));
    return {[call] { require(qmm_matmul(&call->args)); }, kernel};
  }

 private:
  const int32_t lhs_kind_;
};

}  // namespace

std::unique_ptr<Contender> make_libqmm(const Format& format, int32_t lhs_kind) {
  return std::make_unique<LibQmm>(format, lhs_kind);
}

Contenders start_libqmm(int threads) {
  require(qmm_set_num_threads(threads));
  if (qmm_num_threads() != threads) {
    std::fprintf(stderr, "qmm_bench: --threads=%d, but this process may use %d CPUs\n", threads,
                 static_cast<int>(qmm_max_threads()));
    std::exit(1);
  }
  Contenders contenders;
  for (const Format& format : {kU4G32, kU4G32Mins, kU4G128, kU4Channel, kS8G32, kS8Channel})
    for (const int32_t lhs_kind : {QMM_LHS_F32, QMM_LHS_S8}) contenders.push_back(make_libqmm(format, lhs_kind));
  return contenders;
}

std::string libqmm_conditions() { return qmm_version(); }

}  // namespace bench
