// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scratch of a thread: it grows to what the largest call needs, is reused, and is freed when the thread ends.
#pragma once

#include <cstddef>

namespace qmm {

// At least `size` bytes, aligned to 64; nullptr if there is no memory. Valid until the next call on this thread.
void* arena(size_t size);

}  // namespace qmm
