// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The vectors of the ISA that a file is compiled for. Tiles are written by their names, once for AVX2 and AVX-512.
#pragma once

#if defined(__AVX512F__)
#include "../avx512/avx512.h"
#else
#include "../avx2/avx2.h"
#endif
