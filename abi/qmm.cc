// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C functions of qmm.h: the floating-point environment, then the runtime's function of the same name.
#include "qmm/qmm.h"

#include "../runtime/choose.h"
#include "../runtime/cpu.h"
#include "../runtime/environment.h"
#include "../runtime/matmul.h"
#include "../runtime/threads.h"
#include "../runtime/weights.h"

using qmm::FloatEnvironment;

int32_t qmm_abi_version(void) { return QMM_ABI_VERSION; }

const char* qmm_version(void) { return QMM_VERSION; }

const char* qmm_status_name(qmm_status status) {
  switch (status) {
    case QMM_OK: return "QMM_OK";
    case QMM_INVALID_ARGUMENT: return "QMM_INVALID_ARGUMENT";
    case QMM_INVALID_PACKED: return "QMM_INVALID_PACKED";
    case QMM_UNSUPPORTED: return "QMM_UNSUPPORTED";
    case QMM_OUT_OF_MEMORY: return "QMM_OUT_OF_MEMORY";
    default: return "unknown qmm_status";
  }
}

const char* qmm_last_error(void) { return qmm::last_error(); }

qmm_status qmm_quantize(const qmm_rhs_desc* desc, const float* w, int64_t w_stride, const qmm_weights* weights) {
  const FloatEnvironment environment;
  return qmm::quantize(desc, w, w_stride, weights);
}

qmm_status qmm_packed_size(const qmm_rhs_desc* desc, size_t* size) {
  qmm::Layout layout;
  QMM_TRY(qmm::make_layout("qmm_packed_size", desc, &layout));
  if (size == nullptr) return qmm::fail(QMM_INVALID_ARGUMENT, "qmm_packed_size: size is null");
  *size = static_cast<size_t>(layout.size);
  return QMM_OK;
}

qmm_status qmm_pack(const qmm_rhs_desc* desc, const qmm_weights* weights, void* packed, size_t packed_size) {
  return qmm::pack(desc, weights, packed, packed_size);
}

qmm_status qmm_unpack(const qmm_rhs* rhs, const qmm_weights* weights) { return qmm::unpack(rhs, weights); }

qmm_status qmm_rhs_open(const void* packed, size_t packed_size, qmm_rhs* rhs) {
  return qmm::open_packed(packed, packed_size, rhs);
}

qmm_status qmm_rhs_verify(const qmm_rhs* rhs) { return qmm::verify(rhs); }

qmm_status qmm_dequantize_rows(const qmm_rhs* rhs, const int64_t* ids, int64_t count, float* y, int64_t y_stride) {
  const FloatEnvironment environment;
  return qmm::dequantize_rows(rhs, ids, count, y, y_stride);
}

int64_t qmm_max_threads(void) { return qmm::max_threads(); }

qmm_status qmm_set_num_threads(int64_t num_threads) { return qmm::set_num_threads(num_threads); }

qmm_status qmm_set_threads(const qmm_threads* threads) { return qmm::set_threads(threads); }

int64_t qmm_num_threads(void) { return qmm::default_threads().num_threads; }

qmm_status qmm_run(qmm_task task, void* arg, int64_t count) { return qmm::run(task, arg, count); }

qmm_status qmm_matmul(const qmm_matmul_args* args) { return qmm::matmul(args); }

qmm_status qmm_scratch_size(const qmm_matmul_args* args, size_t* size) { return qmm::scratch_size(args, size); }

qmm_status qmm_lhs_size(const qmm_matmul_args* args, size_t* size) { return qmm::lhs_size(args, size); }

qmm_status qmm_quantize_lhs(const qmm_matmul_args* args, void* lhs, size_t lhs_size) {
  return qmm::quantize_lhs(args, lhs, lhs_size);
}

uint64_t qmm_cpu_features(void) {
  uint64_t features = 0;
  return qmm::process_features(&features) == QMM_OK ? features : 0;
}

const char* qmm_cpu_feature_name(uint64_t feature) { return qmm::feature_name(feature); }

qmm_status qmm_describe_cpu(qmm_cpu_info* info) { return qmm::describe_cpu(info); }

int64_t qmm_num_kernels(void) { return static_cast<int64_t>(qmm::kernels().size()); }

qmm_status qmm_describe_kernel(int64_t index, qmm_kernel_info* info) { return qmm::describe_kernel(index, info); }

qmm_status qmm_kernel_name(int32_t lhs_kind, const qmm_rhs_desc* desc, int64_t m, const char** name) {
  return qmm::kernel_name(lhs_kind, desc, m, name);
}
