// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "arena.h"

#include "platform.h"

namespace qmm {
namespace {

// What this thread keeps between calls.
thread_local void* kept = nullptr;
thread_local size_t kept_capacity = 0;

ThreadValue kept_value;  // the same, to be freed when the thread ends
bool has_value = false;
Once once;

void keep(void* memory, size_t capacity) {
  aligned_free(kept);
  kept = memory;
  kept_capacity = capacity;
}

// Other destructors of the thread may run after this one, and call the library again.
void at_thread_end(void*) { keep(nullptr, 0); }

void make_value() { has_value = kept_value.make(at_thread_end); }

}  // namespace

Arena::Arena(size_t size) {
  if (size == 0) return;
  if (size > kept_capacity) {
    const size_t grown = (size + 4095) & ~size_t(4095);
    memory_ = aligned_allocate(64, grown);
    capacity_ = memory_ != nullptr ? grown : 0;
    return;
  }
  memory_ = kept;
  capacity_ = kept_capacity;
  kept = nullptr;
  kept_capacity = 0;
}

Arena::~Arena() {
  once.call(make_value);
  // Without the value, nothing would free it when the thread ends.
  if (capacity_ > kept_capacity && has_value && kept_value.set(memory_))
    keep(memory_, capacity_);
  else
    aligned_free(memory_);
}

}  // namespace qmm
