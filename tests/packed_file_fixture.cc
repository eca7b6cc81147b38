// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library that holds the description of a packed file, as compiled code does. The test fills it in.
#include "qmm/qmm.h"

extern "C" {
extern qmm_packed_file packed_file;
qmm_packed_file packed_file = {};
}
