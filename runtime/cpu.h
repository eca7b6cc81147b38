// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the CPU can do, decoded from raw CPUID and HWCAP words, so that any CPU can be tested on any other.
#pragma once

#include <cstdint>
#include <span>

namespace qmm {

// The words that decide; all 0 where the CPU has no such leaf, or is of the other architecture.
struct CpuWords {
  // x86-64
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0;  // leaf 7, subleaf 0
  uint32_t leaf7_1_eax = 0, leaf7_1_edx = 0;             // leaf 7, subleaf 1
  uint64_t xcr0 = 0;                                     // register state that the operating system saves
  bool amx_permitted = false;                            // this process may use the tile registers
  // AArch64: the words of Linux's getauxval, which other systems' answers are translated to
  uint64_t hwcap = 0, hwcap2 = 0;
};

// Reads the words of this CPU. On Linux it asks for the permission to use AMX, where the CPU has it.
CpuWords read_cpu_words();

// Decodes them to QMM_CPU_* bits. A feature whose registers the operating system does not save does not count.
uint64_t decode_cpu(const CpuWords& words);

// What QMM_MAX_ISA may name, from plainest to fastest.
struct IsaLevel {
  const char* name;
  uint64_t features;
};
std::span<const IsaLevel> isa_levels();

// Cuts features down to those of a level; nullptr or "" cuts nothing. False: no such level.
bool cap_features(const char* max_isa, uint64_t* features);

}  // namespace qmm
