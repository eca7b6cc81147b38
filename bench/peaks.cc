// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops of the AVX2 kernels without what surrounds them, in assembly, so that what is measured is this mix of
// instructions and not what a compiler makes of it.
#include "peaks.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "../runtime/cpu.h"
#include "kernel_block.h"
#include "sample.h"

namespace bench {
namespace {

using benchmark::Counter;
using benchmark::State;

// What one pass of a benchmark's loop did on this thread; Google Benchmark adds up the threads.
void count(State& state, const char* unit, double each) {
  state.counters[unit] = Counter(1e-9 * each * static_cast<double>(state.iterations()), Counter::kIsRate);
}

// `each` is about how many seconds a pass takes.
void add(const std::string& name, int threads, double each, auto function, auto... args) {
  benchmark::RegisterBenchmark(("peak/" + name).c_str(), function, args...)
      ->Iterations(calls_of(each))
      ->Threads(threads)
      ->UseRealTime();
}

#if defined(__x86_64__)

constexpr int64_t kTurns = 4096;  // of a loop

// A loop in assembly that may use every register: `start`, then `body` as many times as `turns` says.
#define LOOP(turns, start, body, ...)                                                                           \
  asm volatile(start "1:\n" body "dec %[left]\n jnz 1b"                                                         \
               : [left] "+r"(turns)                                                                             \
               : __VA_ARGS__                                                                                    \
               : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                 "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")

// 12 chains of FMAs: enough for a latency of 5 cycles on two ports.
void fma(int64_t turns) {
  const float small = 0x1p-10f;
  LOOP(turns, "vbroadcastss %[x], %%ymm15\n",
       ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n vfmadd231ps %%ymm15, %%ymm15, %%ymm\\r\n .endr\n",
       [x] "m"(small));
}

// Codes of 4 bits in ymm8 and of 8 bits in ymm14, as large as 8 sums of two products allow in 16 bits; ones in ymm15.
struct Codes {
  int32_t u4 = 0x0f0f0f0f, s8 = 0x7f7f7f7f, ones = 0x00010001;
};
constexpr Codes kCodes;
#define LOAD_CODES "vpbroadcastd %[u4], %%ymm8\n vpbroadcastd %[s8], %%ymm14\n vpbroadcastd %[ones], %%ymm15\n"
#define CODES [u4] "m"(kCodes.u4), [s8] "m"(kCodes.s8), [ones] "m"(kCodes.ones)

// 8 sums of two products, added up in ymm10 .. ymm13, widened and added to ymm0 .. ymm3: 4 times.
void maddubs_chain8(int64_t turns) {
  LOOP(turns, LOAD_CODES,
       ".irp r, 0, 1, 2, 3\n"
       "vpmaddubsw %%ymm14, %%ymm8, %%ymm1\\r\n"
       ".rept 7\n vpmaddubsw %%ymm14, %%ymm8, %%ymm9\n vpaddw %%ymm9, %%ymm1\\r, %%ymm1\\r\n .endr\n"
       "vpmaddwd %%ymm15, %%ymm1\\r, %%ymm1\\r\n vpaddd %%ymm1\\r, %%ymm\\r, %%ymm\\r\n .endr\n",
       CODES);
}

// A sum of two products, widened and added to one of ymm0 .. ymm7: 8 times.
void maddubs_madd(int64_t turns) {
  LOOP(turns, LOAD_CODES,
       ".irp r, 0, 1, 2, 3, 4, 5, 6, 7\n"
       "vpmaddubsw %%ymm14, %%ymm8, %%ymm9\n vpmaddwd %%ymm15, %%ymm9, %%ymm9\n"
       "vpaddd %%ymm9, %%ymm\\r, %%ymm\\r\n .endr\n",
       CODES);
}

// A sum of two products of 16 bits, added to one of ymm0 .. ymm7: 8 times.
void madd16(int64_t turns) {
  LOOP(turns, LOAD_CODES,
       ".irp r, 0, 1, 2, 3, 4, 5, 6, 7\n"
       "vpmaddwd %%ymm14, %%ymm8, %%ymm9\n vpaddd %%ymm9, %%ymm\\r, %%ymm\\r\n .endr\n",
       CODES);
}

struct Arithmetic {
  const char* name;
  void (*loop)(int64_t turns);
  int products;  // of a turn
};
constexpr Arithmetic kArithmetic[] = {{"fma", fma, 12 * 8},
                                      {"maddubs_chain8", maddubs_chain8, 4 * 8 * 32},
                                      {"maddubs_madd", maddubs_madd, 8 * 32},
                                      {"madd16", madd16, 8 * 16}};

void time_arithmetic(State& state, const Arithmetic& arithmetic) {
  for (auto _ : state) arithmetic.loop(kTurns);
  count(state, "GFLOP/s", 2.0 * double(kTurns) * arithmetic.products);
}

// Reads `size` bytes from each of S places, `size` apart. OR-ed together, as a load must go somewhere.
template <int S>
void read(const std::byte* p, int64_t size) {
  for (int64_t i = 0; i < size; i += 64)
    for (int s = 0; s < S; ++s)
      asm volatile("vpor (%0), %%ymm0, %%ymm0\n vpor 32(%0), %%ymm1, %%ymm1" ::"r"(p + s * size + i)
                   : "xmm0", "xmm1", "memory");
}

constexpr std::pair<int, void (*)(const std::byte*, int64_t)> kReads[] = {
    {1, read<1>}, {2, read<2>}, {4, read<4>}, {8, read<8>}, {16, read<16>}};

// KiB of this process in huge pages.
int64_t huge_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string key; file >> key;) {
    int64_t value = 0;
    if (key == "AnonHugePages:" && file >> value) return value;
  }
  return 0;
}

struct Memory {
  Buffer<std::byte> bytes;
  std::string huge;
};

// As much as the weights that the matmuls go through.
const Memory& memory(Pages pages) {
  static const auto make = [](Pages of) {
    const int64_t before = huge_kib();
    const size_t size = rotation_size();
    Memory made{{allocate_bytes(size, of), size}, ""};
    std::memset(made.bytes.get(), 1, size);
    made.huge =
        std::to_string((huge_kib() - before) >> 10) + " of " + std::to_string(size >> 20) + " MiB in huge pages";
    return made;
  };
  static const Memory small = make(Pages::Small), huge = make(Pages::Huge);
  return pages == Pages::Small ? small : huge;
}

void time_read(State& state, int streams, void (*read)(const std::byte*, int64_t), Pages pages) {
  const Memory& from = memory(pages);
  const auto share = static_cast<int64_t>(from.bytes.size) / state.threads();
  // An odd number of lines a stream: places a power of two apart would all fall on the same sets of a cache.
  const int64_t size = (share / streams / 64 - 1) / 2 * 128 + 64;
  const std::byte* mine = from.bytes.get() + state.thread_index() * share;
  for (auto _ : state) read(mine, size);
  count(state, "GB/s", double(streams * size));
  state.SetLabel(from.huge);
}

#endif

// The kernel itself, on a block that fits in L1 with its row: 16 KiB of codes, 2 KiB of floats.
void time_f32_decode(State& state) {
  uint64_t features;
  require(qmm::process_features(&features));
  const qmm::Kernel* kernel = qmm::choose(features, qmm::Lhs::F32, 4, 1);
  const KernelBlock block(*kernel, 1, 512, 128);
  for (auto _ : state)
    for (int i = 0; i < 16; ++i) block.run();
  count(state, "GFLOP/s", 2.0 * 16 * block.products());
  state.SetLabel(kernel->name);
}

}  // namespace

void add_peaks(int threads) {
#if defined(__x86_64__)
  if ((qmm::decode_cpu(qmm::read_cpu_words()) & QMM_CPU_AVX2) != 0) {
    for (const Arithmetic& arithmetic : kArithmetic) add(arithmetic.name, threads, 2e-5, time_arithmetic, arithmetic);
    for (const auto& [streams, read] : kReads)
      for (const auto& [pages, name] : {std::pair{Pages::Small, "4k"}, {Pages::Huge, "2m"}})
        add("read/" + std::to_string(streams) + "x" + name, threads, double(rotation_size()) / 2e10, time_read, streams,
            read, pages);
  }
#endif
  add("f32_decode_l1", threads, 4e-5, time_f32_decode);
}

}  // namespace bench
