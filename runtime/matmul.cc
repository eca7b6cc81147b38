// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "matmul.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>

#include "arena.h"
#include "environment.h"
#include "threads.h"
#include "weights.h"

namespace qmm {
namespace {

constexpr uint64_t kLhsMark = 0x31'53'48'4c'4d'4d'51;  // "QMMLHS1"

// Begins an lhs of qmm_quantize_lhs.
struct LhsHeader {
  uint64_t mark;
  int64_t kind, rows, k, group;
  uint64_t misaligned;  // of its address; the arrays are aligned behind it
};

uint64_t misaligned(const void* lhs) { return reinterpret_cast<uintptr_t>(lhs) % kLine; }

// A call whose arguments are right.
struct Problem {
  LhsLayout lhs_layout;
  LhsSource source;  // where lhs is not given
  PackedLhs given;   // where it is
  bool lhs_given;
  int64_t rows;  // of all batches

  qmm_rhs_desc desc;
  Layout layout;
  const uint8_t* panels;       // packed, or nullptr:
  const qmm_weights* weights;  // canonical

  const float* bias;
  float* y;
  int64_t m, y_row_stride, y_col_stride, y_batch_stride;

  const Kernel* kernel;
  qmm_threads threads;
};

// The scratch of a call: the lhs of a slice of rows, then an area for each thread.
struct Scratch {
  int64_t slice;   // rows
  int64_t lhs;     // bytes
  int64_t acc;     // of acc, and of carry
  int64_t panels;  // of panels packed on the way
  int64_t thread;
  int64_t threads;
  int64_t total;  // with room to align
};

Scratch lay_out_scratch(const Problem& p) {
  Scratch s;
  s.slice = std::min(p.rows, kMaxRows);
  s.lhs = p.lhs_given ? 0 : round_up(p.lhs_layout.size(s.slice), kLine);
  s.acc = round_up(s.slice * p.kernel->nr * int64_t(sizeof(float)), kLine);
  s.panels = p.panels == nullptr ? p.kernel->nr / kPanel * p.layout.panel_stride : 0;
  s.thread = 2 * s.acc + s.panels + kScratch;
  s.threads = p.threads.num_threads;
  s.total = s.lhs + s.threads * s.thread + kLine;
  return s;
}

qmm_status check_lhs_kind(const char* function, int32_t kind) {
  if (kind < QMM_LHS_F32 || kind > QMM_LHS_S8_TOKEN)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: lhs_kind is %d; it must be QMM_LHS_F32, QMM_LHS_S8 or QMM_LHS_S8_TOKEN (0 to 2)", function, kind);
  return QMM_OK;
}

Lhs lhs_of(int32_t kind) { return kind == QMM_LHS_F32 ? Lhs::F32 : Lhs::S8; }

// The bytes that a matrix of batches spans.
struct Span {
  uintptr_t begin, end;
  int64_t row_bytes, width_bytes;  // of its rows, where they lie in one array; row_bytes is 0 where they do not
};

qmm_status span(const char* function, const char* name, const void* data, int64_t batch, int64_t m, int64_t columns,
                int64_t batch_stride, int64_t row_stride, int64_t col_stride, Span* out) {
  *out = {};
  if (batch == 0 || m == 0 || columns == 0) return QMM_OK;
  if (data == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: %s is null", function, name);
  int64_t rows, width, batches, extent;
  if (row_stride < 0 || col_stride < 0 || batch_stride < 0 || __builtin_mul_overflow(m - 1, row_stride, &rows) ||
      __builtin_mul_overflow(columns - 1, col_stride, &width) ||
      __builtin_mul_overflow(batch - 1, batch_stride, &batches) || __builtin_add_overflow(rows, width, &extent) ||
      __builtin_add_overflow(extent, batches, &extent) || __builtin_add_overflow(extent, 1, &extent) ||
      extent > INT64_MAX / 4)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: the strides of %s (batch %" PRId64 ", row %" PRId64 ", column %" PRId64
                ") are negative or overflow for %" PRId64 " x %" PRId64 " x %" PRId64,
                function, name, batch_stride, row_stride, col_stride, batch, m, columns);
  out->begin = reinterpret_cast<uintptr_t>(data);
  if (__builtin_add_overflow(out->begin, static_cast<uintptr_t>(extent) * 4, &out->end))
    return fail(QMM_INVALID_ARGUMENT, "%s: %s reaches past the end of memory", function, name);
  out->row_bytes = batch == 1 && m > 1 ? row_stride * 4 : 0;
  out->width_bytes = (width + 1) * 4;
  return QMM_OK;
}

// Whether two spans may share a byte. Column ranges of one array are told apart by where they lie in its rows.
bool overlap(const Span& a, const Span& b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (a.row_bytes == 0 || a.row_bytes != b.row_bytes) return true;
  const auto pitch = static_cast<uintptr_t>(a.row_bytes);
  const uintptr_t from_a = (b.begin - a.begin) % pitch, from_b = (a.begin - b.begin) % pitch;
  const auto fits = [&](uintptr_t offset, const Span& first, const Span& second) {
    return offset >= static_cast<uintptr_t>(first.width_bytes) &&
           offset + static_cast<uintptr_t>(second.width_bytes) <= pitch;
  };
  return !(b.begin >= a.begin ? fits(from_a, a, b) : fits(from_b, b, a));
}

qmm_status check_given_lhs(const char* function, const qmm_matmul_args& a, Problem* p) {
  LhsHeader header;
  if (a.lhs_size < sizeof header)
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_size is %zu; an lhs of qmm_quantize_lhs has more", function, a.lhs_size);
  std::memcpy(&header, a.lhs, sizeof header);
  if (header.mark != kLhsMark || header.kind != a.lhs_kind || header.rows != a.m || header.k != p->desc.k ||
      header.group != p->desc.group)
    return fail(QMM_INVALID_ARGUMENT,
                "%s: lhs was quantized as kind %" PRId64 ", m %" PRId64 ", k %" PRId64 ", group %" PRId64
                "; this call has kind %d, m %" PRId64 ", k %" PRId64 ", group %" PRId64,
                function, header.kind, header.rows, header.k, header.group, a.lhs_kind, a.m, p->desc.k, p->desc.group);
  const int64_t needed = p->lhs_layout.size(a.m) + int64_t(sizeof header);
  if (a.lhs_size < static_cast<uint64_t>(needed))
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_size is %zu; this lhs has %" PRId64 " bytes", function, a.lhs_size,
                needed);
  if (header.misaligned != misaligned(a.lhs))
    return fail(QMM_INVALID_ARGUMENT,
                "%s: lhs was quantized at an address %" PRIu64 " past a multiple of 64, and has moved to one %" PRIu64
                " past",
                function, header.misaligned, misaligned(a.lhs));
  p->given = place_lhs(p->lhs_layout, a.m, static_cast<char*>(const_cast<void*>(a.lhs)) + sizeof header);
  p->lhs_given = true;
  return QMM_OK;
}

qmm_status check(const char* function, const qmm_matmul_args* args, const Kernel* forced, Problem* p) {
  if (args == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: args is null", function);
  const qmm_matmul_args& a = *args;
  if (a.struct_size < sizeof a)
    return fail(QMM_INVALID_ARGUMENT, "%s: args->struct_size is %zu; it must be at least %zu", function, a.struct_size,
                sizeof a);
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
  const int64_t batch = a.batch == 0 ? 1 : a.batch;
  if (__builtin_mul_overflow(a.m, batch, &p->rows))
    return fail(QMM_INVALID_ARGUMENT, "%s: m %" PRId64 " times batch %" PRId64 " overflows", function, a.m, batch);

  if ((a.rhs != nullptr) == (a.weights != nullptr))
    return fail(QMM_INVALID_ARGUMENT, "%s: give either rhs or desc with weights", function);
  p->weights = a.weights;
  p->panels = nullptr;
  if (a.rhs != nullptr) {
    QMM_TRY(check_rhs(function, a.rhs, &p->layout));
    p->desc = a.rhs->desc;
    p->panels = first_panel(*a.rhs);
  } else {
    QMM_TRY(make_layout(function, a.desc, &p->layout));
    p->desc = *a.desc;
    QMM_TRY(check_weights(function, p->desc, p->layout, a.weights, true));
  }
  const int64_t n = p->desc.n, k = p->desc.k;

  p->lhs_layout = make_lhs_layout(a.lhs_kind, p->desc, p->layout);
  int64_t lhs_bytes;
  if (__builtin_mul_overflow(p->rows, p->lhs_layout.size(1), &lhs_bytes))
    return fail(QMM_INVALID_ARGUMENT, "%s: the lhs [%" PRId64 ", %" PRId64 "] overflows", function, p->rows, k);
  p->lhs_given = false;
  Span x_span = {};
  if ((a.x != nullptr) && (a.lhs != nullptr)) return fail(QMM_INVALID_ARGUMENT, "%s: give either x or lhs", function);
  if (a.lhs != nullptr) {
    if (batch != 1)
      return fail(QMM_INVALID_ARGUMENT, "%s: batch is %" PRId64 "; with lhs it must be 1", function, batch);
    if (a.lhs_kind == QMM_LHS_F32)
      return fail(QMM_INVALID_ARGUMENT, "%s: lhs_kind is QMM_LHS_F32; a quantized lhs has another", function);
    QMM_TRY(check_given_lhs(function, a, p));
  } else {
    const int64_t col_stride = a.x_col_stride == 0 ? 1 : a.x_col_stride;
    QMM_TRY(span(function, "x", a.x, batch, a.m, k, a.x_batch_stride, a.x_row_stride, col_stride, &x_span));
    p->source = {static_cast<const float*>(a.x), std::max<int64_t>(a.m, 1), a.x_row_stride, col_stride,
                 a.x_batch_stride};
  }

  p->bias = a.bias;
  p->y = static_cast<float*>(a.y);
  p->m = std::max<int64_t>(a.m, 1);
  p->y_row_stride = a.y_row_stride;
  p->y_col_stride = a.y_col_stride == 0 ? 1 : a.y_col_stride;
  p->y_batch_stride = a.y_batch_stride;
  Span y_span = {};
  QMM_TRY(span(function, "y", a.y, batch, a.m, n, a.y_batch_stride, a.y_row_stride, p->y_col_stride, &y_span));
  // Elements of Y must be apart: either its rows or its columns are the inner dimension, and a batch holds both.
  const bool any = p->rows > 0 && n > 0;
  const int64_t width = any ? (n - 1) * p->y_col_stride + 1 : 0, height = any ? (p->m - 1) * a.y_row_stride + 1 : 0;
  if (any && ((p->m > 1 && (a.y_row_stride == 0 || (a.y_row_stride < width && p->y_col_stride < height))) ||
              (batch > 1 && a.y_batch_stride < width + height - 1)))
    return fail(QMM_INVALID_ARGUMENT,
                "%s: the strides of y (batch %" PRId64 ", row %" PRId64 ", column %" PRId64 ") let elements of %" PRId64
                " x %" PRId64 " x %" PRId64 " share memory",
                function, a.y_batch_stride, a.y_row_stride, p->y_col_stride, batch, a.m, n);
  if (overlap(x_span, y_span))
    return fail(QMM_INVALID_ARGUMENT, "%s: x (%zu bytes at %p) and y (%zu bytes at %p) overlap", function,
                static_cast<size_t>(x_span.end - x_span.begin), a.x, static_cast<size_t>(y_span.end - y_span.begin),
                a.y);

  uint64_t features = 0;
  QMM_TRY(process_features(&features));
  p->kernel =
      forced != nullptr ? forced : choose(features, lhs_of(a.lhs_kind), p->desc.bits, std::max<int64_t>(p->rows, 1));

  p->threads = default_threads();
  if (a.threads != nullptr) {
    QMM_TRY(check_threads(function, *a.threads));
    p->threads = *a.threads;
    if (p->threads.parallel_for == nullptr) p->threads = {sizeof(qmm_threads), 1, run_here, nullptr};
  }
  // A thread is worth waking for 64 Ki products, and takes at least one tile's columns.
  const int64_t tiles = ceil_div(p->layout.panels * kPanel, p->kernel->nr);
  int64_t products;
  if (__builtin_mul_overflow(p->rows, n, &products) || __builtin_mul_overflow(products, k, &products))
    products = INT64_MAX;
  const int64_t worth = products / 65536 + 1;
  p->threads.num_threads = std::max<int64_t>(1, std::min({p->threads.num_threads, tiles, worth}));
  return QMM_OK;
}

// Calls use(block) with k, group and the flags of a block set, and where it begins.
struct BlockStart {
  int64_t k;        // first k
  int64_t group;    // index of its group
  int64_t segment;  // of the lhs
};
template <class Use>
void for_each_block(const Problem& p, Use use) {
  const int64_t group = p.layout.padded_group, last = p.layout.padded_k, block_k = p.kernel->block_k;
  const int64_t longest = p.lhs_layout.kind == QMM_LHS_F32 ? last : kMaxSegment;
  Block block = {};
  for (int64_t k = 0; k < last; k += block.k) {
    const int64_t g = k / group;
    block.group = group;
    if (group <= block_k) {  // whole groups
      block.k = std::min(block_k / group * group, last - k);
      use(block, BlockStart{k, g, g});
    } else {  // a part of a segment
      const int64_t in_group = k - g * group, segment = in_group / longest;
      const int64_t segment_end = std::min({g * group + (segment + 1) * longest, (g + 1) * group, last});
      block.k = std::min(block_k, segment_end - k);
      block.resume = in_group % longest != 0;
      block.suspend = k + block.k != segment_end;
      use(block, BlockStart{k, g, g * p.lhs_layout.segments_per_group + segment});
    }
  }
}

// One slice of rows, as the threads see it.
struct Slice {
  const Problem* problem;
  const Scratch* scratch;
  uint8_t* areas;  // a thread's each
  PackedLhs lhs;
  int64_t first, rows;
  int64_t lhs_first;  // the slice's first row in lhs
  std::atomic<int64_t> next{0};
};

void pack_rows(void* arg, int64_t part) {
  const FloatEnvironment environment;
  auto& s = *static_cast<Slice*>(arg);
  const int64_t parts = s.scratch->threads;
  for (int64_t r = s.rows * part / parts; r < s.rows * (part + 1) / parts; ++r)
    pack_lhs_row(s.problem->lhs_layout, s.problem->source, s.first + r, s.lhs, r);
}

// Columns [n, n + columns) of the slice, from acc to Y.
void store(const Slice& s, const float* acc, int64_t acc_stride, int64_t n, int64_t columns) {
  const Problem& p = *s.problem;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t row = s.first + r;
    float* y = p.y + row / p.m * p.y_batch_stride + row % p.m * p.y_row_stride + n * p.y_col_stride;
    const float* from = acc + r * acc_stride;
    if (s.lhs.token_scales == nullptr && p.bias == nullptr && p.y_col_stride == 1) {
      std::memcpy(y, from, static_cast<size_t>(columns) * sizeof *y);
      continue;
    }
    for (int64_t c = 0; c < columns; ++c) {
      float value = from[c];
      if (s.lhs.token_scales != nullptr) value *= s.lhs.token_scales[s.lhs_first + r];
      if (p.bias != nullptr) value += p.bias[n + c];
      y[c * p.y_col_stride] = value;
    }
  }
}

// Takes tiles of columns until none is left.
void multiply(void* arg, int64_t part) {
  const FloatEnvironment environment;
  auto& s = *static_cast<Slice*>(arg);
  const Problem& p = *s.problem;
  uint8_t* area = s.areas + part * s.scratch->thread;
  auto* acc = reinterpret_cast<float*>(area);
  uint8_t* packed = area + 2 * s.scratch->acc;
  const int64_t tile_panels = p.kernel->nr / kPanel, tiles = ceil_div(p.layout.panels, tile_panels);
  const int64_t element = s.lhs.kind == Lhs::F32 ? 4 : 1, scale_size = dtype_size(p.desc.scale_dtype);
  const int64_t offset_size = p.desc.offset == QMM_ZEROS ? 1 : scale_size;
  // A few tiles at a time: few enough to share the end of the work, many enough to be worth the counter.
  const int64_t step = std::max<int64_t>(1, tiles / (s.scratch->threads * 8));
  for (int64_t begin; (begin = s.next.fetch_add(step, std::memory_order_relaxed)) < tiles;)
    for (int64_t tile = begin; tile < std::min(begin + step, tiles); ++tile) {
      const int64_t first_panel = tile * tile_panels, panels = std::min(tile_panels, p.layout.panels - first_panel);
      const uint8_t* from = packed;
      if (p.panels != nullptr)
        from = p.panels + first_panel * p.layout.panel_stride;
      else
        for (int64_t i = 0; i < panels; ++i)
          pack_panel(p.desc, p.layout, *p.weights, first_panel + i, packed + i * p.layout.panel_stride);
      const int64_t acc_stride = panels * kPanel;
      std::memset(acc, 0, static_cast<size_t>(s.rows * acc_stride) * sizeof *acc);
      for_each_block(p, [&](Block& block, const BlockStart& start) {
        block.rows = s.rows;
        block.panels = panels;
        block.lhs = static_cast<const uint8_t*>(s.lhs.values) + (s.lhs_first * p.lhs_layout.stride + start.k) * element;
        block.lhs_stride = p.lhs_layout.stride;
        const int64_t segment = s.lhs_first * p.lhs_layout.segments + start.segment;
        block.lhs_scales = s.lhs.scales + segment;
        block.lhs_sums = static_cast<const float*>(s.lhs.sums) + segment;
        block.lhs_group_stride = p.lhs_layout.segments;
        block.codes = from + start.k * kPanel * p.desc.bits / 8;
        block.scales = from + p.layout.scales_at + start.group * kPanel * scale_size;
        block.offsets = from + p.layout.offsets_at + start.group * kPanel * offset_size;
        block.panel_stride = p.layout.panel_stride;
        block.scale = static_cast<Scale>(p.desc.scale_dtype);
        block.offset = static_cast<Offset>(p.desc.offset);
        block.acc = acc;
        block.carry = area + s.scratch->acc;
        block.scratch = packed + s.scratch->panels;
        p.kernel->run(block);
      });
      const int64_t n = first_panel * kPanel;
      store(s, acc, acc_stride, n, std::min(acc_stride, p.desc.n - n));
    }
}

}  // namespace

qmm_status matmul(const qmm_matmul_args* args, const Kernel* forced) {
  Problem p = {};
  QMM_TRY(check("qmm_matmul", args, forced, &p));
  if (p.rows == 0 || p.desc.n == 0) return QMM_OK;
  const Scratch scratch = lay_out_scratch(p);
  const Arena arena(args->scratch == nullptr ? static_cast<size_t>(scratch.total) : 0);
  void* memory = args->scratch;
  if (memory == nullptr) {
    memory = arena.memory();
    if (memory == nullptr)
      return fail(QMM_OUT_OF_MEMORY, "qmm_matmul: no memory for %" PRId64 " bytes of scratch", scratch.total);
  } else if (args->scratch_size < static_cast<uint64_t>(scratch.total)) {
    return fail(QMM_INVALID_ARGUMENT, "qmm_matmul: scratch_size is %zu; this call needs %" PRId64, args->scratch_size,
                scratch.total);
  }
  auto* base = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory) + kLine - 1) & ~uintptr_t(kLine - 1));
  for (int64_t first = 0; first < p.rows; first += scratch.slice) {
    Slice slice;
    slice.problem = &p;
    slice.scratch = &scratch;
    slice.areas = base + scratch.lhs;
    slice.first = first;
    slice.rows = std::min(scratch.slice, p.rows - first);
    if (p.lhs_given) {
      slice.lhs = p.given;
      slice.lhs_first = first;
    } else {
      slice.lhs = place_lhs(p.lhs_layout, slice.rows, base);
      slice.lhs_first = 0;
      // Packing a row or two takes less than waking a thread.
      const auto run = slice.rows * p.desc.k < 65536 ? run_here : p.threads.parallel_for;
      run(p.threads.context, pack_rows, &slice, scratch.threads);
    }
    if (scratch.threads == 1)
      multiply(&slice, 0);
    else
      p.threads.parallel_for(p.threads.context, multiply, &slice, scratch.threads);
  }
  return QMM_OK;
}

qmm_status scratch_size(const qmm_matmul_args* args, size_t* size, const Kernel* forced) {
  Problem p = {};
  QMM_TRY(check("qmm_scratch_size", args, forced, &p));
  if (size == nullptr) return fail(QMM_INVALID_ARGUMENT, "qmm_scratch_size: size is null");
  *size = static_cast<size_t>(lay_out_scratch(p).total);
  return QMM_OK;
}

namespace {

qmm_status lhs_layout(const char* function, int32_t kind, const qmm_rhs_desc* desc, int64_t m, LhsLayout* lhs,
                      int64_t* size) {
  QMM_TRY(check_lhs_kind(function, kind));
  if (kind == QMM_LHS_F32)
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_kind is QMM_LHS_F32, which is not quantized", function);
  Layout layout;
  QMM_TRY(make_layout(function, desc, &layout));
  *lhs = make_lhs_layout(kind, *desc, layout);
  int64_t product;
  if (m < 0 || __builtin_mul_overflow(m, lhs->size(1), &product))
    return fail(QMM_INVALID_ARGUMENT, "%s: m is %" PRId64 "; it is negative or overflows with k = %" PRId64, function,
                m, desc->k);
  *size = lhs->size(m) + int64_t(sizeof(LhsHeader));
  return QMM_OK;
}

}  // namespace

qmm_status lhs_size(int32_t lhs_kind, const qmm_rhs_desc* desc, int64_t m, size_t* size) {
  LhsLayout layout;
  int64_t bytes = 0;
  QMM_TRY(lhs_layout("qmm_lhs_size", lhs_kind, desc, m, &layout, &bytes));
  if (size == nullptr) return fail(QMM_INVALID_ARGUMENT, "qmm_lhs_size: size is null");
  *size = static_cast<size_t>(bytes);
  return QMM_OK;
}

qmm_status quantize_lhs(int32_t lhs_kind, const qmm_rhs_desc* desc, int64_t m, const float* x, int64_t x_row_stride,
                        int64_t x_col_stride, void* lhs, size_t lhs_size) {
  const char* function = "qmm_quantize_lhs";
  LhsLayout layout;
  int64_t bytes = 0;
  QMM_TRY(lhs_layout(function, lhs_kind, desc, m, &layout, &bytes));
  if (x_col_stride == 0) x_col_stride = 1;
  Span unused = {};
  QMM_TRY(span(function, "x", x, 1, m, desc->k, 0, x_row_stride, x_col_stride, &unused));
  if (lhs == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: lhs is null", function);
  if (lhs_size < static_cast<uint64_t>(bytes))
    return fail(QMM_INVALID_ARGUMENT, "%s: lhs_size is %zu; this lhs takes %" PRId64, function, lhs_size, bytes);
  const FloatEnvironment environment;
  const LhsHeader header = {kLhsMark, lhs_kind, m, desc->k, desc->group, misaligned(lhs)};
  std::memcpy(lhs, &header, sizeof header);
  const PackedLhs packed = place_lhs(layout, m, static_cast<char*>(lhs) + sizeof header);
  const LhsSource source = {x, std::max<int64_t>(m, 1), x_row_stride, x_col_stride, 0};
  for (int64_t row = 0; row < m; ++row) pack_lhs_row(layout, source, row, packed, row);
  return QMM_OK;
}

qmm_status kernel_name(int32_t lhs_kind, const qmm_rhs_desc* desc, int64_t m, const char** name) {
  const char* function = "qmm_kernel_name";
  QMM_TRY(check_lhs_kind(function, lhs_kind));
  Layout layout;
  QMM_TRY(make_layout(function, desc, &layout));
  if (m < 0) return fail(QMM_INVALID_ARGUMENT, "%s: m is %" PRId64 "; it must not be negative", function, m);
  if (name == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: name is null", function);
  uint64_t features = 0;
  QMM_TRY(process_features(&features));
  *name = choose(features, lhs_of(lhs_kind), desc->bits, std::max<int64_t>(m, 1))->name;
  return QMM_OK;
}

}  // namespace qmm
