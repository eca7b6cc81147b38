// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For hot_loops.py: the loop of a tile of ROWS rows x 16 columns. The registers hold the sums of 4 rows and what is
// added to them, but not those of 8.
#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) void fixture(const __m256i* w, const int* a, long stride, long steps, __m256i* sums) {
  __m256i x[ROWS][2];
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; ++i) x[i][0] = x[i][1] = _mm256_setzero_si256();
  for (long s = 0; s < steps; ++s)
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; ++i) {
      const __m256i av = _mm256_set1_epi32(a[i * stride + s]);
      x[i][0] = _mm256_add_epi16(x[i][0], _mm256_maddubs_epi16(w[2 * s], av));
      x[i][1] = _mm256_add_epi16(x[i][1], _mm256_maddubs_epi16(w[2 * s + 1], av));
    }
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; ++i) sums[2 * i] = x[i][0], sums[2 * i + 1] = x[i][1];
}
#else
#include <arm_neon.h>

void fixture(const int16x4_t* w, const int16_t* a, long stride, long steps, int32x4_t* sums) {
  int32x4_t x[ROWS][4];
#pragma GCC unroll 32
  for (int i = 0; i < 4 * ROWS; ++i) x[i / 4][i % 4] = vdupq_n_s32(0);
  for (long s = 0; s < steps; ++s)
#pragma GCC unroll 32
    for (int i = 0; i < 4 * ROWS; ++i)
      x[i / 4][i % 4] = vmlal_s16(x[i / 4][i % 4], w[4 * s + i % 4], vdup_n_s16(a[i / 4 * stride + s]));
#pragma GCC unroll 32
  for (int i = 0; i < 4 * ROWS; ++i) sums[i] = x[i / 4][i % 4];
}
#endif
