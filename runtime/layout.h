// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The packed layout, the same on every CPU. All numbers are little-endian.
//
//   Header, 256 bytes; then ceil(n / 16) panels, panel_stride bytes each:
//     codes    groups ascending, k ascending, in lines of 64 bytes
//              8 bits: a line is 16 columns x 4 k, byte c * 4 + i is column c, k + i
//              4 bits: a line is 16 columns x 8 k, byte c * 4 + i holds k + i (low nibble) and k + 4 + i (high nibble)
//     scales   [groups][16] of scale_dtype
//     offsets  QMM_ZEROS: int8 [groups][16]; QMM_MINS: [groups][16] of scale_dtype
//   A panel starts at a multiple of 64 bytes from the header. K is padded to a multiple of 8 and N to one of 16, by
//   codes, scales and offsets of 0; so is the rest of a panel.
//
// A run of panels is addressable by itself, so columns can be split over threads, processes and machines.
#pragma once

#include <cstdint>

#include "../kernels/kernel.h"
#include "error.h"

namespace qmm {

struct Header {
  char magic[8];  // "QMMPACK" and 0
  uint32_t version;
  uint32_t byte_order;  // kByteOrder, as the writer stores it
  uint32_t header_size;
  uint32_t bits;
  uint32_t offset;
  uint32_t scale_dtype;
  int64_t n, k, group;
  int64_t scales_at, offsets_at;  // bytes from the start of a panel; offsets_at is 0 where there are none
  int64_t panel_stride;
  int64_t size;            // of the whole
  uint64_t checksum;       // of all bytes, this field read as 0: see checksum()
  int64_t permutation_at;  // a column permutation (act-order); 0: none. Not in this version
  uint32_t codebook_size;  // entries of codebook; 0: codes are numbers. Not in this version
  uint32_t reserved32;
  float codebook[16];
  uint8_t reserved[80];
};
static_assert(sizeof(Header) == 256);

constexpr uint32_t kVersion = 1;
constexpr uint32_t kByteOrder = 0x01020304;

// Sizes that follow from shape and format.
struct Layout {
  int64_t groups = 0;
  int64_t panels = 0;
  int64_t padded_k = 0;
  int64_t padded_group = 0;  // a multiple of 8
  int64_t scales_at = 0, offsets_at = 0, panel_stride = 0, size = 0;
};

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
constexpr int64_t ceil_div(int64_t value, int64_t by) { return (value + by - 1) / by; }
constexpr int64_t dtype_size(int32_t dtype) { return dtype == QMM_F32 ? 4 : 2; }
// Of a zero or a min.
constexpr int64_t offset_size(const qmm_rhs_desc& desc) {
  return desc.offset == QMM_ZEROS ? 1 : dtype_size(desc.scale_dtype);
}

// Checks shape and format, and lays them out. `function` begins the sentence of an error.
qmm_status make_layout(const char* function, const qmm_rhs_desc* desc, Layout* layout);

// The header of such weights, with a checksum of 0.
Header make_header(const qmm_rhs_desc& desc, const Layout& layout);

// Checks the header of packed weights against the layout of what it says they are.
qmm_status open_packed(const void* packed, size_t size, qmm_rhs* rhs);

// FNV-1a, 64 bits wide, over 8-byte words instead of bytes, with the upper half folded down at each step (a
// multiplication alone carries nothing down). Each step is one-to-one, so no change of one word is missed.
uint64_t checksum(const void* packed, int64_t size);

}  // namespace qmm
