// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cpu.h"

#include <cstdio>
#include <cstring>

#include "qmm/qmm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(_WIN32)
#include "platform.h"
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

// With palette 1 as kernels configure it: 8 tiles of 1 KiB, of 16 rows of 64 bytes. A hypervisor may hide the palette.
bool has_amx(const CpuWords& w) {
  return all(w.leaf7_edx, kAmxTile | kAmxInt8) && all(w.xcr0, kTiles) && w.tiles_eax >> 16 == 1024 &&
         w.tiles_ebx == (8u << 16 | 64) && (w.tiles_ecx & 0xffff) == 16;
}

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

#if defined(__aarch64__)
// The bit that Linux has in its HWCAP for a feature, where the operating system says that all cores have it.
#if defined(__APPLE__)
uint64_t bit_if(const char* feature, uint64_t bit) {
  int has = 0;
  size_t size = sizeof has;
  return sysctlbyname(feature, &has, &size, nullptr, 0) == 0 && has != 0 ? bit : 0;
}
#elif defined(_WIN32)
uint64_t bit_if(DWORD feature, uint64_t bit) { return IsProcessorFeaturePresent(feature) ? bit : 0; }
#endif
#endif

}  // namespace

CpuWords read_cpu_words([[maybe_unused]] bool ask_for_amx) {
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
  if (__get_cpuid_count(0x1d, 1, &eax, &ebx, &ecx, &edx)) {
    words.tiles_eax = eax;
    words.tiles_ebx = ebx;
    words.tiles_ecx = ecx;
  }
  if (has_amx(words)) words.amx_permitted = !ask_for_amx || ask_for_tiles();
#elif defined(__aarch64__)
  words.hwcap = kAsimd;  // every AArch64 has it
#if defined(__linux__)
  words.hwcap |= getauxval(AT_HWCAP);
  words.hwcap2 = getauxval(AT_HWCAP2);
  constexpr int kGetSveLength = 51, kLengthMask = 0xffff;  // PR_SVE_GET_VL
  if (const int length = prctl(kGetSveLength); length > 0) words.sve_bytes = length & kLengthMask;
#elif defined(__APPLE__)
  words.hwcap |= bit_if("hw.optional.arm.FEAT_DotProd", kAsimdDp);
  words.hwcap2 |= bit_if("hw.optional.arm.FEAT_I8MM", kI8mm);
#elif defined(_WIN32)
  // By their numbers: SDKs before 26100 know only the first.
  words.hwcap |= bit_if(43, kAsimdDp);   // PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
  words.hwcap |= bit_if(46, kSve);       // PF_ARM_SVE_INSTRUCTIONS_AVAILABLE
  words.hwcap2 |= bit_if(57, kSveI8mm);  // PF_ARM_SVE_I8MM_INSTRUCTIONS_AVAILABLE
  words.hwcap2 |= bit_if(66, kI8mm);     // PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
#endif
#endif
  return words;
}

void read_cpu_name(char (&name)[64]) {
  name[0] = '\0';
#if defined(__x86_64__)
  uint32_t words[12] = {};
  for (uint32_t i = 0; i < 3; ++i)
    if (!__get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3])) return;
  // Padded with blanks, before or after.
  const auto* text = reinterpret_cast<const char*>(words);
  size_t begin = 0, end = strnlen(text, sizeof words);
  while (begin < end && text[begin] == ' ') ++begin;
  while (end > begin && text[end - 1] == ' ') --end;
  std::memcpy(name, text + begin, end - begin);
  name[end - begin] = '\0';
#elif defined(__aarch64__) && defined(__linux__)
  constexpr uint64_t kCpuid = 1u << 11;  // of hwcap: the kernel answers, for the core that this thread runs on
  uint64_t midr = 0;
  if ((getauxval(AT_HWCAP) & kCpuid) == 0) return;
  asm("mrs %0, midr_el1" : "=r"(midr));
  std::snprintf(name, sizeof name, "implementer 0x%02x, part 0x%03x, variant %u, revision %u",
                unsigned(midr >> 24 & 0xff), unsigned(midr >> 4 & 0xfff), unsigned(midr >> 20 & 15),
                unsigned(midr & 15));
#elif defined(__APPLE__)
  size_t size = sizeof name;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) != 0) name[0] = '\0';
#elif defined(_WIN32)
  if (const char* identifier = std::getenv("PROCESSOR_IDENTIFIER")) std::snprintf(name, sizeof name, "%s", identifier);
#endif
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
  if (has_amx(w) && w.amx_permitted) features |= QMM_CPU_AMX;
  return features;
}

uint64_t decode_cpu_alone(CpuWords words) {
  words.leaf1_ecx |= kOsxsave;
  words.xcr0 = kYmm | kZmm | kTiles;
  words.amx_permitted = true;
  return decode_cpu(words);
}

uint64_t worth_using(const CpuWords& words, uint64_t features) {
  return words.sve_bytes == 16 ? features & ~uint64_t(QMM_CPU_SVE | QMM_CPU_SVE_I8MM) : features;
}

const char* feature_name(uint64_t feature) {
  switch (feature) {
    case QMM_CPU_AVX2: return "avx2";
    case QMM_CPU_AVXVNNI: return "avxvnni";
    case QMM_CPU_AVX512: return "avx512";
    case QMM_CPU_AVX512VNNI: return "avx512vnni";
    case QMM_CPU_NEON: return "neon";
    case QMM_CPU_AVXVNNIINT8: return "avxvnniint8";
    case QMM_CPU_AMX: return "amx";
    case QMM_CPU_NEON_DOTPROD: return "neon_dotprod";
    case QMM_CPU_NEON_I8MM: return "neon_i8mm";
    case QMM_CPU_SVE: return "sve";
    case QMM_CPU_SVE_I8MM: return "sve_i8mm";
    default: return nullptr;
  }
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

void explain(uint64_t need, const CpuWords& words, const char* max_isa, char* sentence, size_t size) {
  CpuWords permitted = words;
  permitted.amx_permitted = true;
  const uint64_t has = decode_cpu_alone(words), saved = decode_cpu(permitted), enabled = decode_cpu(words);
  const uint64_t worth = worth_using(words, enabled);
  uint64_t usable = worth;
  cap_features(max_isa, &usable);
  const struct {
    const char *obstacle, *level, *verb;
    uint64_t features;
  } clauses[] = {
      {"the CPU lacks", "", "", need & ~has},
      {"the operating system does not save the registers of", "", "", need & has & ~saved},
      {"the operating system does not permit this process to use", "", "", need & saved & ~enabled},
      {"with vectors of 16 bytes, NEON is faster than", "", "", need & enabled & ~worth},
      {"QMM_MAX_ISA=", max_isa, " forbids", need & worth & ~usable},
  };
  size_t length = 0;
  const auto append = [&](const char* text) {
    if (length < size) length += static_cast<size_t>(std::snprintf(sentence + length, size - length, "%s", text));
  };
  append("");
  for (const auto& clause : clauses) {
    if (clause.features == 0) continue;
    if (length > 0) append("; ");
    append(clause.obstacle);
    append(clause.level);
    append(clause.verb);
    for (uint64_t rest = clause.features; rest != 0; rest &= rest - 1) {
      append(rest == clause.features ? " " : (rest & (rest - 1)) == 0 ? " and " : ", ");
      append(feature_name(rest & -rest));
    }
  }
}

}  // namespace qmm
