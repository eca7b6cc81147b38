// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace bench {

// Adds the benchmarks of what this machine can do at most, on `threads` threads at once; all but f32_decode_l1 are of
// CPUs with AVX2:
//
//   peak/fma               f32 FMAs
//   peak/maddubs_chain8    8-bit products, 8 sums of pairs added in int16 before they are widened: 4 bits by 8 bits
//   peak/maddubs_madd      8-bit products, every sum of pairs widened
//   peak/madd16            16-bit products: 8 bits by 8 bits, exact
//   peak/f32_decode_l1     libqmm's GEMV of 4-bit weights by floats, the weights in the L1 cache
//   peak/read/<S>x<pages>  reading memory that is not in a cache, S places side by side, in pages of 4 KiB or 2 MiB
void add_peaks(int threads);

}  // namespace bench
