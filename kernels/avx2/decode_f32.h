// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Codes of eight columns to float, one k at a time: a column's k lie in one 32-bit lane.
#pragma once

#include "avx2.h"

namespace qmm::avx2 {

// Calls use(j, codes of 8 columns at k + j as float) for j = 0 .. 7; `line` points to the columns' 32 bytes of the
// line.
template <int Bits, class Use>
QMM_INLINE void decode(const uint8_t* line, Use use) {
  const __m256i lo = load(line);
  if constexpr (Bits == 4) {
    const __m256i mask = _mm256_set1_epi32(15);
    for (int j = 0; j < 4; ++j) use(j, _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(lo, 8 * j), mask)));
    for (int j = 0; j < 4; ++j)
      use(4 + j, _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(lo, 8 * j + 4), mask)));
  } else {
    const __m256i hi = load(line + kLine);
    for (int j = 0; j < 8; ++j)
      use(j, _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(j < 4 ? lo : hi, 24 - 8 * (j % 4)), 24)));
  }
}

}  // namespace qmm::avx2
