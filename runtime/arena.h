// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scratch of a thread: it grows to what the largest call needs, is reused, and is freed when the thread ends.
#pragma once

#include <cstddef>

namespace qmm {

// Takes the thread's arena for the length of a call. A call that nests in another (while a parallel-for hook waits, it
// may run anything on this thread) finds none and has one of its own.
class Arena {
 public:
  explicit Arena(size_t size);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // At least `size` bytes, aligned to 64; nullptr if there is no memory, or size is 0.
  void* memory() const { return memory_; }

 private:
  void* memory_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace qmm
