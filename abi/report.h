// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How what compiled code calls tells of a failure.
#pragma once

#include "qmm/qmm.h"

namespace qmm {

// Keeps a status that is not QMM_OK for qmm_sticky_status, and calls the error handler.
void report(qmm_status status);

}  // namespace qmm
