// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "choose.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

#include "cpu.h"

namespace qmm {
namespace {

constexpr Kernel kTable[] = {
#define QMM_KERNEL(name, need, lhs, bits, min_m, mr, nr, kr, block_k) \
  {#name, need, lhs, bits, min_m, mr, nr, kr, block_k, &name},
#include "../kernels/kernels.inc"
};

constexpr Quantizer kQuantizers[] = {
#define QMM_QUANTIZER(name, need, k) {#name, need, k, &name},
#include "../kernels/kernels.inc"
};

static_assert(int(Scale::F32) == QMM_F32 && int(Scale::F16) == QMM_F16 && int(Scale::BF16) == QMM_BF16);
static_assert(int(Offset::Symmetric) == QMM_SYMMETRIC && int(Offset::Zeros) == QMM_ZEROS &&
              int(Offset::Mins) == QMM_MINS);

// What this process found when it first asked.
struct Found {
  uint64_t features;
  char bad_cap[64];  // QMM_MAX_ISA, where it names no level
};
Found found = {};

void find() {
  const char* cap = std::getenv("QMM_MAX_ISA");
  found.features = decode_cpu(read_cpu_words());
  if (!cap_features(cap, &found.features)) std::snprintf(found.bad_cap, sizeof found.bad_cap, "%s", cap);
}

}  // namespace

std::span<const Kernel> kernels() { return kTable; }

const Kernel* choose(uint64_t features, Lhs lhs, int bits, int64_t m) {
  const Kernel* best = nullptr;
  for (const Kernel& kernel : kTable)
    if (kernel.lhs == lhs && kernel.bits == bits && (kernel.need & ~features) == 0 && kernel.min_m <= m) best = &kernel;
  return best;
}

std::span<const Quantizer> quantizers() { return kQuantizers; }

const Quantizer* choose_quantizer(uint64_t features) {
  const Quantizer* best = nullptr;
  for (const Quantizer& quantizer : kQuantizers)
    if ((quantizer.need & ~features) == 0) best = &quantizer;
  return best;
}

qmm_status process_features(uint64_t* features) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
  if (found.bad_cap[0] != '\0') {
    char names[128] = "";
    size_t length = 0;
    for (const IsaLevel& level : isa_levels())
      length += static_cast<size_t>(
          std::snprintf(names + length, sizeof names - length, "%s%s", length == 0 ? "" : ", ", level.name));
    return fail(QMM_INVALID_ARGUMENT, "QMM_MAX_ISA is \"%s\"; it must be one of %s", found.bad_cap, names);
  }
  *features = found.features;
  return QMM_OK;
}

}  // namespace qmm
