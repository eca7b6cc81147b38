// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "isa.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace bench {
namespace {

std::string read_isa() {
  std::string names;
#if defined(__x86_64__)
  constexpr struct {
    const char* name;
    unsigned subleaf;  // of leaf 7
    int reg, bit;      // register a, b, c or d
  } kExtensions[] = {{"avx2", 0, 1, 5},        {"avx512f", 0, 1, 16},      {"avx512bw", 0, 1, 30},
                     {"avx512vl", 0, 1, 31},   {"avx512_vnni", 0, 2, 11},  {"avx512_fp16", 0, 3, 23},
                     {"gfni", 0, 2, 8},        {"amx_tile", 0, 3, 24},     {"avx_vnni", 1, 0, 4},
                     {"avx512_bf16", 1, 0, 5}, {"avx_vnni_int8", 1, 3, 4}, {"avx10", 1, 3, 19}};
  for (const auto& extension : kExtensions) {
    unsigned r[4] = {};
    __get_cpuid_count(7, extension.subleaf, &r[0], &r[1], &r[2], &r[3]);
    if ((r[extension.reg] >> extension.bit & 1) == 0) continue;
    if (!names.empty()) names += " ";
    names += extension.name;
  }
#endif
  return names;
}

}  // namespace

std::string isa_seen() {
  std::string in_thread;
  std::thread([&] { in_thread = read_isa(); }).join();
  const std::string here = read_isa();
  if (in_thread == here) return here;
  std::fprintf(stderr, "qmm_bench: CPUID says \"%s\" here and \"%s\" in a new thread\n", here.c_str(),
               in_thread.c_str());
  std::exit(1);
}

}  // namespace bench
