// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "choose.h"

#include <atomic>
#include <cstdlib>

#include "cpu.h"

namespace qmm {
namespace {

constexpr Kernel kTable[] = {
#define QMM_KERNEL(name, need, lhs, bits, min_m, mr, nr, kr, block_k) \
  {#name, need, lhs, bits, min_m, mr, nr, kr, block_k, &name},
#include "../kernels/kernels.inc"
#undef QMM_KERNEL
};

constexpr uint64_t kUnread = ~uint64_t(0), kBadCap = kUnread - 1;

}  // namespace

std::span<const Kernel> kernels() { return kTable; }

const Kernel* choose(uint64_t features, Lhs lhs, int bits, int64_t m) {
  const Kernel* best = nullptr;
  for (const Kernel& kernel : kTable)
    if (kernel.lhs == lhs && kernel.bits == bits && (kernel.need & ~features) == 0 && kernel.min_m <= m) best = &kernel;
  return best;
}

qmm_status process_features(uint64_t* features) {
  static std::atomic<uint64_t> cached{kUnread};
  uint64_t value = cached.load(std::memory_order_relaxed);
  if (value == kUnread) {
    value = decode_cpu(read_cpu_words());
    if (!cap_features(std::getenv("QMM_MAX_ISA"), &value)) value = kBadCap;
    cached.store(value, std::memory_order_relaxed);
  }
  if (value == kBadCap) {
    const char* cap = std::getenv("QMM_MAX_ISA");
    return fail(QMM_INVALID_ARGUMENT, "QMM_MAX_ISA is \"%s\"; it must be scalar or avx2", cap ? cap : "");
  }
  *features = value;
  return QMM_OK;
}

}  // namespace qmm
