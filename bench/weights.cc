// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

namespace bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

constexpr size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

void Free::operator()(void* p) const { std::free(p); }

std::unique_ptr<std::byte[], Free> allocate_bytes(size_t size, Pages pages) {
  const size_t rounded = round_up(size, kHugePage);
  void* memory = std::aligned_alloc(kHugePage, rounded);
  if (memory == nullptr) {
    std::fprintf(stderr, "qmm_bench: no memory for %zu bytes\n", rounded);
    std::exit(1);
  }
  madvise(memory, rounded, pages == Pages::Huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(memory));
}

Buffer<float> random_floats(int64_t count) {
  auto floats = allocate<float>(static_cast<size_t>(count));
  uint32_t state = 1;
  for (size_t i = 0; i < floats.size; ++i) {
    state = state * 1664525 + 1013904223;
    floats.data[i] = static_cast<float>(static_cast<int32_t>(state) >> 8) * 0x1p-23f;
  }
  return floats;
}

void require(qmm_status status) {
  if (status == QMM_OK) return;
  std::fprintf(stderr, "qmm_bench: %s: %s\n", qmm_status_name(status), qmm_last_error());
  std::exit(1);
}

qmm_weights CanonicalWeights::arrays() const {
  const int64_t groups = (desc.k + desc.group - 1) / desc.group;
  return {.struct_size = sizeof(qmm_weights),
          .codes = codes.get(),
          .codes_stride = (desc.k * desc.bits + 7) / 8,
          .scales = scales.get(),
          .scales_stride = groups,
          .offsets = desc.offset == QMM_SYMMETRIC ? nullptr : offsets.get(),
          .offsets_stride = groups};
}

std::span<const float> float_weights(Shape shape) {
  static std::map<Shape, Buffer<float>> made;
  auto& w = made[shape];
  if (w.data == nullptr) w = random_floats(shape.n * shape.k);
  return {w.get(), w.size};
}

Buffer<std::byte> copy_float_weights(Shape shape) {
  const auto weights = float_weights(shape);
  auto copy = allocate<std::byte>(weights.size_bytes());
  std::memcpy(copy.get(), weights.data(), weights.size_bytes());
  return copy;
}

const CanonicalWeights& canonical_weights(Shape shape, const Format& format) {
  static std::map<std::pair<Shape, std::string>, CanonicalWeights> made;
  const auto [place, is_new] = made.try_emplace({shape, format.name});
  CanonicalWeights& weights = place->second;
  if (!is_new) return weights;
  weights.desc = describe(shape, format);
  const int64_t groups = (shape.k + weights.desc.group - 1) / weights.desc.group;
  const auto sides = static_cast<size_t>(shape.n * groups * 4);  // of any scale type
  weights.codes = allocate<std::byte>(static_cast<size_t>(shape.n * ((shape.k * format.bits + 7) / 8)));
  weights.scales = allocate<std::byte>(sides);
  weights.offsets = allocate<std::byte>(sides);
  const qmm_weights arrays = weights.arrays();
  require(qmm_quantize(&weights.desc, float_weights(shape).data(), shape.k, &arrays));
  return weights;
}

size_t rotation_size() {
  const long cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
  return std::clamp(2 * static_cast<size_t>(std::max(cache, 0L)), size_t{64} << 20, size_t{1} << 30);
}

std::vector<const std::byte*> rotate(std::span<const std::byte> bytes) {
  static Buffer<std::byte> memory;
  static const std::byte* held = nullptr;  // whose copies these are
  const size_t stride = round_up(bytes.size(), 64);
  const size_t count = std::max<size_t>(2, (rotation_size() + stride - 1) / stride);
  if (memory.size < count * stride) {
    memory = {};  // first, so that never two are there
    memory = allocate<std::byte>(count * stride);
    held = nullptr;
  }
  std::vector<const std::byte*> copies;
  for (size_t i = 0; i < count; ++i) {
    std::byte* copy = memory.get() + i * stride;
    if (held != bytes.data()) std::memcpy(copy, bytes.data(), bytes.size());
    copies.push_back(copy);
  }
  held = bytes.data();
  return copies;
}

}  // namespace bench
