// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory of the benchmarks: random matrices, weights, and copies that come from memory and not from the cache.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "shapes.h"

namespace bench {

struct Free {
  void operator()(void* p) const;
};

// Memory at a multiple of 2 MiB, in huge pages where the system gives them, so that no contender pays for small ones.
template <class T>
struct Buffer {
  std::unique_ptr<T[], Free> data;
  size_t size = 0;  // elements

  T* get() const { return data.get(); }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(data.get(), size)); }
};
enum class Pages { Small, Huge };
std::unique_ptr<std::byte[], Free> allocate_bytes(size_t size, Pages pages = Pages::Huge);
template <class T>
Buffer<T> allocate(size_t size) {
  return {std::unique_ptr<T[], Free>(reinterpret_cast<T*>(allocate_bytes(size * sizeof(T)).release())), size};
}

// Uniform in -1 .. 1, always the same.
Buffer<float> random_floats(int64_t count);

// Ends the program with the library's sentence unless `status` is QMM_OK.
void require(qmm_status status);

// Weights of a shape, and what they are in a format: made at the first call and kept.
struct CanonicalWeights {
  qmm_rhs_desc desc;
  Buffer<std::byte> codes, scales, offsets;
  qmm_weights arrays() const;
};
std::span<const float> float_weights(Shape shape);
Buffer<std::byte> copy_float_weights(Shape shape);
const CanonicalWeights& canonical_weights(Shape shape, const Format& format);

// Bytes of the copies that `rotate` makes: twice the last-level cache, from 64 MiB to 1 GiB.
size_t rotation_size();

// Returns the addresses of copies of `bytes`, enough of them to fill rotation_size(), until the next call.
std::vector<const std::byte*> rotate(std::span<const std::byte> bytes);

}  // namespace bench
