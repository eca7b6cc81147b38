// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm_kernels [--sample=SECONDS] [Google Benchmark's flags]: each vector kernel that this CPU has, alone, on a block
// that stays in the L1 or L2 cache, beside the clock and the peak of FMAs. kernels.py calls it.
//
//   kernel/<name>/<group 32 | group 128 | per channel>/M:<rows>
//             per channel: a group that began before the block and goes on after it, without what its end takes
//   clock     additions that wait for each other, one a cycle
//   peak/fma  and others, see peaks.h
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "../runtime/cpu.h"
#include "kernel_block.h"
#include "peaks.h"
#include "sample.h"

namespace bench {
namespace {

using benchmark::Counter;
using benchmark::State;

// Additions of registers: those of constants are free on some CPUs.
void time_clock(State& state) {
  constexpr int kTurns = 1000;
  uint64_t x = 1;
  for (auto _ : state)
    for (int i = 0; i < kTurns; ++i)
#if defined(__x86_64__)
      asm volatile(".rept 16\n add %0, %0\n .endr" : "+r"(x) : : "cc");
#else
      asm volatile(".rept 16\n add %0, %0, %0\n .endr" : "+r"(x));
#endif
  state.counters["G/s"] = Counter(1e-9 * 16 * kTurns, Counter::kIsIterationInvariantRate);
}

void time_kernel(State& state, const qmm::Kernel& kernel, int64_t rows, int64_t k, int64_t group) {
  const KernelBlock block(kernel, rows, k, group);
  block.run();
  for (auto _ : state) block.run();
  state.counters["G/s"] = Counter(1e-9 * block.products(), Counter::kIsIterationInvariantRate);
}

// `each` is about how many seconds a call takes.
template <class... Args>
void add(const std::string& name, double each, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->Iterations(calls_of(each))->UseRealTime();
}

// With the numbers of rows that it is chosen for, on 32 KiB of codes at most.
void add_kernel(const qmm::Kernel& kernel) {
  const int64_t k = std::min(kernel.block_k, (int64_t(32) << 10) * 8 / (kernel.nr * kernel.bits));
  for (const int64_t m : {1, 4, 128}) {
    if (qmm::choose(kernel.need, kernel.lhs, kernel.bits, m)->run != kernel.run) continue;
    for (const int64_t group : {32, 128, 0}) {
      const std::string grouping = group == 0 ? "per channel" : "group " + std::to_string(group);
      const double products = double(m) * double(kernel.nr) * double(k);
      add(std::string("kernel/") + kernel.name + "/" + grouping + "/M:" + std::to_string(m), products / 5e10,
          time_kernel, std::cref(kernel), m, k, group);
    }
  }
}

int run() {
  const uint64_t features = qmm::decode_cpu(qmm::read_cpu_words());
  for (const qmm::Kernel& kernel : qmm::kernels())
    if (kernel.need != 0 && (kernel.need & ~features) == 0) add_kernel(kernel);
  add("clock", 5e-6, time_clock);
  add_peaks(1);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::sscanf(argv[i], "--sample=%lf", &bench::sample_seconds) != 1) {
      std::fprintf(stderr, "qmm_kernels: unknown argument %s\n", argv[i]);
      return 1;
    }
  return bench::run();
}
