// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads: the caller's, or the small built-in pool.
#pragma once

#include "error.h"

namespace qmm {

int64_t max_threads();
qmm_status set_num_threads(int64_t num_threads);
qmm_status set_threads(const qmm_threads* threads);
qmm_status check_threads(const char* function, const qmm_threads& threads);

// The process default; its parallel_for is never null.
qmm_threads default_threads();

// Runs task(arg, i) for i = 0 .. count-1 on the threads of the process default.
qmm_status run(qmm_task task, void* arg, int64_t count);

// The same on the calling thread.
void run_here(void* context, qmm_task task, void* arg, int64_t count);

}  // namespace qmm
