// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the CPU can do, decoded from raw CPUID words, so that any CPU can be tested on any other.
#pragma once

#include <cstdint>

namespace qmm {

// The words that decide; all 0 where the CPU has no such leaf.
struct CpuWords {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0, leaf7_ecx = 0;  // leaf 7, subleaf 0
  uint32_t leaf7_1_eax = 0;               // leaf 7, subleaf 1
  uint64_t xcr0 = 0;                      // register state that the operating system saves
};

// Reads the words of this CPU.
CpuWords read_cpu_words();

// Decodes them to QMM_CPU_* bits. A feature whose registers the operating system does not save does not count.
uint64_t decode_cpu(const CpuWords& words);

// Cuts features down to those of an ISA level ("scalar", "avx2"); nullptr or "" cuts nothing. False: no such level.
bool cap_features(const char* max_isa, uint64_t* features);

}  // namespace qmm
