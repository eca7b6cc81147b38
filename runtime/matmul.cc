// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "matmul.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstring>
#include <tuple>

#include "arena.h"
#include "arguments.h"
#include "environment.h"
#include "threads.h"
#include "weights.h"

namespace qmm {
namespace {

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
  s.acc = round_up(round_up(s.slice, 2) * p.kernel->nr * int64_t(sizeof(float)), kLine);
  s.panels = p.panels == nullptr ? p.kernel->nr / kPanel * p.layout.panel_stride : 0;
  s.thread = 2 * s.acc + s.panels + kScratch;
  s.threads = p.threads.num_threads;
  s.total = s.lhs + s.threads * s.thread + kLine;
  return s;
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
  int64_t threads;
  std::atomic<int64_t> next{0};
};

void pack_rows(void* arg, int64_t part) {
  const FloatEnvironment environment;
  auto& s = *static_cast<Slice*>(arg);
  const int64_t parts = s.threads;
  for (int64_t r = s.rows * part / parts; r < s.rows * (part + 1) / parts; ++r)
    pack_lhs_row(s.problem->lhs_layout, s.problem->source, s.problem->quantizer, s.first + r, s.lhs, r);
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
  for (int64_t begin = s.next.load(std::memory_order_relaxed); begin < tiles;) {
    // Many tiles side by side at first, a single one at the end, so that threads end together.
    const int64_t end = begin + (s.threads == 1 ? tiles : ceil_div(tiles - begin, 2 * s.threads));
    if (!s.next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    for (int64_t tile = begin; tile < end; ++tile) {
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
        const auto locate = [&](const uint8_t* panel, int64_t k, int64_t group) {
          return std::tuple{panel + k * kPanel * p.desc.bits / 8,
                            panel + p.layout.scales_at + group * kPanel * scale_size,
                            panel + p.layout.offsets_at + group * kPanel * offset_size(p.desc)};
        };
        std::tie(block.codes, block.scales, block.offsets) = locate(from, start.k, start.group);
        // Next comes more of K, or the next tile. After the last one, and where panels are packed on the way, nothing
        // is known, and the tile's own start does no harm.
        const int64_t next_k = (start.k + block.k) % p.layout.padded_k;
        const bool stay = next_k != 0 || p.panels == nullptr || first_panel + panels == p.layout.panels;
        const uint8_t* next = stay ? from : from + panels * p.layout.panel_stride;
        std::tie(block.next_codes, block.next_scales, block.next_offsets) = locate(next, next_k, next_k / block.group);
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
    begin = s.next.load(std::memory_order_relaxed);
  }
}

// Runs a task on the slice. `work` is what it does, in multiplications: little takes less than waking a thread.
void run_parts(Slice& slice, qmm_task task, double work) {
  const qmm_threads& threads = slice.problem->threads;
  slice.threads = work < 65536 ? 1 : threads.num_threads;
  (slice.threads == 1 ? run_here : threads.parallel_for)(threads.context, task, &slice, slice.threads);
}

void pack_slice(Slice& slice) { run_parts(slice, pack_rows, double(slice.rows * slice.problem->desc.k)); }

}  // namespace

qmm_status matmul(const qmm_matmul_args* args, const Kernel* forced) {
  Problem p = {};
  QMM_TRY(check_matmul("qmm_matmul", args, forced, Arrays::Given, &p));
  if (p.rows == 0 || p.desc.n == 0) return QMM_OK;
  Scratch scratch = lay_out_scratch(p);
  const Arena arena(args->scratch == nullptr ? static_cast<size_t>(scratch.total) : 0);
  void* memory = args->scratch;
  if (memory == nullptr) {
    memory = arena.memory();
    if (memory == nullptr)
      return fail(QMM_OUT_OF_MEMORY, "qmm_matmul: no memory for %" PRId64 " bytes of scratch", scratch.total);
  } else {
    // The threads may have become more since the size was asked: those run that there is scratch for.
    for (; p.threads.num_threads > 1 && args->scratch_size < static_cast<uint64_t>(scratch.total);
         scratch = lay_out_scratch(p))
      --p.threads.num_threads;
    if (args->scratch_size < static_cast<uint64_t>(scratch.total))
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
      pack_slice(slice);
    }
    run_parts(slice, multiply, double(slice.rows) * double(p.desc.n) * double(p.desc.k));
  }
  return QMM_OK;
}

qmm_status scratch_size(const qmm_matmul_args* args, size_t* size, const Kernel* forced) {
  Problem p = {};
  QMM_TRY(check_matmul("qmm_scratch_size", args, forced, Arrays::Ignored, &p));
  if (size == nullptr) return fail(QMM_INVALID_ARGUMENT, "qmm_scratch_size: size is null");
  *size = static_cast<size_t>(lay_out_scratch(p).total);
  return QMM_OK;
}

qmm_status lhs_size(const qmm_matmul_args* args, size_t* size) {
  Problem p = {};
  QMM_TRY(check_quantize_lhs("qmm_lhs_size", args, Arrays::Ignored, nullptr, 0, &p));
  if (size == nullptr) return fail(QMM_INVALID_ARGUMENT, "qmm_lhs_size: size is null");
  *size = lhs_bytes(p);
  return QMM_OK;
}

qmm_status quantize_lhs(const qmm_matmul_args* args, void* lhs, size_t lhs_size) {
  Problem p = {};
  QMM_TRY(check_quantize_lhs("qmm_quantize_lhs", args, Arrays::Given, lhs, lhs_size, &p));
  const LhsHeader header = make_lhs_header(p, lhs);
  std::memcpy(lhs, &header, sizeof header);
  Slice slice = {};
  slice.problem = &p;
  slice.rows = p.rows;
  slice.lhs = place_lhs(p.lhs_layout, p.rows, static_cast<char*>(lhs) + sizeof header);
  pack_slice(slice);
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
