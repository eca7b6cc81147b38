// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cpu.h"

#include <cstring>

#include "qmm/qmm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace qmm {

CpuWords read_cpu_words() {
  CpuWords words;
#if defined(__x86_64__)
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) words.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    words.leaf7_ebx = ebx;
    words.leaf7_ecx = ecx;
    if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) words.leaf7_1_eax = eax;
  }
  if (words.leaf1_ecx >> 27 & 1) {  // OSXSAVE: xgetbv may be executed
    uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words.xcr0 = uint64_t(high) << 32 | low;
  }
#endif
  return words;
}

uint64_t decode_cpu(const CpuWords& w) {
#if defined(__aarch64__)
  (void)w;
  return QMM_CPU_NEON;
#else
  const auto all = [](uint64_t word, uint64_t mask) { return (word & mask) == mask; };
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;         // leaf 1 ecx
  constexpr uint32_t kAvx2 = 1u << 5, kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;  // leaf 7 ebx
  constexpr uint32_t kVnni = 1u << 11;                                                                // leaf 7 ecx
  constexpr uint32_t kAvxVnni = 1u << 4;                                                              // leaf 7.1 eax
  constexpr uint64_t kYmm = 0x06, kZmm = 0xe6;                                                        // XCR0
  uint64_t features = 0;
  if (!all(w.leaf1_ecx, kFma | kOsxsave | kAvx | kF16c) || !all(w.leaf7_ebx, kAvx2) || !all(w.xcr0, kYmm))
    return features;
  features |= QMM_CPU_AVX2;
  if (all(w.leaf7_1_eax, kAvxVnni)) features |= QMM_CPU_AVXVNNI;
  if (!all(w.leaf7_ebx, kF | kDq | kBw | kVl) || !all(w.xcr0, kZmm)) return features;
  features |= QMM_CPU_AVX512;
  if (all(w.leaf7_ecx, kVnni)) features |= QMM_CPU_AVX512VNNI;
  return features;
#endif
}

bool cap_features(const char* max_isa, uint64_t* features) {
  if (max_isa == nullptr || *max_isa == '\0') return true;
  if (std::strcmp(max_isa, "scalar") == 0) {
    *features = 0;
    return true;
  }
  if (std::strcmp(max_isa, "avx2") == 0) {
    *features &= QMM_CPU_AVX2;
    return true;
  }
  return false;
}

}  // namespace qmm
