// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "choose.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "cpu.h"
#include "platform.h"

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
  CpuWords words;
  char max_isa[64];   // QMM_MAX_ISA
  bool knows_level;   // it names one, or none is asked for
  uint64_t features;  // those that it leaves
};
Found found = {};

char cpu_name[64];  // for those who ask

void find() {
  const char* cap = std::getenv("QMM_MAX_ISA");
  std::snprintf(found.max_isa, sizeof found.max_isa, "%s", cap == nullptr ? "" : cap);
  uint64_t wanted = ~uint64_t(0);
  cap_features(found.max_isa, &wanted);
  found.words = read_cpu_words((wanted & QMM_CPU_AMX) != 0);
  found.features = worth_using(found.words, decode_cpu(found.words));
  found.knows_level = cap_features(found.max_isa, &found.features);
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
  static constinit Once once;
  once.call(find);
  if (!found.knows_level) {
    char names[128] = "";
    size_t length = 0;
    for (const IsaLevel& level : isa_levels())
      length += static_cast<size_t>(
          std::snprintf(names + length, sizeof names - length, "%s%s", length == 0 ? "" : ", ", level.name));
    return fail(QMM_INVALID_ARGUMENT, "QMM_MAX_ISA is \"%s\"; it must be one of %s", found.max_isa, names);
  }
  *features = found.features;
  return QMM_OK;
}

qmm_status describe_cpu(qmm_cpu_info* info) {
  QMM_TRY(check_struct("qmm_describe_cpu", "info", info, sizeof *info));
  uint64_t usable = 0;
  QMM_TRY(process_features(&usable));
  static constinit Once once;
  once.call([] { read_cpu_name(cpu_name); });
  info->name = cpu_name;
  info->has = decode_cpu_alone(found.words);
  info->enabled = decode_cpu(found.words);
  info->usable = usable;
  info->max_isa = found.max_isa;
  return QMM_OK;
}

qmm_status describe_kernel(int64_t index, qmm_kernel_info* info) {
  const char* function = "qmm_describe_kernel";
  QMM_TRY(check_struct(function, "info", info, sizeof *info));
  constexpr auto count = static_cast<int64_t>(std::size(kTable));
  if (index < 0 || index >= count)
    return fail(QMM_INVALID_ARGUMENT, "%s: index is %" PRId64 "; this build has the kernels 0 to %" PRId64, function,
                index, count - 1);
  uint64_t usable = 0;
  QMM_TRY(process_features(&usable));
  const Kernel& kernel = kTable[index];
  info->name = kernel.name;
  info->lhs_kind = kernel.lhs == Lhs::F32 ? QMM_LHS_F32 : QMM_LHS_S8;
  info->bits = kernel.bits;
  info->min_m = kernel.min_m;
  info->need = kernel.need;
  explain(kernel.need, found.words, found.max_isa, info->why_not, sizeof info->why_not);
  return QMM_OK;
}

}  // namespace qmm
