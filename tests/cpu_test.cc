// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the words of CPUID and XCR0 mean, for CPUs that this machine is not; and the cap by QMM_MAX_ISA.
#include "runtime/cpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "runtime/choose.h"
#include "weights.h"

namespace qmm::test {
namespace {

constexpr uint64_t kAvx2 = QMM_CPU_AVX2, kAvxVnni = QMM_CPU_AVXVNNI, kAvxVnniInt8 = QMM_CPU_AVXVNNIINT8,
                   kAvx512 = QMM_CPU_AVX512, kAvx512Vnni = QMM_CPU_AVX512VNNI, kAmx = QMM_CPU_AMX;
constexpr uint64_t kNeon = QMM_CPU_NEON, kDotprod = QMM_CPU_NEON_DOTPROD, kI8mm = QMM_CPU_NEON_I8MM, kSve = QMM_CPU_SVE,
                   kSveI8mm = QMM_CPU_SVE_I8MM;

// XCR0 as operating systems set it: x87, SSE and AVX state; with AVX-512's; with PKRU and AMX.
constexpr uint64_t kXcr0Avx = 0x07, kXcr0Avx512 = 0xe7, kXcr0Amx = 0x602e7;

// The words as these CPUs report them: leaf 1 ECX; leaf 7 EBX, ECX, EDX; leaf 7.1 EAX, EDX; the palette
// of tiles; XCR0; permission.
constexpr CpuWords kNehalem = {0x009ce3bd, 0x00000000, 0x00000000, 0, 0x00000000, 0, 0, 0, 0, 0};
constexpr CpuWords kIvyBridge = {0x7fbae3ff, 0x00000281, 0x00000000, 0, 0x00000000, 0, 0, 0, 0, kXcr0Avx};
constexpr CpuWords kHaswell = {0x7ffafbff, 0x000027ab, 0x00000000, 0, 0x00000000, 0, 0, 0, 0, kXcr0Avx};
constexpr CpuWords kZen3 = {0x7ed8320b, 0x219c97a9, 0x0040068c, 0, 0x00000000, 0, 0, 0, 0, kXcr0Avx | 0x200};
constexpr CpuWords kSkylakeX = {0x7ffefbff, 0xd39ffffb, 0x00000008, 0, 0x00000000, 0, 0, 0, 0, kXcr0Avx512 | 0x200};
constexpr CpuWords kCascadeLake = {0x7ffefbff, 0xd39ffffb, 0x00000808, 0, 0x00000000, 0, 0, 0, 0, kXcr0Avx512 | 0x200};
constexpr CpuWords kIceLake = {0x7ffafbbf, 0xf2bf27ef, 0x40405f4e, 0, 0x00000000, 0, 0, 0, 0, kXcr0Avx512 | 0x200};
constexpr CpuWords kSapphireRapids = {0x7ffefbff, 0xf3bfb7ef, 0xfb417ffe, 0xffdd4432, 0x00001c30, 0,
                                      0x04002000, 0x00080040, 0x10,       kXcr0Amx,   true};
constexpr CpuWords kAlderLake = {0x7ffafbff, 0x239c27eb, 0x98c027ac, 0xfc1cc410, 0x00400810,
                                 0,          0,          0,          0,          kXcr0Avx | 0x200};
constexpr CpuWords kArrowLake = {0x7ffafbff, 0x239c27eb, 0x98c027ac, 0xfc1cc410, 0x00400810,
                                 0x10,       0,          0,          0,          kXcr0Avx | 0x200};

// HWCAP and HWCAP2, as Linux reports them for these cores.
constexpr CpuWords arm(uint64_t hwcap, uint64_t hwcap2) {
  CpuWords words;
  words.hwcap = hwcap;
  words.hwcap2 = hwcap2;
  return words;
}
constexpr CpuWords kCortexA72 = arm(0x8ff, 0);
constexpr CpuWords kNeoverseN1 = arm(0x119fff, 0);
constexpr CpuWords kA64fx = arm(0x4415ff, 0);
constexpr CpuWords kNeoverseV1 = arm(0xdfffffff, 0x3f23f);
constexpr CpuWords kNeoverseV2 = [] {
  CpuWords words = kNeoverseV1;
  words.sve_bytes = 16;
  return words;
}();

TEST(DecodeCpu, KnowsRealCpus) {
  EXPECT_EQ(decode_cpu({}), 0u);
  EXPECT_EQ(decode_cpu(kNehalem), 0u);
  EXPECT_EQ(decode_cpu(kIvyBridge), 0u);  // AVX and F16C without FMA and AVX2
  EXPECT_EQ(decode_cpu(kHaswell), kAvx2);
  EXPECT_EQ(decode_cpu(kZen3), kAvx2);
  EXPECT_EQ(decode_cpu(kSkylakeX), kAvx2 | kAvx512);
  EXPECT_EQ(decode_cpu(kCascadeLake), kAvx2 | kAvx512 | kAvx512Vnni);
  EXPECT_EQ(decode_cpu(kIceLake), kAvx2 | kAvx512 | kAvx512Vnni);
  EXPECT_EQ(decode_cpu(kSapphireRapids), kAvx2 | kAvxVnni | kAvx512 | kAvx512Vnni | kAmx);
  EXPECT_EQ(decode_cpu(kAlderLake), kAvx2 | kAvxVnni);
  EXPECT_EQ(decode_cpu(kArrowLake), kAvx2 | kAvxVnni | kAvxVnniInt8);
  EXPECT_EQ(decode_cpu(kCortexA72), kNeon);
  EXPECT_EQ(decode_cpu(kNeoverseN1), kNeon | kDotprod);
  EXPECT_EQ(decode_cpu(kA64fx), kNeon | kSve);
  EXPECT_EQ(decode_cpu(kNeoverseV1), kNeon | kDotprod | kI8mm | kSve | kSveI8mm);
  EXPECT_EQ(decode_cpu(kNeoverseV2), kNeon | kDotprod | kI8mm | kSve | kSveI8mm);
  EXPECT_EQ(worth_using(kNeoverseV1, decode_cpu(kNeoverseV1)), decode_cpu(kNeoverseV1));
  EXPECT_EQ(worth_using(kNeoverseV2, decode_cpu(kNeoverseV2)), kNeon | kDotprod | kI8mm);
}

// A feature whose registers the operating system does not save would lose its values at the next switch of threads.
TEST(DecodeCpu, CountsOnlyWhatTheOperatingSystemSaves) {
  CpuWords words = kSapphireRapids;
  for (const uint64_t state : {0x01u, 0x02u, 0x03u, 0x05u}) {
    words.xcr0 = state | (kXcr0Amx & ~uint64_t(0x07));
    EXPECT_EQ(decode_cpu(words), 0u) << state;
  }
  words.xcr0 = kXcr0Avx;
  EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni);
  for (const uint64_t missing : {0x20u, 0x40u, 0x80u}) {  // opmask, upper halves of zmm0-15, zmm16-31
    words.xcr0 = kXcr0Avx512 & ~missing;
    EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni) << missing;
  }
  for (const uint64_t missing : {0x20000u, 0x40000u}) {  // configuration and data of tiles
    words.xcr0 = kXcr0Amx & ~missing;
    EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni | kAvx512 | kAvx512Vnni) << missing;
  }
  words = kSapphireRapids;
  words.amx_permitted = false;
  EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni | kAvx512 | kAvx512Vnni);
  for (uint32_t CpuWords::* part : {&CpuWords::tiles_eax, &CpuWords::tiles_ebx, &CpuWords::tiles_ecx}) {
    words = kSapphireRapids;
    words.*part = 0;  // a hypervisor that hides the palette
    EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni | kAvx512 | kAvx512Vnni);
  }
  words = kSapphireRapids;
  words.leaf1_ecx &= ~(1u << 27);  // no OSXSAVE: XCR0 means nothing
  EXPECT_EQ(decode_cpu(words), 0u);
}

// A feature needs all of its bits.
TEST(DecodeCpu, NeedsEveryBit) {
  for (const int bit : {12, 28, 29}) {  // FMA, AVX, F16C
    CpuWords words = kSapphireRapids;
    words.leaf1_ecx &= ~(1u << bit);
    EXPECT_EQ(decode_cpu(words), 0u) << bit;
  }
  CpuWords words = kSapphireRapids;
  words.leaf7_ebx &= ~(1u << 5);  // AVX2
  EXPECT_EQ(decode_cpu(words), 0u);
  for (const int bit : {16, 17, 30, 31}) {  // AVX512F, DQ, BW, VL
    words = kSapphireRapids;
    words.leaf7_ebx &= ~(1u << bit);
    EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni) << bit;
  }
  words = kSapphireRapids;
  words.leaf7_ecx &= ~(1u << 11);
  EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni | kAvx512 | kAmx);
  words = kSapphireRapids;
  words.leaf7_1_eax &= ~(1u << 4);
  EXPECT_EQ(decode_cpu(words), kAvx2 | kAvx512 | kAvx512Vnni | kAmx);
  for (const int bit : {24, 25}) {  // AMX_TILE, AMX_INT8
    words = kSapphireRapids;
    words.leaf7_edx &= ~(1u << bit);
    EXPECT_EQ(decode_cpu(words), kAvx2 | kAvxVnni | kAvx512 | kAvx512Vnni) << bit;
  }
}

#if defined(__x86_64__)
TEST(DecodeCpu, AgreesWithTheCompilerOnThisCpu) {
  const uint64_t features = decode_cpu(read_cpu_words());
  EXPECT_EQ((features & kAvx2) != 0, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ((features & kAvx512) != 0, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
  EXPECT_EQ((features & kAvx512Vnni) != 0, (features & kAvx512) != 0 && __builtin_cpu_supports("avx512vnni"));
}

#endif  // __x86_64__

TEST(CapFeatures, CutsDownToALevel) {
  constexpr uint64_t all = ~uint64_t(0);
  const auto cap = [](const char* level, uint64_t features) {
    EXPECT_TRUE(cap_features(level, &features)) << level;
    return features;
  };
  EXPECT_EQ(cap(nullptr, all), all);
  EXPECT_EQ(cap("", all), all);
  EXPECT_EQ(cap("scalar", all), 0u);
#if defined(__x86_64__)
  EXPECT_EQ(cap("avx2", all), kAvx2);
  EXPECT_EQ(cap("avx2", 0), 0u);
  EXPECT_EQ(cap("avxvnni", all), kAvx2 | kAvxVnni);
  EXPECT_EQ(cap("avxvnniint8", all), kAvx2 | kAvxVnni | kAvxVnniInt8);
  EXPECT_EQ(cap("avx512", all), kAvx2 | kAvx512);
  EXPECT_EQ(cap("avx512vnni", all), kAvx2 | kAvx512 | kAvx512Vnni);
  EXPECT_EQ(cap("avx512vnni", kAvx2 | kAvxVnni), kAvx2);
  EXPECT_EQ(cap("amx", all), kAvx2 | kAvx512 | kAvx512Vnni | kAmx);
  const char* other = "neon";
#else
  EXPECT_EQ(cap("neon", all), kNeon);
  EXPECT_EQ(cap("neon_dotprod", all), kNeon | kDotprod);
  EXPECT_EQ(cap("neon_i8mm", all), kNeon | kDotprod | kI8mm);
  EXPECT_EQ(cap("sve", all), kNeon | kDotprod | kI8mm | kSve);
  EXPECT_EQ(cap("sve_i8mm", all), kNeon | kDotprod | kI8mm | kSve | kSveI8mm);
  const char* other = "avx2";
#endif
  for (const char* nonsense : {"AVX2", "avx", "avx2 ", " scalar", "avx512f", "none", "0", other}) {
    uint64_t features = all;
    EXPECT_FALSE(cap_features(nonsense, &features)) << nonsense;
    EXPECT_EQ(features, all);
  }
}

// Each row of the table is reached by a level, the one of its name.
TEST(CapFeatures, EveryKernelHasALevel) {
  for (const Kernel& kernel : kernels()) {
    const std::string name = kernel.name;
    bool found = false;
    for (const IsaLevel& level : isa_levels())
      if (name.ends_with(std::string("_") + level.name)) found |= (kernel.need & ~level.features) == 0;
    EXPECT_TRUE(found) << name;
  }
}

std::string why_not(uint64_t need, const CpuWords& words, const char* max_isa = "") {
  char sentence[256] = "unwritten";
  explain(need, words, max_isa, sentence, sizeof sentence);
  return sentence;
}

TEST(Explain, SaysWhatTheCpuLacks) {
  EXPECT_EQ(why_not(0, {}), "");
  EXPECT_EQ(why_not(kAvx2, kHaswell), "");
  EXPECT_EQ(why_not(kAvx2, kIvyBridge), "the CPU lacks avx2");
  EXPECT_EQ(why_not(kAvx2 | kAvx512 | kAvx512Vnni, kHaswell), "the CPU lacks avx512 and avx512vnni");
  EXPECT_EQ(why_not(kAvx2 | kAvx512 | kAvx512Vnni, kSkylakeX), "the CPU lacks avx512vnni");
  EXPECT_EQ(why_not(kAvx512 | kAvx512Vnni, kAlderLake), "the CPU lacks avx512 and avx512vnni");
  EXPECT_EQ(why_not(kAvxVnni | kAvxVnniInt8, kAlderLake), "the CPU lacks avxvnniint8");
  EXPECT_EQ(why_not(kAvxVnni | kAvxVnniInt8, kArrowLake), "");
  EXPECT_EQ(why_not(kAvx512 | kAvx512Vnni | kAmx, kHaswell), "the CPU lacks avx512, avx512vnni and amx");
  EXPECT_EQ(why_not(kNeon | kDotprod, kCortexA72), "the CPU lacks neon_dotprod");
  EXPECT_EQ(why_not(kNeon | kDotprod | kI8mm, kNeoverseN1), "the CPU lacks neon_i8mm");
  EXPECT_EQ(why_not(kSve | kSveI8mm, kA64fx), "the CPU lacks sve_i8mm");
  EXPECT_EQ(why_not(kNeon | kDotprod | kI8mm | kSve | kSveI8mm, kNeoverseV1), "");
}

TEST(Explain, SaysWhatTheOperatingSystemKeepsBack) {
  CpuWords words = kSkylakeX;
  words.xcr0 = kXcr0Avx;
  EXPECT_EQ(why_not(kAvx2, words), "");
  EXPECT_EQ(why_not(kAvx2 | kAvx512, words), "the operating system does not save the registers of avx512");
  EXPECT_EQ(why_not(kAvx512 | kAvx512Vnni, words),
            "the CPU lacks avx512vnni; the operating system does not save the registers of avx512");
  words.leaf1_ecx &= ~(1u << 27);  // no OSXSAVE
  EXPECT_EQ(why_not(kAvx2, words), "the operating system does not save the registers of avx2");

  words = kSapphireRapids;
  EXPECT_EQ(why_not(kAmx, words), "");
  words.amx_permitted = false;
  EXPECT_EQ(why_not(kAvx512Vnni, words), "");
  EXPECT_EQ(why_not(kAvx512Vnni | kAmx, words), "the operating system does not permit this process to use amx");
  words.xcr0 = kXcr0Avx512;
  EXPECT_EQ(why_not(kAvx512Vnni | kAmx, words), "the operating system does not save the registers of amx");
}

TEST(Explain, SaysWhatIsSlower) {
  EXPECT_EQ(why_not(kNeon | kDotprod | kI8mm, kNeoverseV2), "");
  EXPECT_EQ(why_not(kNeon | kSve, kNeoverseV2), "with vectors of 16 bytes, NEON is faster than sve");
  EXPECT_EQ(why_not(kSve | kSveI8mm, kNeoverseV2), "with vectors of 16 bytes, NEON is faster than sve and sve_i8mm");
}

TEST(Explain, SaysWhatTheUserForbids) {
  EXPECT_EQ(why_not(kAvx2, kHaswell, "scalar"), "QMM_MAX_ISA=scalar forbids avx2");
#if defined(__x86_64__)
  EXPECT_EQ(why_not(kAvx2, kHaswell, "avx2"), "");
  EXPECT_EQ(why_not(kAvx2 | kAvx512 | kAvx512Vnni, kIceLake, "avx2"), "QMM_MAX_ISA=avx2 forbids avx512 and avx512vnni");
  // What is not there needs no forbidding.
  EXPECT_EQ(why_not(kAvx512 | kAvx512Vnni, kSkylakeX, "avx2"),
            "the CPU lacks avx512vnni; QMM_MAX_ISA=avx2 forbids avx512");
#else
  EXPECT_EQ(why_not(kNeon | kDotprod | kI8mm, kNeoverseV1, "neon"),
            "QMM_MAX_ISA=neon forbids neon_dotprod and neon_i8mm");
#endif
}

TEST(Explain, StaysInItsRoom) {
  char sentence[32];
  std::memset(sentence, '#', sizeof sentence);
  explain(kAvx512 | kAvx512Vnni | kAmx, kHaswell, "", sentence, 20);
  EXPECT_EQ(std::string(sentence), "the CPU lacks avx51");
  EXPECT_EQ(std::string(sentence + 20, 12), "############");
}

// Usable is what has no obstacle, for every kernel and CPU.
TEST(Explain, AgreesWithTheChoice) {
  for (const CpuWords& words :
       {kNehalem, kIvyBridge, kHaswell, kZen3, kSkylakeX, kCascadeLake, kIceLake, kSapphireRapids, kAlderLake,
        kArrowLake, kCortexA72, kNeoverseN1, kA64fx, kNeoverseV1, kNeoverseV2})
    for (const IsaLevel& level : isa_levels())
      for (const Kernel& kernel : kernels()) {
        uint64_t usable = worth_using(words, decode_cpu(words));
        ASSERT_TRUE(cap_features(level.name, &usable));
        EXPECT_EQ(why_not(kernel.need, words, level.name) == "", (kernel.need & ~usable) == 0) << kernel.name;
      }
}

TEST(FeatureName, NamesEveryBitOfTheTable) {
  uint64_t known = 0;
  for (uint64_t bit = 1; feature_name(bit) != nullptr; bit <<= 1) known |= bit;
  for (const IsaLevel& level : isa_levels()) EXPECT_EQ(level.features & ~known, 0u) << level.name;
  for (const Kernel& kernel : kernels()) EXPECT_EQ(kernel.need & ~known, 0u) << kernel.name;
  EXPECT_EQ(known, 2 * kSveI8mm - 1);
  EXPECT_EQ(feature_name(0), nullptr);
  EXPECT_EQ(feature_name(kAvx2 | kAvx512), nullptr);
}

// QMM_MAX_ISA is read once a process: each of these runs in a process of its own, which prints what it saw.
class MaxIsa : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[noreturn]] static void run(const char* level) {
    setenv("QMM_MAX_ISA", level, 1);
    Weights weights(make_desc(20, 40, 8, 4));
    weights.randomize(1);
    const std::vector<uint8_t> packed = pack(weights);
    const qmm_rhs rhs = open(packed);
    const std::vector<float> x = integers(2, 40, 2);
    std::vector<float> y(40, -77.0f);
    qmm_matmul_args args = make_args(QMM_LHS_F32, 2, x.data(), &rhs, y.data());
    std::string seen = qmm_status_name(qmm_matmul(&args));
    seen += y == std::vector<float>(40, -77.0f) ? " unwritten; " : " written; ";
    const char* name = "";
    seen += qmm_status_name(qmm_kernel_name(QMM_LHS_F32, &weights.desc, 2, &name));
    seen += std::string(" ") + name + "; features " + std::to_string(qmm_cpu_features()) + "; " + qmm_last_error();
    std::fprintf(stderr, "%s\n", seen.c_str());
    std::exit(0);
  }
};

TEST_F(MaxIsa, Scalar) {
  EXPECT_EXIT(run("scalar"), testing::ExitedWithCode(0),
              "QMM_OK written; QMM_OK qmm_f32_f32_u4_1x16x8_scalar; features 0; ");
}

TEST_F(MaxIsa, Avx2) {
  const bool has = (decode_cpu(read_cpu_words()) & kAvx2) != 0;
  EXPECT_EXIT(run("avx2"), testing::ExitedWithCode(0),
              has ? "QMM_OK written; QMM_OK qmm_f32_f32_u4_6x16x8_avx2; features 1; "
                  : "QMM_OK written; QMM_OK qmm_f32_f32_u4_1x16x8_scalar; features 0; ");
}

TEST_F(MaxIsa, Nonsense) {
  EXPECT_EXIT(run("fastest"), testing::ExitedWithCode(0),
              "QMM_INVALID_ARGUMENT unwritten; QMM_INVALID_ARGUMENT ; features 0; "
              "QMM_MAX_ISA is \"fastest\"; it must be one of scalar, ");
}

}  // namespace
}  // namespace qmm::test
