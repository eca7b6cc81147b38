// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The custom calls of XLA's CPU client: what a typed or an untyped call says becomes memrefs, and goes the way of
// compiled code.
#include "qmm/xla.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "../runtime/arena.h"
#include "../runtime/error.h"
#include "memref.h"
#include "report.h"
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

const char* name_of(Dtype dtype) {
  constexpr const char* kNames[] = {
      "invalid", "pred",   "s8",       "s16", "s32",   "s64",           "u8",         "u16",        "u32",
      "u64",     "f16",    "f32",      "f64", "tuple", "opaque",        "c64",        "bf16",       "token",
      "c128",    "f8e5m2", "f8e4m3fn", "s4",  "u4",    "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s2",
      "u2",      "f8e4m3", "f8e3m4",   "s1",  "u1",    "f4e2m1fn",      "f8e8m0fnu"};
  const auto number = static_cast<size_t>(dtype);
  return number < std::size(kNames) ? kNames[number] : "of an unknown dtype";
}

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

// "f32 [2, 64]"
Text describe(const ffi::Buffer& buffer) {
  Text text;
  text.print("%s [", name_of(buffer.dtype));
  for (int64_t i = 0; i < buffer.rank; ++i) text.print(i == 0 ? "%" PRId64 : ", %" PRId64, buffer.extents[i]);
  text.print("]");
  return text;
}

struct Rank {
  int64_t least, most;
};
constexpr int64_t kAny = INT64_MAX;

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

  qmm_status operand(int64_t i, const char* name, std::initializer_list<Dtype> dtypes, Rank rank,
                     ffi::Buffer* buffer) const {
    return tensor(frame_.arguments, i, name, dtypes, rank, buffer);
  }

  // Finds y: f32, of the first `leading` extents of `rows` and one more.
  qmm_status result(const char* name, const ffi::Buffer& rows, int64_t leading, ffi::Buffer* buffer) const {
    QMM_TRY(tensor(frame_.results, 0, "y", {Dtype::F32}, {0, kAny}, buffer));
    const ffi::Buffer& y = *buffer;
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

  qmm_status tensor(const ffi::Values& values, int64_t i, const char* name, std::initializer_list<Dtype> dtypes,
                    Rank rank, ffi::Buffer* buffer) const {
    if (values.types[i] != ffi::kBuffer) return fail(QMM_INVALID_ARGUMENT, "%s: %s is no tensor", function_, name);
    const auto& b = *static_cast<const ffi::Buffer*>(values.values[i]);
    if (std::find(dtypes.begin(), dtypes.end(), b.dtype) == dtypes.end()) {
      Text allowed;
      for (const Dtype& dtype : dtypes) allowed.print(&dtype == dtypes.begin() ? "%s" : " or %s", name_of(dtype));
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %s; it must be %s", function_, name, describe(b).get(),
                  allowed.get());
    }
    if (b.rank < rank.least || b.rank > rank.most)
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %s; it must have %srank %" PRId64, function_, name,
                  describe(b).get(), rank.most == kAny ? "at least " : "", rank.least);
    *buffer = b;
    return QMM_OK;
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

Matrix fold(const ffi::Buffer& buffer) {
  Matrix m = {buffer.data, 1, 1};
  for (int64_t i = 0; i < buffer.rank; ++i) {
    m.rows *= m.columns;
    m.columns = buffer.extents[i];
  }
  return m;
}

qmm_status typed_matmul_packed(const Call& call) {
  int64_t lhs_kind = QMM_LHS_F32;
  ffi::Buffer x = {}, packed = {}, y = {};
  QMM_TRY(call.attributes(&lhs_kind, nullptr, nullptr));
  QMM_TRY(call.check_counts(2));
  QMM_TRY(call.operand(0, "x", {Dtype::F32}, {1, kAny}, &x));
  QMM_TRY(call.operand(1, "packed", {Dtype::U8, Dtype::S8}, {1, 1}, &packed));
  QMM_TRY(call.result("x", x, x.rank - 1, &y));
  return run_matmul_packed(fold(x), fold(packed), lhs_kind, fold(y));
}

qmm_status typed_matmul_grouped(const Call& call) {
  int64_t lhs_kind = QMM_LHS_F32;
  Grouped w = {};
  ffi::Buffer x = {}, codes = {}, scales = {}, zeros = {}, mins = {}, y = {};
  QMM_TRY(call.attributes(&lhs_kind, &w.bits, &w.group));
  QMM_TRY(call.check_counts(5));
  QMM_TRY(call.operand(0, "x", {Dtype::F32}, {1, kAny}, &x));
  QMM_TRY(call.operand(1, "codes", {Dtype::U8, Dtype::S8}, {2, 2}, &codes));
  QMM_TRY(call.operand(2, "scales", {Dtype::F32, Dtype::F16, Dtype::BF16}, {2, 2}, &scales));
  // 8-bit zeros must say that they are signed: an unsigned 128 would be taken for -128.
  QMM_TRY(w.bits == 4 ? call.operand(3, "zeros", {Dtype::S8, Dtype::U8}, {2, 2}, &zeros)
                      : call.operand(3, "zeros", {Dtype::S8}, {2, 2}, &zeros));
  QMM_TRY(call.operand(4, "mins", {scales.dtype}, {2, 2}, &mins));
  QMM_TRY(call.result("x", x, x.rank - 1, &y));
  w.scale_dtype = scales.dtype == Dtype::F32 ? QMM_F32 : scales.dtype == Dtype::F16 ? QMM_F16 : QMM_BF16;
  w.codes = fold(codes);
  w.scales = fold(scales);
  w.zeros = fold(zeros);
  w.mins = fold(mins);
  return run_matmul_grouped(fold(x), w, lhs_kind, fold(y));
}

qmm_status typed_rows_packed(const Call& call) {
  ffi::Buffer ids = {}, packed = {}, y = {};
  QMM_TRY(call.attributes(nullptr, nullptr, nullptr));
  QMM_TRY(call.check_counts(2));
  QMM_TRY(call.operand(0, "ids", {Dtype::S64, Dtype::S32}, {0, kAny}, &ids));
  QMM_TRY(call.operand(1, "packed", {Dtype::U8, Dtype::S8}, {1, 1}, &packed));
  QMM_TRY(call.result("ids", ids, ids.rank, &y));
  const Matrix given = fold(ids);
  if (ids.dtype == Dtype::S64) return run_rows_packed(given, fold(packed), fold(y));
  const int64_t count = given.rows * given.columns;
  const size_t size = static_cast<size_t>(count) * sizeof(int64_t);
  const Arena arena(size);
  auto* const widened = static_cast<int64_t*>(arena.memory());
  if (widened == nullptr && size != 0)
    return fail(QMM_OUT_OF_MEMORY, "%s: no memory for %zu bytes of scratch", kRowsPacked, size);
  std::copy_n(static_cast<const int32_t*>(given.data), count, widened);
  return run_rows_packed({widened, 1, count}, fold(packed), fold(y));
}

// Answers the question for the handler's version with the newest that both sides know, or else with its own, for XLA to
// refuse.
bool answer_metadata(const ffi::CallFrame& frame) {
  for (ffi::Extension* e = frame.extensions; e != nullptr; e = e->next)
    if (e->type == ffi::kMetadataExtension) {
      const ffi::ApiVersion& theirs = frame.api->version;
      ffi::Metadata& metadata = *reinterpret_cast<ffi::MetadataExtension*>(e)->metadata;
      metadata.version.major = ffi::kMajor;
      metadata.version.minor = theirs.major == ffi::kMajor ? std::min(theirs.minor, ffi::kMinor) : ffi::kMinor;
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
  if (!has_fields || frame.api->version.major != ffi::kMajor || frame.api->struct_size < sizeof *frame.api) {
    report(fail(QMM_UNSUPPORTED, "%s: a call frame of %zu bytes, API version %d; XLA's FFI of version 0 has %zu bytes",
                function, frame.struct_size, has_fields ? frame.api->version.major : -1, sizeof frame));
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

qmm_status read_descriptor(const char* function, const char* opaque, size_t opaque_len, qmm_xla_descriptor* d) {
  if (opaque_len != sizeof *d)
    return fail(QMM_INVALID_ARGUMENT, "%s: the descriptor has %zu bytes; it must have %zu", function, opaque_len,
                sizeof *d);
  std::memcpy(d, opaque, sizeof *d);
  if (d->version != QMM_XLA_DESCRIPTOR_VERSION)
    return fail(QMM_UNSUPPORTED, "%s: the descriptor has version %" PRIu32 "; this library reads version %d", function,
                d->version, QMM_XLA_DESCRIPTOR_VERSION);
  if (d->size != sizeof *d)
    return fail(QMM_INVALID_ARGUMENT, "%s: the descriptor says that it has %" PRIu32 " bytes; it has %zu", function,
                d->size, sizeof *d);
  return QMM_OK;
}

struct Field {
  const char* name;
  int64_t value;
};

// What a target has no use for must be 0, which tells descriptors of other targets apart.
qmm_status check_unused(const char* function, std::initializer_list<Field> fields) {
  for (const Field& field : fields)
    if (field.value != 0)
      return fail(QMM_INVALID_ARGUMENT, "%s: %s is %" PRId64 " in the descriptor; here it must be 0", function,
                  field.name, field.value);
  return QMM_OK;
}

qmm_status opaque_matmul_packed(void* out, const void** in, const char* opaque, size_t opaque_len) {
  qmm_xla_descriptor d;
  QMM_TRY(read_descriptor(kMatmulPacked, opaque, opaque_len, &d));
  QMM_TRY(check_unused(kMatmulPacked,
                       {{"bits", d.bits}, {"offset", d.offset}, {"scale_dtype", d.scale_dtype}, {"group", d.group}}));
  return run_matmul_packed({in[0], d.m, d.k}, {in[1], 1, d.packed_size}, d.lhs_kind, {out, d.m, d.n});
}

qmm_status opaque_matmul_grouped(void* out, const void** in, const char* opaque, size_t opaque_len) {
  qmm_xla_descriptor d;
  QMM_TRY(read_descriptor(kMatmulGrouped, opaque, opaque_len, &d));
  QMM_TRY(check_unused(kMatmulGrouped, {{"packed_size", d.packed_size}}));
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
  QMM_TRY(check_unused(kRowsPacked, {{"lhs_kind", d.lhs_kind},
                                     {"bits", d.bits},
                                     {"offset", d.offset},
                                     {"scale_dtype", d.scale_dtype},
                                     {"n", d.n},
                                     {"group", d.group}}));
  return run_rows_packed({in[0], 1, d.m}, {in[1], 1, d.packed_size}, {out, d.m, d.k});
}

// Makes `status` a failure. `caller` is an address of the code that made the status.
bool set_failure(XlaCustomCallStatus_* status, const void* caller, const char* sentence) {
  Dl_info info;
  void* found = nullptr;
  if (status == nullptr || dladdr1(caller, &info, &found, RTLD_DL_LINKMAP) == 0) return false;
  const char* const name = static_cast<const link_map*>(found)->l_name;  // "" is the program itself
  void* const library = dlopen(*name == '\0' ? nullptr : name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;

  // Both are looked up in that library and in what it needs: what else the process holds says nothing of it.
  using SetFailure = void(XlaCustomCallStatus_*, const char* message, size_t size);
  auto* const set = reinterpret_cast<SetFailure*>(dlsym(library, "XlaCustomCallStatusSetFailure"));
  // std::string::string(const char*, const allocator&)
  using Construct = void(void* string, const char* text, const void* allocator);
  auto* const construct =
      reinterpret_cast<Construct*>(dlsym(library, "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1EPKcRKS3_"));
  dlclose(library);

  // libstdc++'s std::optional<std::string>: the string, then whether it is there. An XLA that uses it makes it empty.
  struct Optional {
    alignas(8) char string[32];
    unsigned char engaged;
  };
  if (set != nullptr) {
    set(status, sentence, std::strlen(sentence));
  } else if (auto* const message = reinterpret_cast<Optional*>(status); construct != nullptr && message->engaged == 0) {
    const char allocator = 0;  // std::allocator<char>, which is empty
    construct(message->string, sentence, &allocator);
    message->engaged = 1;
  } else {
    return false;
  }
  return true;
}

void finish_untyped(qmm_status result, XlaCustomCallStatus_* status, const void* caller) {
  if (result != QMM_OK && !set_failure(status, caller, qmm_last_error())) report(result);
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

void qmm_xla_opaque_matmul_packed(void* out, const void** in, const char* opaque, size_t opaque_len,
                                  XlaCustomCallStatus_* status) {
  qmm::finish_untyped(qmm::opaque_matmul_packed(out, in, opaque, opaque_len), status, __builtin_return_address(0));
}

void qmm_xla_opaque_matmul_grouped(void* out, const void** in, const char* opaque, size_t opaque_len,
                                   XlaCustomCallStatus_* status) {
  qmm::finish_untyped(qmm::opaque_matmul_grouped(out, in, opaque, opaque_len), status, __builtin_return_address(0));
}

void qmm_xla_opaque_rows_packed(void* out, const void** in, const char* opaque, size_t opaque_len,
                                XlaCustomCallStatus_* status) {
  qmm::finish_untyped(qmm::opaque_rows_packed(out, in, opaque, opaque_len), status, __builtin_return_address(0));
}
