// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The entry points that MLIR-compiled code calls: memref descriptors in, a handler instead of a status out.
#include "memref.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "../runtime/error.h"
#include "../runtime/platform.h"
#include "report.h"

namespace {

using qmm::fail;
using qmm::matmul_grouped;
using qmm::matmul_packed;
using qmm::report;
using qmm::rows_packed;

struct Handler {
  qmm_error_handler call;
  void* context;
};

constinit qmm::Mutex handler_mutex;
constinit Handler handler = {nullptr, nullptr};
std::atomic<qmm_status> sticky{QMM_OK};

Handler exchange_handler(const Handler* replacement) {
  handler_mutex.lock();
  const Handler current = handler;
  if (replacement != nullptr) handler = *replacement;
  handler_mutex.unlock();
  return current;
}

// An enumerator of the C structs; what does not fit becomes one that they refuse.
int32_t narrow(int64_t value) { return value == static_cast<int32_t>(value) ? static_cast<int32_t>(value) : -1; }

template <class MemRef>
auto* data(const MemRef& memref) {
  return memref.aligned + memref.offset;
}

// A stride of 0 has a meaning of its own in the C structs, where a memref means it.
qmm_status check_strides(const char* function, const char* name, const qmm_memref_f32_2d& memref) {
  if (memref.strides[1] == 0 && memref.sizes[0] > 0 && memref.sizes[1] > 1)
    return fail(QMM_UNSUPPORTED, "%s: %s [%" PRId64 ", %" PRId64 "] has a column stride of 0", function, name,
                memref.sizes[0], memref.sizes[1]);
  return QMM_OK;
}

qmm_status check_dense(const char* function, const char* name, int64_t size, int64_t stride) {
  if (size > 1 && stride != 1)
    return fail(QMM_UNSUPPORTED, "%s: the innermost stride of %s is %" PRId64 "; it must be 1", function, name, stride);
  return QMM_OK;
}

qmm_status open(const char* function, const qmm_memref_i8_1d& packed, qmm_rhs* rhs) {
  QMM_TRY(check_dense(function, "packed", packed.sizes[0], packed.strides[0]));
  if (packed.sizes[0] < 0)
    return fail(QMM_INVALID_ARGUMENT, "%s: packed has %" PRId64 " bytes", function, packed.sizes[0]);
  *rhs = qmm::sized<qmm_rhs>();
  return qmm_rhs_open(data(packed), static_cast<size_t>(packed.sizes[0]), rhs);
}

qmm_status matmul(const char* function, const qmm_memref_f32_2d& x, qmm_matmul_args& args, const qmm_rhs_desc& desc,
                  int64_t lhs_kind, const qmm_memref_f32_2d& y) {
  if (x.sizes[1] != desc.k || y.sizes[0] != x.sizes[0] || y.sizes[1] != desc.n)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: x is [%" PRId64 ", %" PRId64 "], the weights [%" PRId64 ", %" PRId64 "] and y [%" PRId64
                ", %" PRId64 "]",
                function, x.sizes[0], x.sizes[1], desc.n, desc.k, y.sizes[0], y.sizes[1]);
  QMM_TRY(check_strides(function, "x", x));
  QMM_TRY(check_strides(function, "y", y));
  args.lhs_kind = narrow(lhs_kind);
  args.m = x.sizes[0];
  args.x = data(x);
  args.x_row_stride = x.strides[0];
  args.x_col_stride = x.strides[1];
  args.y = data(y);
  args.y_row_stride = y.strides[0];
  args.y_col_stride = y.strides[1];
  return qmm_matmul(&args);
}

}  // namespace

template <class Sides>
qmm_status qmm::matmul_grouped(const char* function, int32_t scale_dtype, const qmm_memref_f32_2d& x,
                               const qmm_memref_i8_2d& codes, const Sides& scales, const qmm_memref_i8_2d& zeros,
                               const Sides& mins, int64_t bits, int64_t group, int64_t lhs_kind,
                               const qmm_memref_f32_2d& y) {
  const bool has_zeros = zeros.sizes[0] > 0, has_mins = mins.sizes[0] > 0;
  if (has_zeros && has_mins) return fail(QMM_INVALID_ARGUMENT, "%s: give zeros or mins, not both", function);
  auto desc = qmm::sized<qmm_rhs_desc>();
  desc.n = codes.sizes[0];
  desc.k = x.sizes[1];
  desc.group = group;
  desc.bits = narrow(bits);
  desc.offset = has_zeros ? QMM_ZEROS : has_mins ? QMM_MINS : QMM_SYMMETRIC;
  desc.scale_dtype = scale_dtype;
  size_t packed_size;
  QMM_TRY(qmm_packed_size(&desc, &packed_size));  // checks bits and group, on which the next lines build
  const int64_t row_bytes = (desc.k * bits + 7) / 8, groups = group == 0 ? 0 : (desc.k + group - 1) / group;
  const auto check = [&](const char* name, const auto& memref, int64_t columns) -> qmm_status {
    if (memref.sizes[0] != desc.n || memref.sizes[1] != columns)
      return fail(QMM_INVALID_ARGUMENT,
                  "%s: %s are [%" PRId64 ", %" PRId64 "]; for x [%" PRId64 ", %" PRId64 "], %" PRId64
                  " bits and group %" PRId64 " they must be [%" PRId64 ", %" PRId64 "]",
                  function, name, memref.sizes[0], memref.sizes[1], x.sizes[0], x.sizes[1], bits, group, desc.n,
                  columns);
    return check_dense(function, name, columns, memref.strides[1]);
  };
  QMM_TRY(check("codes", codes, row_bytes));
  QMM_TRY(check("scales", scales, groups));
  if (has_zeros) QMM_TRY(check("zeros", zeros, groups));
  if (has_mins) QMM_TRY(check("mins", mins, groups));
  auto weights = qmm::sized<qmm_weights>();
  weights.codes = data(codes);
  weights.codes_stride = codes.strides[0];
  weights.scales = data(scales);
  weights.scales_stride = scales.strides[0];
  if (has_zeros) {
    weights.offsets = data(zeros);
    weights.offsets_stride = zeros.strides[0];
  } else if (has_mins) {
    weights.offsets = data(mins);
    weights.offsets_stride = mins.strides[0];
  }
  auto args = qmm::sized<qmm_matmul_args>();
  args.desc = &desc;
  args.weights = &weights;
  return matmul(function, x, args, desc, lhs_kind, y);
}

template qmm_status qmm::matmul_grouped(const char*, int32_t, const qmm_memref_f32_2d&, const qmm_memref_i8_2d&,
                                        const qmm_memref_f32_2d&, const qmm_memref_i8_2d&, const qmm_memref_f32_2d&,
                                        int64_t, int64_t, int64_t, const qmm_memref_f32_2d&);
template qmm_status qmm::matmul_grouped(const char*, int32_t, const qmm_memref_f32_2d&, const qmm_memref_i8_2d&,
                                        const qmm_memref_u16_2d&, const qmm_memref_i8_2d&, const qmm_memref_u16_2d&,
                                        int64_t, int64_t, int64_t, const qmm_memref_f32_2d&);

qmm_status qmm::matmul_packed(const qmm_memref_f32_2d& x, const qmm_memref_i8_1d& packed, int64_t lhs_kind,
                              const qmm_memref_f32_2d& y) {
  const char* function = "qmm_matmul_packed";
  qmm_rhs rhs;
  QMM_TRY(open(function, packed, &rhs));
  auto args = qmm::sized<qmm_matmul_args>();
  args.rhs = &rhs;
  return matmul(function, x, args, rhs.desc, lhs_kind, y);
}

qmm_status qmm::rows_packed(const qmm_memref_i64_1d& ids, const qmm_memref_i8_1d& packed, const qmm_memref_f32_2d& y) {
  const char* function = "qmm_rows_packed";
  qmm_rhs rhs;
  QMM_TRY(open(function, packed, &rhs));
  if (y.sizes[0] != ids.sizes[0] || y.sizes[1] != rhs.desc.k)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: ids are [%" PRId64 "], the weights [%" PRId64 ", %" PRId64 "] and y [%" PRId64 ", %" PRId64 "]",
                function, ids.sizes[0], rhs.desc.n, rhs.desc.k, y.sizes[0], y.sizes[1]);
  QMM_TRY(check_dense(function, "ids", ids.sizes[0], ids.strides[0]));
  QMM_TRY(check_dense(function, "y", y.sizes[1], y.strides[1]));
  return qmm_dequantize_rows(&rhs, data(ids), ids.sizes[0], data(y), y.strides[0]);
}

void qmm::report(qmm_status status) {
  if (status == QMM_OK) return;
  qmm_status none = QMM_OK;
  sticky.compare_exchange_strong(none, status);
  const Handler current = exchange_handler(nullptr);
  if (current.call != nullptr) return current.call(current.context, status, qmm_last_error());
  std::fprintf(stderr, "libqmm: %s\n", qmm_last_error());
  std::abort();
}

void qmm_set_error_handler(qmm_error_handler new_handler, void* context) {
  const Handler replacement = {new_handler, context};
  exchange_handler(&replacement);
}

qmm_status qmm_sticky_status(void) { return sticky.exchange(QMM_OK); }

void _mlir_ciface_qmm_matmul_packed(const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* packed, int64_t lhs_kind,
                                    const qmm_memref_f32_2d* y) {
  report(matmul_packed(*x, *packed, lhs_kind, *y));
}

void _mlir_ciface_qmm_matmul_grouped_f32(const qmm_memref_f32_2d* x, const qmm_memref_i8_2d* codes,
                                         const qmm_memref_f32_2d* scales, const qmm_memref_i8_2d* zeros,
                                         const qmm_memref_f32_2d* mins, int64_t bits, int64_t group, int64_t lhs_kind,
                                         const qmm_memref_f32_2d* y) {
  report(
      matmul_grouped("qmm_matmul_grouped_f32", QMM_F32, *x, *codes, *scales, *zeros, *mins, bits, group, lhs_kind, *y));
}

void _mlir_ciface_qmm_matmul_grouped_f16(const qmm_memref_f32_2d* x, const qmm_memref_i8_2d* codes,
                                         const qmm_memref_u16_2d* scales, const qmm_memref_i8_2d* zeros,
                                         const qmm_memref_u16_2d* mins, int64_t bits, int64_t group, int64_t lhs_kind,
                                         const qmm_memref_f32_2d* y) {
  report(
      matmul_grouped("qmm_matmul_grouped_f16", QMM_F16, *x, *codes, *scales, *zeros, *mins, bits, group, lhs_kind, *y));
}

void _mlir_ciface_qmm_matmul_grouped_bf16(const qmm_memref_f32_2d* x, const qmm_memref_i8_2d* codes,
                                          const qmm_memref_u16_2d* scales, const qmm_memref_i8_2d* zeros,
                                          const qmm_memref_u16_2d* mins, int64_t bits, int64_t group, int64_t lhs_kind,
                                          const qmm_memref_f32_2d* y) {
  report(matmul_grouped("qmm_matmul_grouped_bf16", QMM_BF16, *x, *codes, *scales, *zeros, *mins, bits, group, lhs_kind,
                        *y));
}

void _mlir_ciface_qmm_rows_packed(const qmm_memref_i64_1d* ids, const qmm_memref_i8_1d* packed,
                                  const qmm_memref_f32_2d* y) {
  report(rows_packed(*ids, *packed, *y));
}

static qmm_memref_i8_1d bytes(const void* data, int64_t size) {
  int8_t* const first = static_cast<int8_t*>(const_cast<void*>(data));  // which is only read
  return {first, first, 0, {size}, {1}};
}

void _mlir_ciface_qmm_matmul_packed_external(const qmm_memref_f32_2d* x, const void* packed, int64_t size,
                                             int64_t lhs_kind, const qmm_memref_f32_2d* y) {
  const qmm_memref_i8_1d weights = bytes(packed, size);
  _mlir_ciface_qmm_matmul_packed(x, &weights, lhs_kind, y);
}

void _mlir_ciface_qmm_rows_packed_external(const qmm_memref_i64_1d* ids, const void* packed, int64_t size,
                                           const qmm_memref_f32_2d* y) {
  const qmm_memref_i8_1d weights = bytes(packed, size);
  _mlir_ciface_qmm_rows_packed(ids, &weights, y);
}
