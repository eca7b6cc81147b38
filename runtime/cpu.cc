// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cpu.h"

#include <cstring>

#include "qmm/qmm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace qmm {
namespace {

constexpr bool all(uint64_t word, uint64_t mask) { return (word & mask) == mask; }

constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;         // leaf 1 ecx
constexpr uint32_t kAvx2 = 1u << 5, kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;  // leaf 7 ebx
constexpr uint32_t kVnni = 1u << 11;                                                                // leaf 7 ecx
constexpr uint32_t kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;                                        // leaf 7 edx
constexpr uint32_t kAvxVnni = 1u << 4;                                                              // leaf 7.1 eax
constexpr uint32_t kAvxVnniInt8 = 1u << 4;                                                          // leaf 7.1 edx
constexpr uint64_t kYmm = 0x06, kZmm = 0xe6, kTiles = 0x60000;                                      // XCR0

constexpr uint64_t kAsimd = 1u << 1, kAsimdDp = 1u << 20, kSve = 1u << 22;  // hwcap
constexpr uint64_t kSveI8mm = 1u << 9, kI8mm = 1u << 13;                    // hwcap2

#if defined(__x86_64__)
// Linux gives a process the large tile registers when it asks; without that, the first use is a fault.
bool ask_for_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

CpuWords read_cpu_words() {
  CpuWords words;
#if defined(__x86_64__)
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) words.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    words.leaf7_ebx = ebx;
    words.leaf7_ecx = ecx;
    words.leaf7_edx = edx;
    if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
      words.leaf7_1_eax = eax;
      words.leaf7_1_edx = edx;
    }
  }
  if ((words.leaf1_ecx & kOsxsave) != 0) {  // xgetbv may be executed
    uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words.xcr0 = uint64_t(high) << 32 | low;
  }
  if (all(words.leaf7_edx, kAmxTile | kAmxInt8) && all(words.xcr0, kTiles)) words.amx_permitted = ask_for_tiles();
#elif defined(__aarch64__)
  words.hwcap = kAsimd;  // every AArch64 has it
#if defined(__linux__)
  words.hwcap |= getauxval(AT_HWCAP);
  words.hwcap2 = getauxval(AT_HWCAP2);
#endif
#endif
  return words;
}

uint64_t decode_cpu(const CpuWords& w) {
  uint64_t features = 0;
  if (all(w.hwcap, kAsimd)) features |= QMM_CPU_NEON;
  if (all(w.hwcap, kAsimd | kAsimdDp)) features |= QMM_CPU_NEON_DOTPROD;
  if (all(w.hwcap, kAsimd) && all(w.hwcap2, kI8mm)) features |= QMM_CPU_NEON_I8MM;
  if (all(w.hwcap, kAsimd | kSve)) features |= QMM_CPU_SVE;
  if (all(w.hwcap, kAsimd | kSve) && all(w.hwcap2, kSveI8mm)) features |= QMM_CPU_SVE_I8MM;

  if (!all(w.leaf1_ecx, kFma | kOsxsave | kAvx | kF16c) || !all(w.leaf7_ebx, kAvx2) || !all(w.xcr0, kYmm))
    return features;
  features |= QMM_CPU_AVX2;
  if (all(w.leaf7_1_eax, kAvxVnni)) features |= QMM_CPU_AVXVNNI;
  if (all(w.leaf7_1_edx, kAvxVnniInt8)) features |= QMM_CPU_AVXVNNIINT8;
  if (!all(w.leaf7_ebx, kF | kDq | kBw | kVl) || !all(w.xcr0, kZmm)) return features;
  features |= QMM_CPU_AVX512;
  if (all(w.leaf7_ecx, kVnni)) features |= QMM_CPU_AVX512VNNI;
  if (all(w.leaf7_edx, kAmxTile | kAmxInt8) && all(w.xcr0, kTiles) && w.amx_permitted) features |= QMM_CPU_AMX;
  return features;
}

std::span<const IsaLevel> isa_levels() {
#if defined(__x86_64__)
  constexpr uint64_t kAvx512Level = QMM_CPU_AVX2 | QMM_CPU_AVX512, kVnniLevel = QMM_CPU_AVX2 | QMM_CPU_AVXVNNI;
  static constexpr IsaLevel levels[] = {{"scalar", 0},
                                        {"avx2", QMM_CPU_AVX2},
                                        {"avxvnni", kVnniLevel},
                                        {"avxvnniint8", kVnniLevel | QMM_CPU_AVXVNNIINT8},
                                        {"avx512", kAvx512Level},
                                        {"avx512vnni", kAvx512Level | QMM_CPU_AVX512VNNI},
                                        {"amx", kAvx512Level | QMM_CPU_AVX512VNNI | QMM_CPU_AMX}};
#else
  constexpr uint64_t kDotprodLevel = QMM_CPU_NEON | QMM_CPU_NEON_DOTPROD;
  static constexpr IsaLevel levels[] = {
      {"scalar", 0},
      {"neon", QMM_CPU_NEON},
      {"neon_dotprod", kDotprodLevel},
      {"neon_i8mm", kDotprodLevel | QMM_CPU_NEON_I8MM},
      {"sve", kDotprodLevel | QMM_CPU_NEON_I8MM | QMM_CPU_SVE},
      {"sve_i8mm", kDotprodLevel | QMM_CPU_NEON_I8MM | QMM_CPU_SVE | QMM_CPU_SVE_I8MM}};
#endif
  return levels;
}

bool cap_features(const char* max_isa, uint64_t* features) {
  if (max_isa == nullptr || *max_isa == '\0') return true;
  for (const IsaLevel& level : isa_levels())
    if (std::strcmp(max_isa, level.name) == 0) {
      *features &= level.features;
      return true;
    }
  return false;
}

}  // namespace qmm
