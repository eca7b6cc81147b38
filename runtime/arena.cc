// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "arena.h"

#include <pthread.h>

#include <cstdlib>

namespace qmm {
namespace {

// What this thread keeps between calls.
thread_local void* kept = nullptr;
thread_local size_t kept_capacity = 0;

pthread_key_t key;
bool has_key = false;
pthread_once_t once = PTHREAD_ONCE_INIT;

void keep(void* memory, size_t capacity) {
  std::free(kept);
  kept = memory;
  kept_capacity = capacity;
}

// Other destructors of the thread may run after this one, and call the library again.
void at_thread_end(void*) { keep(nullptr, 0); }

void make_key() { has_key = pthread_key_create(&key, at_thread_end) == 0; }

}  // namespace

Arena::Arena(size_t size) {
  if (size == 0) return;
  if (size > kept_capacity) {
    const size_t grown = (size + 4095) & ~size_t(4095);
    memory_ = std::aligned_alloc(64, grown);
    capacity_ = memory_ != nullptr ? grown : 0;
    return;
  }
  memory_ = kept;
  capacity_ = kept_capacity;
  kept = nullptr;
  kept_capacity = 0;
}

Arena::~Arena() {
  pthread_once(&once, make_key);
  // Without a key, nothing would free it when the thread ends.
  if (capacity_ > kept_capacity && has_key && pthread_setspecific(key, memory_) == 0)
    keep(memory_, capacity_);
  else
    std::free(memory_);
}

}  // namespace qmm
