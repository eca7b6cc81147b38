// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights outside a matmul: quantizing, packing, unpacking, dequantizing rows.
#pragma once

#include "layout.h"

namespace qmm {

// Checks pointers, strides and (as an input) the range of 4-bit zeros of canonical weights.
qmm_status check_weights(const char* function, const qmm_rhs_desc& desc, const Layout& layout,
                         const qmm_weights* weights, bool input);

// Packs panel `p` of checked weights: panel_stride bytes at `panel`.
void pack_panel(const qmm_rhs_desc& desc, const Layout& layout, const qmm_weights& weights, int64_t p, uint8_t* panel);

// Checks an opened rhs, and lays it out again.
qmm_status check_rhs(const char* function, const qmm_rhs* rhs, Layout* layout);

inline const uint8_t* first_panel(const qmm_rhs& rhs) {
  return static_cast<const uint8_t*>(rhs.packed) + sizeof(Header);
}

// What the C functions of these names do.
qmm_status pack(const qmm_rhs_desc* desc, const qmm_weights* weights, void* packed, size_t packed_size);
qmm_status unpack(const qmm_rhs* rhs, const qmm_weights* weights);
qmm_status quantize(const qmm_rhs_desc* desc, const float* w, int64_t w_stride, const qmm_weights* weights);
qmm_status verify(const qmm_rhs* rhs);
qmm_status dequantize_rows(const qmm_rhs* rhs, const int64_t* ids, int64_t count, float* y, int64_t y_stride);

}  // namespace qmm
