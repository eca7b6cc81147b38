// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lhs.h"

namespace qmm {
namespace {

constexpr float kNan = __builtin_nanf("");

struct Quantizer {
  float inverse;  // 0: all codes are 0
  float scale;
};

// The largest |x|, taken on the bits, so that a NaN is the largest.
uint32_t amax_bits(const float* x, int64_t count) {
  uint32_t amax = 0;
  for (int64_t k = 0; k < count; ++k) {
    const uint32_t bits = bit_copy<uint32_t>(x[k]) & 0x7fffffff;
    amax = bits > amax ? bits : amax;
  }
  return amax;
}

Quantizer make_quantizer(uint32_t amax_bits) {
  const float amax = bit_copy<float>(amax_bits);
  if (!is_finite(amax)) return {0, kNan};
  const float inverse = 127.0f / amax;
  if (!is_finite(inverse)) return {0, 0};  // amax is 0, or too small to scale
  return {inverse, amax / 127.0f};
}

// Quantizes, and returns the sum of the codes.
int32_t quantize(const float* x, int64_t count, float inverse, int8_t* codes) {
  if (inverse == 0) {
    std::memset(codes, 0, static_cast<size_t>(count));
    return 0;
  }
  int32_t sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    const int32_t code = static_cast<int32_t>(round_even(x[k] * inverse));
    codes[k] = static_cast<int8_t>(code);
    sum += code;
  }
  return sum;
}

}  // namespace

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
  l.stride = round_up(desc.k, kLine);
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

void pack_lhs_row(const LhsLayout& layout, const LhsSource& source, int64_t from, const PackedLhs& lhs, int64_t to) {
  const float* x = source.x + from / source.m * source.batch_stride + from % source.m * source.row_stride;
  const int64_t padding = layout.stride - layout.k;
  // Calls use(segment, its first k, one past its last).
  const auto for_each_segment = [&](auto&& use) {
    for (int64_t begin = 0, s = 0; begin < layout.k; ++s) {
      const int64_t group_end = (begin / layout.group + 1) * layout.group;
      int64_t end = layout.segments_per_group == 1 ? group_end : begin + kMaxSegment;
      end = end < group_end ? end : group_end;
      end = end < layout.k ? end : layout.k;
      use(to * layout.segments + s, begin, end);
      begin = end;
    }
  };

  if (lhs.kind == Lhs::F32) {
    float* row = static_cast<float*>(lhs.values) + to * layout.stride;
    for (int64_t k = 0; k < layout.k; ++k) row[k] = x[k * source.col_stride];
    std::memset(row + layout.k, 0, static_cast<size_t>(padding) * sizeof *row);
    if (!layout.sums) return;
    for_each_segment([&](int64_t s, int64_t begin, int64_t end) {
      float sum = 0;
      for (int64_t k = begin; k < end; ++k) sum += row[k];
      static_cast<float*>(lhs.sums)[s] = sum;
    });
    return;
  }

  int8_t* row = static_cast<int8_t*>(lhs.values) + to * layout.stride;
  auto* sums = static_cast<int32_t*>(lhs.sums);
  // A chunk at a time is gathered where columns are strided, and read in place where they are not.
  constexpr int64_t kChunk = 256;
  float gathered[kChunk];
  const auto for_each_chunk = [&](int64_t begin, int64_t end, auto&& use) {
    if (source.col_stride == 1) return use(x + begin, begin, end - begin);
    for (int64_t k = begin; k < end; k += kChunk) {
      const int64_t count = end - k < kChunk ? end - k : kChunk;
      for (int64_t i = 0; i < count; ++i) gathered[i] = x[(k + i) * source.col_stride];
      use(gathered, k, count);
    }
  };
  const auto quantizer = [&](int64_t begin, int64_t end) {
    uint32_t amax = 0;
    for_each_chunk(begin, end, [&](const float* values, int64_t, int64_t count) {
      const uint32_t chunk = amax_bits(values, count);
      amax = chunk > amax ? chunk : amax;
    });
    return make_quantizer(amax);
  };
  const Quantizer token = lhs.token_scales ? quantizer(0, layout.k) : Quantizer{};
  if (lhs.token_scales) lhs.token_scales[to] = token.scale;
  int64_t open_group = -1;
  Quantizer group{};
  for_each_segment([&](int64_t s, int64_t begin, int64_t end) {
    if (begin / layout.group != open_group) {
      open_group = begin / layout.group;
      const int64_t group_end = (open_group + 1) * layout.group;
      group = lhs.token_scales ? token : quantizer(begin, group_end < layout.k ? group_end : layout.k);
    }
    sums[s] = 0;
    for_each_chunk(begin, end, [&](const float* values, int64_t k, int64_t count) {
      sums[s] += quantize(values, count, group.inverse, row + k);
    });
    lhs.scales[s] = lhs.token_scales ? 1.0f : group.scale;
  });
  std::memset(row + layout.k, 0, static_cast<size_t>(padding));
}

}  // namespace qmm
