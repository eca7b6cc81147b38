// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The packed lhs: what kernels read instead of X. Strides, and later dtypes and row indices, end here.
#pragma once

#include "layout.h"

namespace qmm {

// X[rows, k], rows in batches of `m`. Strides in elements.
struct LhsSource {
  const float* x;
  int64_t m;
  int64_t row_stride, col_stride, batch_stride;
};

// The arrays of a packed lhs, all row-major. A segment is a group, or 16384 of its k (S8) where it is longer.
struct LhsLayout {
  int32_t kind;      // QMM_LHS_*
  bool sums;         // whether sums are needed: always for S8, for F32 only with mins
  int64_t k, group;  // of the weights; group is padded to a multiple of 8
  int64_t stride;    // elements of a row of codes or floats, >= k; what is past k is 0
  int64_t segments_per_group;
  int64_t segments;
  int64_t size(int64_t rows) const;  // bytes, with room to align
};

LhsLayout make_lhs_layout(int32_t kind, const qmm_rhs_desc& desc, const Layout& layout);

struct PackedLhs {
  Lhs kind;
  void* values;         // [rows, stride] int8 or float
  float* scales;        // [rows, segments]; 1 for QMM_LHS_S8_TOKEN
  void* sums;           // [rows, segments] int32 or float
  float* token_scales;  // [rows] for QMM_LHS_S8_TOKEN, else nullptr
};

// The arrays within `memory`, which has any alignment.
PackedLhs place_lhs(const LhsLayout& layout, int64_t rows, void* memory);

// Packs row `from` of the source as row `to`; the quantizer is for an 8-bit lhs.
void pack_lhs_row(const LhsLayout& layout, const LhsSource& source, const Quantizer* quantizer, int64_t from,
                  const PackedLhs& lhs, int64_t to);

}  // namespace qmm
