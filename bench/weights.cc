// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>

namespace bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

constexpr size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

void Free::operator()(void* p) const { std::free(p); }

std::unique_ptr<std::byte[], Free> allocate_bytes(size_t size) {
  const size_t rounded = round_up(size, kHugePage);
  void* memory = std::aligned_alloc(kHugePage, rounded);
  if (memory == nullptr) {
    std::fprintf(stderr, "qmm_bench: no memory for %zu bytes\n", rounded);
    std::exit(1);
  }
  madvise(memory, rounded, MADV_HUGEPAGE);
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

Buffer<std::byte> pack(const qmm_rhs_desc& desc, const float* w) {
  const int64_t groups = (desc.k + desc.group - 1) / desc.group, row_bytes = (desc.k * desc.bits + 7) / 8;
  const auto codes = allocate<std::byte>(static_cast<size_t>(desc.n * row_bytes));
  const auto scales = allocate<uint16_t>(static_cast<size_t>(desc.n * groups));
  const auto offsets = allocate<uint16_t>(static_cast<size_t>(desc.n * groups));
  const qmm_weights weights = {.struct_size = sizeof weights,
                               .codes = codes.get(),
                               .codes_stride = row_bytes,
                               .scales = scales.get(),
                               .scales_stride = groups,
                               .offsets = desc.offset == QMM_SYMMETRIC ? nullptr : offsets.get(),
                               .offsets_stride = groups};
  require(qmm_quantize(&desc, w, desc.k, &weights));
  size_t size;
  require(qmm_packed_size(&desc, &size));
  auto packed = allocate<std::byte>(size);
  require(qmm_pack(&desc, &weights, packed.get(), size));
  return packed;
}

qmm_rhs open(std::span<const std::byte> packed) {
  qmm_rhs rhs = {};
  rhs.struct_size = sizeof rhs;
  require(qmm_rhs_open(packed.data(), packed.size(), &rhs));
  return rhs;
}

std::span<const std::byte> float_weights(Shape shape) {
  static std::map<std::pair<int64_t, int64_t>, Buffer<float>> made;
  auto& w = made[{shape.n, shape.k}];
  if (w.data == nullptr) w = random_floats(shape.n * shape.k);
  return w.bytes();
}

std::span<const std::byte> packed_weights(Shape shape, const Format& format) {
  static std::map<std::tuple<int64_t, int64_t, const char*>, Buffer<std::byte>> made;
  auto& packed = made[{shape.n, shape.k, format.name}];
  if (packed.data == nullptr)
    packed = pack(describe(shape, format), reinterpret_cast<const float*>(float_weights(shape).data()));
  return packed.bytes();
}

size_t rotation_size() {
  const long cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
  return std::clamp(2 * static_cast<size_t>(std::max(cache, 0L)), size_t{64} << 20, size_t{1} << 30);
}

std::vector<std::span<const std::byte>> rotate(std::span<const std::byte> bytes) {
  static Buffer<std::byte> memory;
  static const std::byte* held = nullptr;  // whose copies these are
  const size_t stride = round_up(bytes.size(), 64);
  const size_t count = std::max<size_t>(2, (rotation_size() + stride - 1) / stride);
  if (memory.size < count * stride) {
    memory = {};  // first, so that never two are there
    memory = allocate<std::byte>(count * stride);
    held = nullptr;
  }
  std::vector<std::span<const std::byte>> copies;
  for (size_t i = 0; i < count; ++i) {
    std::byte* copy = memory.get() + i * stride;
    if (held != bytes.data()) std::memcpy(copy, bytes.data(), bytes.size());
    copies.emplace_back(copy, bytes.size());
  }
  held = bytes.data();
  return copies;
}

}  // namespace bench
