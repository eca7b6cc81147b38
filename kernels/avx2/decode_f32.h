// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Codes of eight columns to float: a column's k lie in one 32-bit lane.
#pragma once

#include "avx2.h"

namespace qmm::avx2 {
namespace {

// The codes at k + j, j = 0 .. 7; `line` points to the columns' 32 bytes of the line that begins at k.
template <int Bits>
QMM_INLINE __m256 decode(const uint8_t* line, int j) {
  if constexpr (Bits == 4) {
    const int shift = j < 4 ? 8 * j : 8 * (j - 4) + 4;
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(load(line), shift), _mm256_set1_epi32(15)));
  } else {
    const __m256i lanes = load(line + j / 4 * kLine);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(lanes, 24 - 8 * (j % 4)), 24));
  }
}

}  // namespace
}  // namespace qmm::avx2
