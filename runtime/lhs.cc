// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lhs.h"

#include <algorithm>
#include <cstring>

#include "../kernels/quantizer.h"

namespace qmm {

int64_t LhsLayout::size(int64_t rows) const {
  const int64_t element = kind == QMM_LHS_F32 ? 4 : 1;
  return rows * (stride * element + segments * 8 + 4) + kLine;
}

LhsLayout make_lhs_layout(int32_t kind, const qmm_rhs_desc& desc, const Layout& layout) {
  LhsLayout l;
  l.kind = kind;
  l.sums = kind != QMM_LHS_F32 || desc.offset == QMM_MINS;
  l.k = desc.k;
  l.group = layout.padded_group;
  // An odd number of lines a row: rows a power of two apart would all fall on the same sets of a cache.
  const int64_t line = kind == QMM_LHS_F32 ? kLine / 4 : kLine;  // elements
  l.stride = (ceil_div(desc.k, line) | 1) * line;
  l.segments_per_group = kind == QMM_LHS_F32 ? 1 : ceil_div(layout.padded_group, kMaxSegment);
  l.segments = 0;
  if (layout.groups > 0) {
    const int64_t last = desc.k - (layout.groups - 1) * layout.padded_group;
    l.segments = (layout.groups - 1) * l.segments_per_group + (kind == QMM_LHS_F32 ? 1 : ceil_div(last, kMaxSegment));
  }
  return l;
}

PackedLhs place_lhs(const LhsLayout& layout, int64_t rows, void* memory) {
  auto* bytes = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory) + kLine - 1) & ~uintptr_t(kLine - 1));
  const auto take = [&](int64_t count, int64_t element) {
    void* array = bytes;
    bytes += count * element;
    return array;
  };
  PackedLhs lhs;
  lhs.kind = layout.kind == QMM_LHS_F32 ? Lhs::F32 : Lhs::S8;
  lhs.values = take(rows * layout.stride, layout.kind == QMM_LHS_F32 ? 4 : 1);
  lhs.scales = static_cast<float*>(take(rows * layout.segments, 4));
  lhs.sums = take(rows * layout.segments, 4);
  lhs.token_scales = layout.kind == QMM_LHS_S8_TOKEN ? static_cast<float*>(take(rows, 4)) : nullptr;
  return lhs;
}

void pack_lhs_row(const LhsLayout& layout, const LhsSource& source, const Quantizer* quantizer, int64_t from,
                  const PackedLhs& lhs, int64_t to) {
  if (layout.k == 0) {  // X need not exist
    if (lhs.token_scales != nullptr) lhs.token_scales[to] = 0;
    return;
  }
  const float* x = source.x + from / source.m * source.batch_stride + from % source.m * source.row_stride;
  const int64_t stride = source.col_stride;
  const int64_t padding = layout.stride - layout.k;
  int64_t s = to * layout.segments;
  if (lhs.kind == Lhs::F32) {
    float* row = static_cast<float*>(lhs.values) + to * layout.stride;
    for (int64_t k = 0; k < layout.k; ++k) row[k] = x[k * stride];
    std::memset(row + layout.k, 0, static_cast<size_t>(padding) * sizeof *row);
    if (!layout.sums) return;
    for (int64_t begin = 0; begin < layout.k; begin += layout.group, ++s) {
      float sum = 0;
      for (int64_t k = begin; k < std::min(begin + layout.group, layout.k); ++k) sum += row[k];
      static_cast<float*>(lhs.sums)[s] = sum;
    }
    return;
  }

  int8_t* row = static_cast<int8_t*>(lhs.values) + to * layout.stride;
  quantizer->run({.x = x,
                  .stride = stride,
                  .k = layout.k,
                  .group = layout.group,
                  .codes = row,
                  .scales = lhs.scales + s,
                  .sums = static_cast<int32_t*>(lhs.sums) + s,
                  .token_scale = lhs.token_scales == nullptr ? nullptr : lhs.token_scales + to});
  std::memset(row + layout.k, 0, static_cast<size_t>(padding));
}

}  // namespace qmm
