// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one interface of every kernel. A kernel computes rows x panels x a range of k of Y = X W^T. It allocates nothing,
// keeps no state, starts no threads, and equals the scalar kernel bit for bit.
#pragma once

#include <cstdint>

#include "numerics.h"

namespace qmm {

constexpr int64_t kPanel = 16;          // columns of a panel
constexpr int64_t kLine = 64;           // bytes of a line of codes: 16 columns x 4 k (8 bits) or x 8 k (4 bits)
constexpr int64_t kMaxSegment = 16384;  // k whose products int32 is sure to hold
constexpr int64_t kMaxBlock = 1024;     // k of the longest block
constexpr int64_t kMaxRows = 128;       // rows of the tallest block

enum class Lhs : int { F32, S8 };
enum class Offset : int { Symmetric, Zeros, Mins };  // QMM_SYMMETRIC ...
static constexpr int symmetric_zero(int bits) { return bits == 4 ? 8 : 0; }

// Where the codes of a panel hold column c at k: a byte, and the shift of the code in it. runtime/layout.h draws it.
struct Place {
  int64_t byte;
  int shift;
};
static constexpr Place place(int bits, int64_t c, int64_t k) {
  if (bits == 8) return {k / 4 * kLine + c * 4 + k % 4, 0};
  return {k / 8 * kLine + c * 4 + k % 4, k % 8 < 4 ? 0 : 4};
}
static inline int code_at(int bits, const uint8_t* codes, int64_t c, int64_t k) {
  const Place at = place(bits, c, k);
  return bits == 8 ? static_cast<int8_t>(codes[at.byte]) : codes[at.byte] >> at.shift & 15;
}

// What one call computes. Panels are p = 0 .. panels-1, groups g = 0 .. ceil(k / group) - 1, and the last group may be
// short. Only a group longer than the kernel's block_k goes on over several blocks, and a block then lies within that
// one group: its sums so far travel in `carry`, in a form of the kernel's own, and the block that closes the group
// applies the scale. Scales and offsets, and the lhs' scales and sums, are those of the whole group (or segment) in all
// of its blocks.
struct Block {
  int64_t rows;    // 1 .. kMaxRows
  int64_t panels;  // 1 .. NR / 16
  int64_t k;       // a multiple of 8, up to kMaxBlock; the lhs is 0 where K is padded
  int64_t group;   // a multiple of 8
  bool resume;     // the first group goes on from carry
  bool suspend;    // the last group is left open in carry

  // The packed lhs: rows of s8 or float, and a scale (S8) and a sum of the row (int32, or float for mins) per group.
  const void* lhs;
  int64_t lhs_stride;  // elements
  const float* lhs_scales;
  const void* lhs_sums;
  int64_t lhs_group_stride;  // elements of both

  // The panels: each array starts at the first k or group of the block; panels are panel_stride bytes apart. Codes,
  // scales and offsets need no alignment. The three bytes after a panel's codes, where codes or scales follow, may be
  // read.
  const uint8_t* codes;
  const uint8_t* scales;  // [groups][16]
  // 4-bit zeros are 0..16: of others, which a damaged file may hold, each kernel makes what it will.
  const uint8_t* offsets;  // [groups][16], int8 zeros or mins of the scales' type; unused when symmetric
  int64_t panel_stride;
  Scale scale;
  Offset offset;

  // Where the same arrays start in the block that comes next, to be prefetched and never read.
  const uint8_t* next_codes;
  const uint8_t* next_scales;
  const uint8_t* next_offsets;  // unused when symmetric

  float* acc;     // [rows][panels * 16], read and written
  void* carry;    // room for [rows][panels * 16] of int32 or float, rows made even
  void* scratch;  // kScratch bytes, aligned to 64
};

constexpr int64_t kScratch = 110592;  // bytes; a kernel that uses it asserts that its tile fits

using KernelFunction = void(const Block&);

// A row of kernels.inc.
struct Kernel {
  const char* name;
  uint64_t need;  // QMM_CPU_* features
  Lhs lhs;
  int bits;
  int64_t min_m;       // the least M it is chosen for; it is right for any
  int64_t mr, nr, kr;  // the tile
  int64_t block_k;     // the longest block it takes
  KernelFunction* run;
};

struct QuantizedRow;  // quantizer.h
using QuantizerFunction = void(const QuantizedRow&);

// A row of kernels.inc, too.
struct Quantizer {
  const char* name;
  uint64_t need;
  int64_t k;  // it takes so many at a time
  QuantizerFunction* run;
};

// What a kernel's file may know of its row.
struct Tile {
  int64_t mr, nr, kr, block_k;
};

#define QMM_KERNEL(name, need, lhs, bits, min_m, mr, nr, kr, block_k) \
  KernelFunction name;                                                \
  constexpr Tile name##_tile = {mr, nr, kr, block_k};
#define QMM_QUANTIZER(name, need, k) QuantizerFunction name;
#include "kernels.inc"

}  // namespace qmm
