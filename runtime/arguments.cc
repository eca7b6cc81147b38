// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "arguments.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <numeric>

#include "threads.h"
#include "weights.h"

namespace qmm {
namespace {

constexpr uint64_t kLhsMark = 0x31'53'48'4c'4d'4d'51;  // "QMMLHS1"

uint64_t misaligned(const void* lhs) { return reinterpret_cast<uintptr_t>(lhs) % kLine; }

// A float matrix of batches in memory; strides in elements.
struct Matrix {
  const char* name;
  const void* data;
  int64_t batch, m, columns;
  int64_t batch_stride, row_stride, col_stride;
};

// The bytes that something spans: elements at strides in bytes; rows, columns, batches.
struct Span {
  uintptr_t begin = 0, end = 0;
  int64_t element = 0, strides[3] = {}, extents[3] = {};
};

Span flat(const void* data, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin, begin + static_cast<uintptr_t>(bytes), bytes, {}, {1, 1, 1}};
}

qmm_status span(const char* function, const Matrix& x, Arrays arrays, Span* out) {
  *out = {};
  const bool empty = x.batch == 0 || x.m == 0 || x.columns == 0;
  int64_t rows = 0, width = 0, batches = 0, extent = 0;
  if (x.row_stride < 0 || x.col_stride < 0 || x.batch_stride < 0 ||
      (!empty && (__builtin_mul_overflow(x.m - 1, x.row_stride, &rows) ||
                  __builtin_mul_overflow(x.columns - 1, x.col_stride, &width) ||
                  __builtin_mul_overflow(x.batch - 1, x.batch_stride, &batches) ||
                  __builtin_add_overflow(rows, width, &extent) || __builtin_add_overflow(extent, batches, &extent) ||
                  __builtin_add_overflow(extent, 1, &extent) || extent > INT64_MAX / 4)))
    return fail(QMM_INVALID_ARGUMENT,
                "%s: the strides of %s (batch %" PRId64 ", row %" PRId64 ", column %" PRId64
                ") are negative or overflow for %" PRId64 " x %" PRId64 " x %" PRId64,
                function, x.name, x.batch_stride, x.row_stride, x.col_stride, x.batch, x.m, x.columns);
  if (empty || arrays == Arrays::Ignored) return QMM_OK;
  if (x.data == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: %s is null", function, x.name);
  out->begin = reinterpret_cast<uintptr_t>(x.data);
  if (__builtin_add_overflow(out->begin, static_cast<uintptr_t>(extent) * 4, &out->end))
    return fail(QMM_INVALID_ARGUMENT, "%s: %s reaches past the end of memory", function, x.name);
  out->element = 4;
  const int64_t strides[] = {x.row_stride, x.col_stride, x.batch_stride}, extents[] = {x.m, x.columns, x.batch};
  for (int d = 0; d < 3; ++d) {
    out->strides[d] = extents[d] > 1 ? strides[d] * 4 : 0;  // one step of none can be any number
    out->extents[d] = extents[d];
  }
  return QMM_OK;
}

// A span as runs of `width` bytes at distances that are multiples of `pitch`; a pitch of 0 is one run.
struct Runs {
  uintptr_t pitch, width;
};

Runs runs_along(const Span& span, const bool (&along)[3]) {
  int64_t pitch = 0, width = span.element;
  for (int d = 0; d < 3; ++d)
    if (along[d])
      width += (span.extents[d] - 1) * span.strides[d];
    else if (span.extents[d] > 1)
      pitch = std::gcd(pitch, span.strides[d]);
  return {static_cast<uintptr_t>(pitch), static_cast<uintptr_t>(width)};
}

// Whether two spans may share a byte. Parts of one array are told apart by where they lie in its rows, columns or
// batches.
bool overlap(const Span& a, const Span& b) {
  if (a.begin == a.end || b.begin == b.end || a.end <= b.begin || b.end <= a.begin) return false;
  // A row's columns, a column's rows, a batch of both.
  const bool runs[3][3] = {{false, true, false}, {true, false, false}, {true, true, false}};
  for (const auto& along : runs) {
    const Runs of_a = runs_along(a, along), of_b = runs_along(b, along);
    const uintptr_t pitch = std::gcd(of_a.pitch, of_b.pitch);
    if (pitch == 0) continue;
    const uintptr_t offset = (b.begin % pitch + pitch - a.begin % pitch) % pitch;
    if (offset >= of_a.width && offset + of_b.width <= pitch) return false;
  }
  return true;
}

// Whether no two elements share memory: in order of their strides, each dimension steps over all inner ones.
bool elements_apart(const Matrix& y) {
  struct Dimension {
    int64_t stride, extent;
  };
  Dimension dimensions[] = {{y.batch_stride, y.batch}, {y.row_stride, y.m}, {y.col_stride, y.columns}};
  std::sort(std::begin(dimensions), std::end(dimensions),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  int64_t inner = 1;  // elements from the first to the last of the dimensions so far
  for (const Dimension& d : dimensions) {
    if (d.extent <= 1) continue;
    if (d.stride < inner) return false;
    inner += (d.extent - 1) * d.stride;
  }
  return true;
}

qmm_status refuse_overlap(const char* function, const char* name, const Span& x, const Span& y) {
  if (!overlap(x, y)) return QMM_OK;
  return fail(QMM_INVALID_ARGUMENT, "%s: %s (%zu bytes at 0x%zx) and y (%zu bytes at 0x%zx) overlap", function, name,
              static_cast<size_t>(x.end - x.begin), static_cast<size_t>(x.begin), static_cast<size_t>(y.end - y.begin),
              static_cast<size_t>(y.begin));
}

qmm_status refuse_weights_overlap(const char* function, const qmm_weights& w, const Problem& p, const Span& y) {
  const auto rows = [&](const void* data, int64_t stride, int64_t columns, int64_t element) {
    return flat(data, data == nullptr || columns == 0 ? 0 : ((p.desc.n - 1) * stride + columns) * element);
  };
  const int64_t scale = dtype_size(p.desc.scale_dtype), offset = offset_size(p.desc);
  QMM_TRY(refuse_overlap(function, "codes", rows(w.codes, w.codes_stride, ceil_div(p.desc.k * p.desc.bits, 8), 1), y));
  QMM_TRY(refuse_overlap(function, "scales", rows(w.scales, w.scales_stride, p.layout.groups, scale), y));
  return refuse_overlap(function, "offsets", rows(w.offsets, w.offsets_stride, p.layout.groups, offset), y);
}

// What quantizing X and a matmul have in common, but for the rhs.
qmm_status check_rows(const char* function, const qmm_matmul_args& a, Problem* p) {
  QMM_TRY(check_lhs_kind(function, a.lhs_kind));
  if (a.x_dtype != QMM_F32 || a.y_dtype != QMM_F32)
    return fail(QMM_UNSUPPORTED, "%s: x_dtype is %d and y_dtype %d; this version has QMM_F32 (0) only", function,
                a.x_dtype, a.y_dtype);
  if (a.activation != 0)
    return fail(QMM_UNSUPPORTED, "%s: activation is %d; this version has 0 (none) only", function, a.activation);
  if (a.x_rows != nullptr) return fail(QMM_UNSUPPORTED, "%s: x_rows is given; this version has none", function);
  if (a.m < 0 || a.batch < 0)
    return fail(QMM_INVALID_ARGUMENT, "%s: m is %" PRId64 " and batch %" PRId64 "; neither may be negative", function,
                a.m, a.batch);
  p->m = std::max<int64_t>(a.m, 1);
  p->batch = a.batch == 0 ? 1 : a.batch;
  if (__builtin_mul_overflow(a.m, p->batch, &p->rows))
    return fail(QMM_INVALID_ARGUMENT, "%s: m %" PRId64 " times batch %" PRId64 " overflows", function, a.m, p->batch);
  p->threads = {sizeof(qmm_threads), 1, run_here, nullptr};
  if (a.threads == nullptr) {
    p->threads = default_threads();
  } else {
    QMM_TRY(check_threads(function, *a.threads));
    if (a.threads->parallel_for != nullptr) p->threads = *a.threads;
  }
  return QMM_OK;
}

// The shape and format of the weights, given by rhs or desc.
qmm_status check_format(const char* function, const qmm_matmul_args& a, Problem* p) {
  if (a.rhs != nullptr) {
    QMM_TRY(check_rhs(function, a.rhs, &p->layout));
    p->desc = a.rhs->desc;
    p->panels = first_panel(*a.rhs);
  } else {
    QMM_TRY(make_layout(function, a.desc, &p->layout));
    p->desc = *a.desc;
    p->panels = nullptr;
  }
  return QMM_OK;
}

qmm_status check_x(const char* function, const qmm_matmul_args& a, Arrays arrays, Problem* p, Span* x_span) {
  p->lhs_layout = make_lhs_layout(a.lhs_kind, p->desc, p->layout);
  int64_t lhs_bytes;
  if (__builtin_mul_overflow(p->rows, p->lhs_layout.size(1), &lhs_bytes))
    return fail(QMM_INVALID_ARGUMENT, "%s: the lhs [%" PRId64 ", %" PRId64 "] overflows", function, p->rows, p->desc.k);
  p->lhs_given = false;
  const Matrix x = {
      "x", a.x, p->batch, a.m, p->desc.k, a.x_batch_stride, a.x_row_stride, a.x_col_stride == 0 ? 1 : a.x_col_stride};
  p->source = {static_cast<const float*>(a.x), p->m, x.row_stride, x.col_stride, x.batch_stride};
  return span(function, x, arrays, x_span);
}

qmm_status check_given_lhs(const char* function, const qmm_matmul_args& a, Problem* p) {
  if (a.lhs_kind == QMM_LHS_F32)
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_kind is QMM_LHS_F32; a quantized lhs has another", function);
  LhsHeader header;
  if (a.lhs_size < sizeof header)
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_size is %zu; an lhs of qmm_quantize_lhs has more", function, a.lhs_size);
  std::memcpy(&header, a.lhs, sizeof header);
  const LhsHeader expected = make_lhs_header(*p, a.lhs);
  if (header.mark != expected.mark || header.kind != expected.kind || header.rows != expected.rows ||
      header.k != expected.k || header.group != expected.group)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: lhs was quantized as kind %" PRId64 ", rows %" PRId64 ", k %" PRId64 ", group %" PRId64
                "; this call has kind %" PRId64 ", rows %" PRId64 ", k %" PRId64 ", group %" PRId64,
                function, header.kind, header.rows, header.k, header.group, expected.kind, expected.rows, expected.k,
                expected.group);
  if (a.lhs_size < lhs_bytes(*p))
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_size is %zu; this lhs has %zu bytes", function, a.lhs_size,
                lhs_bytes(*p));
  if (header.misaligned != expected.misaligned)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: lhs was quantized at an address %" PRIu64 " past a multiple of 64, and has moved to one %" PRIu64
                " past",
                function, header.misaligned, expected.misaligned);
  p->given = place_lhs(p->lhs_layout, p->rows, static_cast<char*>(const_cast<void*>(a.lhs)) + sizeof header);
  p->lhs_given = true;
  return QMM_OK;
}

}  // namespace

LhsHeader make_lhs_header(const Problem& p, const void* lhs) {
  return {kLhsMark, p.lhs_layout.kind, p.rows, p.desc.k, p.desc.group, misaligned(lhs)};
}

size_t lhs_bytes(const Problem& p) { return static_cast<size_t>(p.lhs_layout.size(p.rows)) + sizeof(LhsHeader); }

qmm_status check_lhs_kind(const char* function, int32_t kind) {
  if (kind < QMM_LHS_F32 || kind > QMM_LHS_S8_TOKEN)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: lhs_kind is %d; it must be QMM_LHS_F32, QMM_LHS_S8 or QMM_LHS_S8_TOKEN (0 to 2)", function, kind);
  return QMM_OK;
}

qmm_status check_matmul(const char* function, const qmm_matmul_args* args, const Kernel* forced, Arrays arrays,
                        Problem* p) {
  QMM_TRY(check_struct(function, "args", args, sizeof *args));
  const qmm_matmul_args& a = *args;
  QMM_TRY(check_rows(function, a, p));

  if ((a.rhs != nullptr) == (a.weights != nullptr))
    return fail(QMM_INVALID_ARGUMENT, "%s: give either rhs or desc with weights", function);
  QMM_TRY(check_format(function, a, p));
  p->weights = a.weights;
  if (a.weights != nullptr) QMM_TRY(check_weights(function, p->desc, p->layout, a.weights, true));

  if (a.x != nullptr && a.lhs != nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: give either x or lhs", function);
  Span x_span;
  QMM_TRY(check_x(function, a, a.lhs != nullptr ? Arrays::Ignored : arrays, p, &x_span));
  if (a.lhs != nullptr) QMM_TRY(check_given_lhs(function, a, p));

  p->bias = a.bias;
  p->y = static_cast<float*>(a.y);
  p->y_row_stride = a.y_row_stride;
  p->y_col_stride = a.y_col_stride == 0 ? 1 : a.y_col_stride;
  p->y_batch_stride = a.y_batch_stride;
  const Matrix y = {"y", a.y, p->batch, a.m, p->desc.n, a.y_batch_stride, a.y_row_stride, p->y_col_stride};
  Span y_span;
  QMM_TRY(span(function, y, arrays, &y_span));
  if (p->rows > 0 && p->desc.n > 0 && !elements_apart(y))
    return fail(QMM_INVALID_ARGUMENT,
                "%s: the strides of y (batch %" PRId64 ", row %" PRId64 ", column %" PRId64 ") let elements of %" PRId64
                " x %" PRId64 " x %" PRId64 " share memory",
                function, y.batch_stride, y.row_stride, y.col_stride, y.batch, y.m, y.columns);
  if (y_span.begin != y_span.end) {
    QMM_TRY(refuse_overlap(function, "x", x_span, y_span));
    if (p->lhs_given)
      QMM_TRY(refuse_overlap(function, "lhs", flat(a.lhs, static_cast<int64_t>(lhs_bytes(*p))), y_span));
    if (p->panels != nullptr) {
      QMM_TRY(refuse_overlap(function, "rhs", flat(a.rhs->packed, p->layout.size), y_span));
    } else {
      QMM_TRY(refuse_weights_overlap(function, *a.weights, *p, y_span));
    }
    if (p->bias != nullptr) QMM_TRY(refuse_overlap(function, "bias", flat(p->bias, p->desc.n * 4), y_span));
  }

  uint64_t features = 0;
  QMM_TRY(process_features(&features));
  p->quantizer = choose_quantizer(forced != nullptr ? forced->need : features);
  p->kernel =
      forced != nullptr ? forced : choose(features, lhs_of(a.lhs_kind), p->desc.bits, std::max<int64_t>(p->rows, 1));

  // A thread is worth waking for 64 Ki products, and takes at least one tile's columns.
  const int64_t tiles = ceil_div(p->layout.panels * kPanel, p->kernel->nr);
  int64_t products;
  if (__builtin_mul_overflow(p->rows, p->desc.n, &products) || __builtin_mul_overflow(products, p->desc.k, &products))
    products = INT64_MAX;
  p->threads.num_threads = std::max<int64_t>(1, std::min({p->threads.num_threads, tiles, products / 65536 + 1}));
  return QMM_OK;
}

qmm_status check_quantize_lhs(const char* function, const qmm_matmul_args* args, Arrays arrays, const void* lhs,
                              size_t lhs_size, Problem* p) {
  QMM_TRY(check_struct(function, "args", args, sizeof *args));
  const qmm_matmul_args& a = *args;
  QMM_TRY(check_rows(function, a, p));
  if (a.lhs_kind == QMM_LHS_F32)
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_kind is QMM_LHS_F32, which is not quantized", function);
  QMM_TRY(check_format(function, a, p));
  Span x_span;
  QMM_TRY(check_x(function, a, arrays, p, &x_span));
  if (arrays == Arrays::Ignored) return QMM_OK;
  uint64_t features = 0;
  QMM_TRY(process_features(&features));
  p->quantizer = choose_quantizer(features);
  if (lhs == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: lhs is null", function);
  if (lhs_size < lhs_bytes(*p))
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_size is %zu; this lhs takes %zu", function, lhs_size, lhs_bytes(*p));
  if (overlap(x_span, flat(lhs, static_cast<int64_t>(lhs_bytes(*p)))))
    return fail(QMM_INVALID_ARGUMENT, "%s: x (%zu bytes at %p) and lhs (%zu bytes at %p) overlap", function,
                static_cast<size_t>(x_span.end - x_span.begin), a.x, lhs_bytes(*p), lhs);
  return QMM_OK;
}

}  // namespace qmm
