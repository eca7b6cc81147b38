// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "arena.h"

#include <pthread.h>

#include <cstdlib>

namespace qmm {
namespace {

thread_local void* memory = nullptr;
thread_local size_t capacity = 0;

pthread_key_t key;
pthread_once_t once = PTHREAD_ONCE_INIT;

void make_key() { pthread_key_create(&key, std::free); }

}  // namespace

void* arena(size_t size) {
  if (size <= capacity) return memory;
  const size_t grown = (size + 4095) & ~size_t(4095);
  void* larger = std::aligned_alloc(64, grown);
  if (larger == nullptr) return nullptr;
  pthread_once(&once, make_key);
  std::free(memory);
  memory = larger;
  capacity = grown;
  pthread_setspecific(key, memory);
  return memory;
}

}  // namespace qmm
