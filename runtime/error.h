// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The status of a call, and its sentence for qmm_last_error().
#pragma once

#include "qmm/qmm.h"

namespace qmm {

// A struct of qmm.h, ready to be filled.
template <class Struct>
Struct sized() {
  Struct object = {};
  object.struct_size = sizeof object;
  return object;
}

// Checks the struct_size with which a struct of qmm.h begins: at least `known`, the size of this version's, and no
// field set that only a later version has.
qmm_status check_struct(const char* function, const char* name, const void* object, size_t known);

// Keeps the sentence for this thread and returns the status.
[[gnu::format(printf, 2, 3)]] qmm_status fail(qmm_status status, const char* format, ...);

const char* last_error();

}  // namespace qmm

// Returns from the enclosing function if `expression` is not QMM_OK.
#define QMM_TRY(expression) \
  if (const qmm_status qmm_try_status = (expression); qmm_try_status != QMM_OK) return qmm_try_status
