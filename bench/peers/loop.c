// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of libqmm one after the other, at the cost of a C program's and not of Python's.
#include <qmm/qmm.h>

// Runs `count` calls until one fails, and returns its status.
int run(qmm_status (*matmul)(const qmm_matmul_args*), const qmm_matmul_args* calls, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const qmm_status status = matmul(&calls[i]);
    if (status != QMM_OK) return status;
  }
  return QMM_OK;
}
