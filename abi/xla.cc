// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The custom calls of XLA's CPU client: what a typed or an untyped call says becomes memrefs, and goes the way of
// compiled code.
#include "qmm/xla.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "../runtime/error.h"
#include "memref.h"
#include "report.h"
#include "xla_descriptor.h"
#include "xla_ffi.h"

namespace qmm {
namespace {

constexpr char kMatmulPacked[] = "qmm_matmul_packed", kMatmulGrouped[] = "qmm_matmul_grouped",
               kRowsPacked[] = "qmm_rows_packed";

// ---- what both kinds of handlers run --------------------------------------------------------------------------------

// A dense tensor, its extents but the last folded.
struct Matrix {
  const void* data;
  int64_t rows, columns;
};

template <class MemRef>
MemRef view(const Matrix& m) {
  using Element = std::remove_pointer_t<decltype(MemRef::aligned)>;
  MemRef memref = {};
  memref.aligned = static_cast<Element*>(const_cast<void*>(m.data));
  if constexpr (sizeof memref.sizes == sizeof(int64_t)) {
    memref.sizes[0] = m.rows * m.columns;
    memref.strides[0] = 1;
  } else {
    memref.sizes[0] = m.rows;
    memref.sizes[1] = m.columns;
    memref.strides[0] = m.columns;
    memref.strides[1] = 1;
  }
  return memref;
}

struct Grouped {
  int64_t bits, group;
  int32_t scale_dtype;
  Matrix codes, scales, zeros, mins;
};

qmm_status run_matmul_packed(const Matrix& x, const Matrix& packed, int64_t lhs_kind, const Matrix& y) {
  return matmul_packed(view<qmm_memref_f32_2d>(x), view<qmm_memref_i8_1d>(packed), lhs_kind,
                       view<qmm_memref_f32_2d>(y));
}

qmm_status run_matmul_grouped(const Matrix& x, const Grouped& w, int64_t lhs_kind, const Matrix& y) {
  const auto run = [&]<class Sides>(const Sides& scales, const Sides& mins) {
    return matmul_grouped(kMatmulGrouped, w.scale_dtype, view<qmm_memref_f32_2d>(x), view<qmm_memref_i8_2d>(w.codes),
                          scales, view<qmm_memref_i8_2d>(w.zeros), mins, w.bits, w.group, lhs_kind,
                          view<qmm_memref_f32_2d>(y));
  };
  return w.scale_dtype == QMM_F32 ? run(view<qmm_memref_f32_2d>(w.scales), view<qmm_memref_f32_2d>(w.mins))
                                  : run(view<qmm_memref_u16_2d>(w.scales), view<qmm_memref_u16_2d>(w.mins));
}

qmm_status run_rows_packed(const Matrix& ids, const Matrix& packed, const Matrix& y) {
  return rows_packed(view<qmm_memref_i64_1d>(ids), view<qmm_memref_i8_1d>(packed), view<qmm_memref_f32_2d>(y));
}

// ---- typed: a call frame --------------------------------------------------------------------------------------------

using ffi::Dtype;

// Text of a sentence, cut where it has no more room.
class Text {
 public:
  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text_ + size_, sizeof text_ - size_, format, arguments);
    va_end(arguments);
    size_ = std::min(size_ + static_cast<size_t>(std::max(length, 0)), sizeof text_ - 1);
  }
  const char* get() const { return text_; }

 private:
  char text_[160] = "";
  size_t size_ = 0;
};

void print(Text* text, Dtype dtype) {
  constexpr struct {
    Dtype dtype;
    const char* name;
  } kNames[] = {{Dtype::S8, "s8"},   {Dtype::S32, "s32"}, {Dtype::S64, "s64"},  {Dtype::U8, "u8"},
                {Dtype::F16, "f16"}, {Dtype::F32, "f32"}, {Dtype::BF16, "bf16"}};
  for (const auto& known : kNames)
    if (known.dtype == dtype) return text->print("%s", known.name);
  text->print("dtype %d", static_cast<int>(dtype));
}

// "f32 [2, 64]"
Text describe(const ffi::Buffer& buffer) {
  Text text;
  print(&text, buffer.dtype);
  text.print(" [");
  for (int64_t i = 0; i < buffer.rank; ++i) text.print(i == 0 ? "%" PRId64 : ", %" PRId64, buffer.extents[i]);
  text.print("]");
  return text;
}

using Dtypes = std::span<const Dtype>;
constexpr Dtype kF32[] = {Dtype::F32}, kScales[] = {Dtype::F32, Dtype::F16, Dtype::BF16}, kU8[] = {Dtype::U8},
                kS8[] = {Dtype::S8}, kBytes[] = {Dtype::S8, Dtype::U8}, kS64[] = {Dtype::S64};

struct Rank {
  int64_t least, most;
};
constexpr int64_t kAny = INT64_MAX;

// A tensor of a call, checked.
struct Tensor {
  ffi::Buffer buffer;
  Matrix matrix;
};

// A call frame, whose parts are checked as they are asked for.
class Call {
 public:
  Call(const char* function, const ffi::CallFrame& frame) : function_(function), frame_(frame) {}

  qmm_status check_counts(int64_t operands) const {
    if (frame_.arguments.size != operands || frame_.results.size != 1)
      return fail(QMM_INVALID_ARGUMENT,
                  "%s: %" PRId64 " operands and %" PRId64 " results; it has %" PRId64 " operands and 1 result",
                  function_, frame_.arguments.size, frame_.results.size, operands);
    return QMM_OK;
  }

  qmm_status operand(int64_t i, const char* name, Dtypes dtypes, Rank rank, Tensor* operand) const {
    return tensor(frame_.arguments, i, name, dtypes, rank, operand);
  }

  // Finds y: f32, of the first `leading` extents of `rows` and one more.
  qmm_status result(const char* name, const ffi::Buffer& rows, int64_t leading, Tensor* result) const {
    QMM_TRY(tensor(frame_.results, 0, "y", kF32, {0, kAny}, result));
    const ffi::Buffer& y = result->buffer;
    if (y.rank != leading + 1 || !std::equal(rows.extents, rows.extents + leading, y.extents))
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %s and y %s; y must have the extents of %s%s and one more",
                  function_, name, describe(rows).get(), describe(y).get(), name,
                  leading < rows.rank ? " but the last" : "");
    return QMM_OK;
  }

  // Reads the attributes; a target without one of them gives nullptr.
  qmm_status attributes(int64_t* lhs_kind, int64_t* bits, int64_t* group) const {
    struct {
      const char* name;
      int64_t* value;
      bool given;
    } integers[] = {{"bits", bits, false}, {"group", group, false}};

    const ffi::Attributes& a = frame_.attributes;
    for (int64_t i = 0; i < a.size; ++i) {
      const std::string_view name(a.names[i]->data, a.names[i]->size);
      bool known = false;
      if (name == "lhs" && lhs_kind != nullptr) {
        known = true;
        QMM_TRY(read_lhs(a.types[i], a.values[i], lhs_kind));
      }
      for (auto& integer : integers)
        if (name == integer.name && integer.value != nullptr) {
          known = integer.given = true;
          QMM_TRY(read_integer(integer.name, a.types[i], a.values[i], integer.value));
        }
      if (!known)
        return fail(QMM_INVALID_ARGUMENT, "%s: it has no attribute '%.*s'", function_, length(name), name.data());
    }
    for (const auto& integer : integers)
      if (integer.value != nullptr && !integer.given)
        return fail(QMM_INVALID_ARGUMENT, "%s: the attribute '%s' is missing", function_, integer.name);
    return QMM_OK;
  }

 private:
  static int length(std::string_view text) { return static_cast<int>(std::min<size_t>(text.size(), 100)); }

  qmm_status tensor(const ffi::Values& values, int64_t i, const char* name, Dtypes dtypes, Rank rank,
                    Tensor* tensor) const {
    if (values.types[i] != ffi::kBuffer) return fail(QMM_INVALID_ARGUMENT, "%s: %s is no tensor", function_, name);
    const auto& b = *static_cast<const ffi::Buffer*>(values.values[i]);
    if (std::find(dtypes.begin(), dtypes.end(), b.dtype) == dtypes.end()) {
      Text allowed;
      for (const Dtype& dtype : dtypes) {
        if (&dtype != dtypes.data()) allowed.print(" or ");
        print(&allowed, dtype);
      }
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %s; it must be %s", function_, name, describe(b).get(),
                  allowed.get());
    }
    if (b.rank < rank.least || b.rank > rank.most)
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %s; it must have %srank %" PRId64, function_, name,
                  describe(b).get(), rank.most == kAny ? "at least " : "", rank.least);
    *tensor = {b, {b.data, 1, 1}};
    if (!fold(b, &tensor->matrix))
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %s; its extents must be 0 or more, and their product below 2^63",
                  function_, name, describe(b).get());
    return QMM_OK;
  }

  // Folds all extents but the last. Returns false where that is no matrix.
  static bool fold(const ffi::Buffer& buffer, Matrix* m) {
    for (int64_t i = 0; i < buffer.rank; ++i) {
      const int64_t extent = buffer.extents[i];
      if (extent < 0 || __builtin_mul_overflow(m->rows, m->columns, &m->rows)) return false;
      m->columns = extent;
    }
    int64_t size;  // of which what sees the tensor as one row makes use
    return !__builtin_mul_overflow(m->rows, m->columns, &size);
  }

  qmm_status read_lhs(int type, const void* value, int64_t* lhs_kind) const {
    constexpr const char* kKinds[] = {"f32", "s8", "s8_token"};
    static_assert(QMM_LHS_F32 == 0 && QMM_LHS_S8 == 1 && QMM_LHS_S8_TOKEN == 2);
    if (type != ffi::kString)
      return fail(QMM_INVALID_ARGUMENT, "%s: the attribute 'lhs' is no string; it must be 'f32', 's8' or 's8_token'",
                  function_);
    const auto& span = *static_cast<const ffi::Span*>(value);
    const std::string_view lhs(span.data, span.size);
    const auto* const kind = std::find(std::begin(kKinds), std::end(kKinds), lhs);
    if (kind == std::end(kKinds))
      return fail(QMM_INVALID_ARGUMENT, "%s: lhs is '%.*s'; it must be one of 'f32', 's8', 's8_token'", function_,
                  length(lhs), lhs.data());
    *lhs_kind = kind - kKinds;
    return QMM_OK;
  }

  qmm_status read_integer(const char* name, int type, const void* value, int64_t* integer) const {
    if (type == ffi::kScalar) {
      const auto& scalar = *static_cast<const ffi::Scalar*>(value);
      if (scalar.dtype == Dtype::S64) return *integer = *static_cast<const int64_t*>(scalar.value), QMM_OK;
      if (scalar.dtype == Dtype::S32) return *integer = *static_cast<const int32_t*>(scalar.value), QMM_OK;
    }
    return fail(QMM_INVALID_ARGUMENT, "%s: the attribute '%s' is no signed integer of 32 or 64 bits", function_, name);
  }

  const char* function_;
  const ffi::CallFrame& frame_;
};

qmm_status typed_matmul_packed(const Call& call) {
  int64_t lhs_kind = QMM_LHS_F32;
  Tensor x = {}, packed = {}, y = {};
  QMM_TRY(call.attributes(&lhs_kind, nullptr, nullptr));
  QMM_TRY(call.check_counts(2));
  QMM_TRY(call.operand(0, "x", kF32, {1, kAny}, &x));
  QMM_TRY(call.operand(1, "packed", kU8, {1, 1}, &packed));
  QMM_TRY(call.result("x", x.buffer, x.buffer.rank - 1, &y));
  return run_matmul_packed(x.matrix, packed.matrix, lhs_kind, y.matrix);
}

qmm_status typed_matmul_grouped(const Call& call) {
  int64_t lhs_kind = QMM_LHS_F32;
  Grouped w = {};
  Tensor x = {}, codes = {}, scales = {}, zeros = {}, mins = {}, y = {};
  QMM_TRY(call.attributes(&lhs_kind, &w.bits, &w.group));
  QMM_TRY(call.check_counts(5));
  QMM_TRY(call.operand(0, "x", kF32, {1, kAny}, &x));
  QMM_TRY(call.operand(1, "codes", w.bits == 4 ? Dtypes(kU8) : kBytes, {2, 2}, &codes));
  QMM_TRY(call.operand(2, "scales", kScales, {2, 2}, &scales));
  // 8-bit zeros must say that they are signed: an unsigned 128 would be taken for -128.
  QMM_TRY(call.operand(3, "zeros", w.bits == 4 ? Dtypes(kBytes) : kS8, {2, 2}, &zeros));
  const Dtype scale = scales.buffer.dtype;
  QMM_TRY(call.operand(4, "mins", {&scale, 1}, {2, 2}, &mins));
  QMM_TRY(call.result("x", x.buffer, x.buffer.rank - 1, &y));
  w.scale_dtype = scale == Dtype::F32 ? QMM_F32 : scale == Dtype::F16 ? QMM_F16 : QMM_BF16;
  w.codes = codes.matrix;
  w.scales = scales.matrix;
  w.zeros = zeros.matrix;
  w.mins = mins.matrix;
  return run_matmul_grouped(x.matrix, w, lhs_kind, y.matrix);
}

qmm_status typed_rows_packed(const Call& call) {
  Tensor ids = {}, packed = {}, y = {};
  QMM_TRY(call.attributes(nullptr, nullptr, nullptr));
  QMM_TRY(call.check_counts(2));
  QMM_TRY(call.operand(0, "ids", kS64, {0, kAny}, &ids));
  QMM_TRY(call.operand(1, "packed", kU8, {1, 1}, &packed));
  QMM_TRY(call.result("ids", ids.buffer, ids.buffer.rank, &y));
  return run_rows_packed(ids.matrix, packed.matrix, y.matrix);
}

// Answers the question for the handler's version: XLA refuses one that is newer than its own.
bool answer_metadata(const ffi::CallFrame& frame) {
  for (ffi::Extension* e = frame.extensions; e != nullptr; e = e->next)
    if (e->type == ffi::kMetadataExtension) {
      ffi::Metadata& metadata = *reinterpret_cast<ffi::MetadataExtension*>(e)->metadata;
      metadata.version.major = ffi::kMajor;
      metadata.version.minor = ffi::kMinor;
      metadata.traits = 0;
      return true;
    }
  return false;
}

ffi::ErrorCode error_code(qmm_status status) {
  return status == QMM_UNSUPPORTED     ? ffi::ErrorCode::Unimplemented
         : status == QMM_OUT_OF_MEMORY ? ffi::ErrorCode::ResourceExhausted
                                       : ffi::ErrorCode::InvalidArgument;
}

XLA_FFI_Error* run_typed(const char* function, qmm_status (*run)(const Call&), XLA_FFI_CallFrame* given) {
  const auto& frame = *reinterpret_cast<const ffi::CallFrame*>(given);
  const bool has_fields = frame.struct_size >= sizeof frame;
  if (has_fields && answer_metadata(frame)) return nullptr;
  // Of another interface nothing is known, not even how to say so.
  const ffi::ApiVersion none = {0, nullptr, -1, -1}, &version = has_fields ? frame.api->version : none;
  if (version.major != ffi::kMajor || version.minor < ffi::kMinor || frame.api->struct_size < sizeof *frame.api) {
    report(fail(QMM_UNSUPPORTED,
                "%s: a call frame of %zu bytes, XLA's FFI of version %d.%d with %zu bytes; it takes frames of %zu "
                "bytes, version %d.%d or later with %zu bytes",
                function, frame.struct_size, version.major, version.minor, has_fields ? frame.api->struct_size : 0,
                sizeof frame, ffi::kMajor, ffi::kMinor, sizeof *frame.api));
    return nullptr;
  }
  const qmm_status status =
      frame.stage == ffi::Stage::Execute
          ? run(Call(function, frame))
          : fail(QMM_UNSUPPORTED, "%s: called in stage %d; it runs in the stage \"execute\" alone", function,
                 static_cast<int>(frame.stage));
  if (status == QMM_OK) return nullptr;
  ffi::ErrorCreateArgs error = {sizeof error, nullptr, qmm_last_error(), error_code(status)};
  return frame.api->create_error(&error);
}

// ---- untyped: a descriptor ------------------------------------------------------------------------------------------

static_assert(sizeof(qmm_xla_descriptor) == 64);

}  // namespace

qmm_status read_descriptor(const char* target, const char* opaque, size_t opaque_len, qmm_xla_descriptor* d) {
  if (opaque_len != sizeof *d)
    return fail(QMM_INVALID_ARGUMENT, "%s: the descriptor has %zu bytes; it must have %zu", target, opaque_len,
                sizeof *d);
  std::memcpy(d, opaque, sizeof *d);
  if (d->version != QMM_XLA_DESCRIPTOR_VERSION)
    return fail(QMM_UNSUPPORTED, "%s: the descriptor has version %" PRIu32 "; this library reads version %d", target,
                d->version, QMM_XLA_DESCRIPTOR_VERSION);
  if (d->size != sizeof *d)
    return fail(QMM_INVALID_ARGUMENT, "%s: the descriptor says that it has %" PRIu32 " bytes; it has %zu", target,
                d->size, sizeof *d);
  // What a target has no use for tells descriptors of other targets apart.
  const bool is_rows = target == std::string_view(kRowsPacked), is_grouped = target == std::string_view(kMatmulGrouped);
  const struct {
    const char* name;
    int64_t value;
    bool used;
  } fields[] = {
      {"lhs_kind", d->lhs_kind, !is_rows},         {"bits", d->bits, is_grouped}, {"offset", d->offset, is_grouped},
      {"scale_dtype", d->scale_dtype, is_grouped}, {"n", d->n, !is_rows},         {"group", d->group, is_grouped},
      {"packed_size", d->packed_size, !is_grouped}};
  for (const auto& field : fields)
    if (!field.used && field.value != 0)
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %" PRId64 " in the descriptor; here it must be 0", target,
                  field.name, field.value);
  return QMM_OK;
}

namespace {

qmm_status opaque_matmul_packed(void* out, const void** in, const char* opaque, size_t opaque_len) {
  qmm_xla_descriptor d;
  QMM_TRY(read_descriptor(kMatmulPacked, opaque, opaque_len, &d));
  return run_matmul_packed({in[0], d.m, d.k}, {in[1], 1, d.packed_size}, d.lhs_kind, {out, d.m, d.n});
}

qmm_status opaque_matmul_grouped(void* out, const void** in, const char* opaque, size_t opaque_len) {
  qmm_xla_descriptor d;
  QMM_TRY(read_descriptor(kMatmulGrouped, opaque, opaque_len, &d));
  auto desc = sized<qmm_rhs_desc>();
  desc.n = d.n;
  desc.k = d.k;
  desc.group = d.group;
  desc.bits = d.bits;
  desc.offset = d.offset;
  desc.scale_dtype = d.scale_dtype;
  size_t packed_size;
  QMM_TRY(qmm_packed_size(&desc, &packed_size));  // checks all of it, on which the next lines build
  const int64_t groups = d.k == 0 ? 0 : (d.k + d.group - 1) / d.group;
  const Grouped w = {d.bits,
                     d.group,
                     d.scale_dtype,
                     {in[1], d.n, (d.k * d.bits + 7) / 8},
                     {in[2], d.n, groups},
                     {in[3], d.offset == QMM_ZEROS ? d.n : 0, groups},
                     {in[4], d.offset == QMM_MINS ? d.n : 0, groups}};
  return run_matmul_grouped({in[0], d.m, d.k}, w, d.lhs_kind, {out, d.m, d.n});
}

qmm_status opaque_rows_packed(void* out, const void** in, const char* opaque, size_t opaque_len) {
  qmm_xla_descriptor d;
  QMM_TRY(read_descriptor(kRowsPacked, opaque, opaque_len, &d));
  return run_rows_packed({in[0], 1, d.m}, {in[1], 1, d.packed_size}, {out, d.m, d.k});
}

std::atomic<qmm_xla_status_setter*> status_setter;

void finish_untyped(qmm_status result, XlaCustomCallStatus_* status) {
  if (result == QMM_OK) return;
  qmm_xla_status_setter* const set = status_setter.load(std::memory_order_acquire);
  if (set == nullptr || status == nullptr) return report(result);
  const char* const sentence = qmm_last_error();
  set(status, sentence, std::strlen(sentence));
}

}  // namespace
}  // namespace qmm

XLA_FFI_Error* qmm_xla_ffi_matmul_packed(XLA_FFI_CallFrame* frame) {
  return qmm::run_typed(qmm::kMatmulPacked, qmm::typed_matmul_packed, frame);
}

XLA_FFI_Error* qmm_xla_ffi_matmul_grouped(XLA_FFI_CallFrame* frame) {
  return qmm::run_typed(qmm::kMatmulGrouped, qmm::typed_matmul_grouped, frame);
}

XLA_FFI_Error* qmm_xla_ffi_rows_packed(XLA_FFI_CallFrame* frame) {
  return qmm::run_typed(qmm::kRowsPacked, qmm::typed_rows_packed, frame);
}

void qmm_xla_set_status_setter(qmm_xla_status_setter* setter) {
  qmm::status_setter.store(setter, std::memory_order_release);
}

void qmm_xla_opaque_matmul_packed(void* out, const void** in, const char* opaque, size_t opaque_len,
                                  XlaCustomCallStatus_* status) {
  qmm::finish_untyped(qmm::opaque_matmul_packed(out, in, opaque, opaque_len), status);
}

void qmm_xla_opaque_matmul_grouped(void* out, const void** in, const char* opaque, size_t opaque_len,
                                   XlaCustomCallStatus_* status) {
  qmm::finish_untyped(qmm::opaque_matmul_grouped(out, in, opaque, opaque_len), status);
}

void qmm_xla_opaque_rows_packed(void* out, const void** in, const char* opaque, size_t opaque_len,
                                XlaCustomCallStatus_* status) {
  qmm::finish_untyped(qmm::opaque_rows_packed(out, in, opaque, opaque_len), status);
}
