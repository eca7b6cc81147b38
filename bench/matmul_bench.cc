// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm_bench [--threads=N] [Google Benchmark's flags]: libqmm beside fp32, and what surrounds a matmul. run.py calls it
// with every library on N threads, one shape at a time, so that what is compared is measured close together.
//
//   matmul/<N>x<K>/M:<M>/<format>_<lhs>   libqmm                 matmul/<N>x<K>/M:<M>/f32_<library>   a baseline
//   call/<format>_<lhs>                   a matmul of almost nothing: what a call costs
//   fork_join/<task>/idle_us:<t>          a loop on the built-in pool, left alone for t us before, of tasks that are
//                                         empty (one thread may take all) or meet (one on each thread)
//   quantize_lhs/K:<K>/<format>/M:<M>     qmm_quantize_lhs
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "../runtime/threads.h"
#include "baselines.h"
#include "check.h"
#include "weights.h"

namespace bench {
namespace {

using benchmark::Counter;
using benchmark::State;

std::string shape_name(Shape shape) { return std::to_string(shape.n) + "x" + std::to_string(shape.k); }

// Workers of the library that ran before may still spin, OpenBLAS's for some 30 ms.
void settle(std::string_view library) {
  static std::string_view last;
  if (last != library && qmm_num_threads() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  last = library;
}

// The weights to go through in turn: many copies where they shall come from memory, else themselves.
std::vector<std::span<const std::byte>> copies_of(std::span<const std::byte> weights, bool from_memory) {
  return from_memory ? rotate(weights) : std::vector{weights};
}

void count(State& state, Shape shape, int64_t m, size_t weight_bytes) {
  const double products = double(m) * double(shape.n) * double(shape.k);
  state.counters["GFLOP/s"] = Counter(2e-9 * products, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(1e-9 * double(weight_bytes), Counter::kIsIterationInvariantRate);
}

void time_baseline(State& state, const Baseline& baseline, Shape shape, int64_t m) {
  const auto weights = float_weights(shape);
  const auto copies = copies_of(weights, m <= kMaxRotatedRows);
  const auto x = random_floats(m * shape.k);
  const auto y = allocate<float>(static_cast<size_t>(m * shape.n));
  settle(baseline.name);
  size_t i = 0;
  for (auto _ : state) {
    baseline.matmul(m, shape.n, shape.k, x.get(), reinterpret_cast<const float*>(copies[i].data()), y.get());
    i = i + 1 == copies.size() ? 0 : i + 1;
  }
  count(state, shape, m, weights.size());
}

void time_matmul(State& state, Shape shape, const Format& format, int32_t lhs_kind, int64_t m, bool from_memory) {
  const auto weights = packed_weights(shape, format);
  std::vector<qmm_rhs> copies;
  for (const auto& copy : copies_of(weights, from_memory)) copies.push_back(open(copy));
  const auto x = random_floats(m * shape.k);
  const auto y = allocate<float>(static_cast<size_t>(m * shape.n));
  qmm_matmul_args args = {};
  args.struct_size = sizeof args;
  args.lhs_kind = lhs_kind;
  args.m = m;
  args.x = x.get();
  args.x_row_stride = shape.k;
  args.y = y.get();
  args.y_row_stride = shape.n;
  settle("libqmm");
  size_t i = 0;
  for (auto _ : state) {
    args.rhs = &copies[i];
    require(qmm_matmul(&args));
    i = i + 1 == copies.size() ? 0 : i + 1;
  }
  count(state, shape, m, weights.size());
  const char* kernel;
  require(qmm_kernel_name(lhs_kind, &copies[0].desc, m, &kernel));
  state.SetLabel(kernel);
}

void empty_task(void*, int64_t) {}

// Arrives, and waits for the others; makes room for them where they do not come soon, since CPUs may be few.
void meeting_task(void* awaited, int64_t) {
  auto& left = *static_cast<std::atomic<int64_t>*>(awaited);
  left.fetch_sub(1);
  for (int spins = 0; left.load() > 0; ++spins)
    if (spins > 10000) std::this_thread::yield();
}

void time_fork_join(State& state, qmm_task task, int64_t idle_us) {
  using Clock = std::chrono::steady_clock;
  const qmm_threads threads = qmm::default_threads();
  std::vector<double> seconds;
  settle("libqmm");
  for (auto _ : state) {
    const auto rested = Clock::now() + std::chrono::microseconds(idle_us);
    while (Clock::now() < rested) continue;
    std::atomic<int64_t> awaited = threads.num_threads;
    const auto start = Clock::now();
    threads.parallel_for(threads.context, task, &awaited, threads.num_threads);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    state.SetIterationTime(seconds.back());
  }
  // A mean tells more of what else the machine did.
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  state.counters["median_ns"] = *middle * 1e9;
}

void time_quantize_lhs(State& state, int64_t k, const Format& format, int64_t m) {
  const qmm_rhs_desc desc = describe({16, k}, format);
  const auto x = random_floats(m * k);
  qmm_matmul_args args = {};
  args.struct_size = sizeof args;
  args.lhs_kind = QMM_LHS_S8;
  args.desc = &desc;
  args.m = m;
  args.x = x.get();
  args.x_row_stride = k;
  size_t size;
  require(qmm_lhs_size(&args, &size));
  const auto lhs = allocate<std::byte>(size);
  settle("libqmm");
  for (auto _ : state) require(qmm_quantize_lhs(&args, lhs.get(), size));
  state.counters["GB/s"] = Counter(4e-9 * double(m) * double(k), Counter::kIsIterationInvariantRate);
}

template <class... Args>
void add(const std::string& name, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->UseRealTime();
}

void add_matmuls(Shape shape, std::span<const Format> formats) {
  for (const int64_t m : kRows) {
    const std::string prefix = "matmul/" + shape_name(shape) + "/M:" + std::to_string(m) + "/";
    for (const Baseline& baseline : baselines())
      if (baseline.threaded || qmm_num_threads() == 1) add(prefix + baseline.name, time_baseline, baseline, shape, m);
    for (const Format& format : formats)
      for (const LhsKind& lhs : kLhsKinds)
        if (shape.k % format.group == 0)
          add(prefix + format.name + "_" + lhs.name, time_matmul, shape, format, lhs.kind, m, m <= kMaxRotatedRows);
  }
}

void add_calls() {
  const Format formats[] = {{"u4_g8", 4, 8, QMM_SYMMETRIC}, {"s8_g8", 8, 8, QMM_SYMMETRIC}};
  for (const Format& format : formats)
    for (const LhsKind& lhs : kLhsKinds)
      add(std::string("call/") + format.name + "_" + lhs.name, time_matmul, Shape{16, 8}, format, lhs.kind, 1, false);
}

void add_fork_joins() {
  const std::pair<const char*, qmm_task> tasks[] = {{"empty", empty_task}, {"meet", meeting_task}};
  for (const auto& [name, task] : tasks)
    for (const int64_t idle_us : {0, 10, 1000})
      benchmark::RegisterBenchmark(("fork_join/" + std::string(name) + "/idle_us:" + std::to_string(idle_us)).c_str(),
                                   time_fork_join, task, idle_us)
          ->UseManualTime()
          ->Iterations(100);
}

void add_quantize_lhs() {
  constexpr int64_t k = 4096;
  for (const Format& format : {kU4G32, kU4G128})
    for (const int64_t m : {1, 128})
      add("quantize_lhs/K:" + std::to_string(k) + "/" + format.name + "/M:" + std::to_string(m), time_quantize_lhs, k,
          format, m);
}

void add_all() {
  for (const Shape& shape : kSmolLM2) add_matmuls(shape, kSmolLM2Formats);
  for (const Shape& shape : kLlama7B) add_matmuls(shape, kLlama7BFormats);
  add_calls();
  if (qmm_num_threads() > 1) add_fork_joins();
  add_quantize_lhs();
}

void set_threads(int num_threads) {
  require(qmm_set_num_threads(num_threads));
  if (qmm_num_threads() != num_threads) {
    std::fprintf(stderr, "qmm_bench: --threads=%d, but this process may use %d CPUs\n", num_threads,
                 static_cast<int>(qmm_max_threads()));
    std::exit(1);
  }
  set_baseline_threads(num_threads);
}

void add_conditions() {
#if defined(__clang__)
  benchmark::AddCustomContext("compiler", "Clang " __clang_version__);
#else
  benchmark::AddCustomContext("compiler", "GCC " __VERSION__);
#endif
  benchmark::AddCustomContext("libqmm", qmm_version());
  benchmark::AddCustomContext("openblas", openblas_conditions());
  benchmark::AddCustomContext("eigen", eigen_conditions());
  benchmark::AddCustomContext("rotation", std::to_string(rotation_size() >> 20) +
                                              " MiB of weights in turn where M <= " + std::to_string(kMaxRotatedRows) +
                                              ", in huge pages where given");
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  int num_threads = 1;
  for (int i = 1; i < argc; ++i)
    if (std::sscanf(argv[i], "--threads=%d", &num_threads) != 1) {
      std::fprintf(stderr, "qmm_bench: unknown argument %s\n", argv[i]);
      return 1;
    }
  bench::set_threads(num_threads);
  bench::check_results();
  bench::add_conditions();
  bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
