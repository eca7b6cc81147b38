// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the CPU can do, decoded from raw CPUID and HWCAP words, so that any CPU can be tested on any other.
//
// A thread may move to any core, so a kernel must be right on all of them. x86-64 has no cores that differ in what is
// read here: on hybrids (Alder Lake and later) both kinds of core report the same, and AVX-512 is fused off in the
// larger ones. AArch64 has them (big.LITTLE). Linux puts in HWCAP what all cores have, and offers the SVE vector
// lengths that all have (Documentation/arch/arm64: elf_hwcaps.rst, cpu-feature-registers.rst, sve.rst); macOS and
// Windows answer for the system as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace qmm {

// The words that decide; all 0 where the CPU has no such leaf, or is of the other architecture.
struct CpuWords {
  // x86-64
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0;  // leaf 7, subleaf 0
  uint32_t leaf7_1_eax = 0, leaf7_1_edx = 0;             // leaf 7, subleaf 1
  uint32_t tiles_eax = 0, tiles_ebx = 0, tiles_ecx = 0;  // leaf 1D, subleaf 1: palette 1 of AMX
  uint64_t xcr0 = 0;                                     // register state that the operating system saves
  bool amx_permitted = false;                            // Linux lets this process use tiles, or was not asked
  // AArch64: the words of Linux's getauxval, which other systems' answers are translated to
  uint64_t hwcap = 0, hwcap2 = 0;
  int64_t sve_bytes = 0;  // of a vector of SVE; 0 where that is not known
};

// Reads the words of this CPU. Where it has AMX, Linux is asked for the permission to use it, which is for good and for
// all threads and children: a signal stack must then have room for the tiles. So it is not asked where AMX is not
// wanted.
CpuWords read_cpu_words(bool ask_for_amx = true);

// Decodes them to QMM_CPU_* bits. A feature whose registers the operating system does not save does not count.
uint64_t decode_cpu(const CpuWords& words);

// The same for an operating system that saves all registers and permits all: what the CPU has.
uint64_t decode_cpu_alone(CpuWords words);

// Of these features, those by which kernels are chosen on the CPU of these words: not SVE with vectors as short as
// NEON's, which does the same in fewer instructions (bench/model/results.md: Neoverse V2).
uint64_t worth_using(const CpuWords& words, uint64_t features);

// Writes what the CPU calls itself; "" where that can not be known.
void read_cpu_name(char (&name)[64]);

// The name of a QMM_CPU_* bit, "avx2" for example; nullptr for any other number.
const char* feature_name(uint64_t feature);

// What QMM_MAX_ISA may name, from plainest to fastest.
struct IsaLevel {
  const char* name;
  uint64_t features;
};
std::span<const IsaLevel> isa_levels();

// Cuts features down to those of a level; nullptr or "" cuts nothing. False: no such level.
bool cap_features(const char* max_isa, uint64_t* features);

// Writes why features are not used on the CPU of these words under QMM_MAX_ISA, a level or nothing: "the CPU lacks
// avx512vnni", or what keeps each of them from use; "" where all of them are used.
void explain(uint64_t need, const CpuWords& words, const char* max_isa, char* sentence, size_t size);

}  // namespace qmm
