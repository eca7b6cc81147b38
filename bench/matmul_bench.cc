// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm_bench [--threads=N] [--sample=SECONDS] [Google Benchmark's flags]: libqmm beside its peers. run.py calls it with
// every library on N threads, one shape at a time, so that what is compared is measured close together. README.md names
// the benchmarks. qmm_bench --isa prints the vector extensions that libraries are told of.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "../runtime/threads.h"
#include "check.h"
#include "contenders/contender.h"
#include "isa.h"
#include "peaks.h"
#include "sample.h"

namespace bench {
namespace {

using benchmark::Counter;
using benchmark::State;

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// Waits until the workers of the library that ran before sleep: some spin for tens of milliseconds.
void settle() {
  if (qmm_num_threads() == 1) return;
  for (int tries = 0; tries < 500; ++tries) {
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (cpu_seconds() - before < 2e-4) return;
  }
  std::fprintf(stderr, "qmm_bench: workers of a library have been spinning for a second\n");
  std::exit(1);
}

// The weights of a contender, packed at the first call and kept.
std::span<const std::byte> packed_weights(const Contender& contender, Shape shape) {
  static std::map<std::pair<std::string, Shape>, Buffer<std::byte>> made;
  auto& packed = made[{contender.name(), shape}];
  if (packed.data == nullptr) packed = contender.pack(shape);
  return packed.bytes();
}

void time_matmul(State& state, const Contender& contender, Shape shape, int64_t m, bool from_memory) {
  const auto weights = packed_weights(contender, shape);
  const auto x = random_floats(m * shape.k);
  const auto y = allocate<float>(static_cast<size_t>(m * shape.n));
  // The weights to go through in turn: many copies where they shall come from memory, else themselves.
  std::vector<Bound> matmuls;
  for (const std::byte* copy : from_memory ? rotate(weights) : std::vector{weights.data()})
    matmuls.push_back(contender.bind(shape, m, x.get(), copy, y.get()));
  settle();
  matmuls.back().run();  // whatever a first call does
  // It goes on where the last sample ended, or else each would find the first copies in the cache.
  static size_t next = 0;
  size_t i = next % matmuls.size();
  for (auto _ : state) {
    matmuls[i].run();
    i = i + 1 == matmuls.size() ? 0 : i + 1;
  }
  next = i;
  const double products = double(m) * double(shape.n) * double(shape.k);
  state.counters["GFLOP/s"] = Counter(2e-9 * products, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(1e-9 * double(weights.size()), Counter::kIsIterationInvariantRate);
  state.SetLabel(matmuls[0].kernel);
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
  settle();
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
  settle();
  require(qmm_quantize_lhs(&args, lhs.get(), size));
  for (auto _ : state) require(qmm_quantize_lhs(&args, lhs.get(), size));
  state.counters["GB/s"] = Counter(4e-9 * double(m) * double(k), Counter::kIsIterationInvariantRate);
}

// `each` is about how many seconds a call takes.
template <class... Args>
void add(const std::string& name, double each, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->Iterations(calls_of(each))->UseRealTime();
}

void add_matmul(const std::string& kind, const Contender& contender, Shape shape, int64_t m, bool from_memory) {
  // 20 GFLOP/s, and half as much for one row.
  const double each = 1e-10 * double(m + 1) * double(shape.n) * double(shape.k);
  add(kind + "/" + name_of(shape) + "/M:" + std::to_string(m) + "/" + contender.name(), each, time_matmul,
      std::cref(contender), shape, m, from_memory);
}

void add_model(Shape shape, const Contenders& contenders) {
  for (const int64_t m : kRows)
    for (const auto& contender : contenders)
      if (shape.k % std::max<int64_t>(1, contender->format().group) == 0)
        add_matmul("matmul", *contender, shape, m, m <= kMaxRotatedRows);
}

// libqmm alone.
Contenders make(std::initializer_list<Format> formats) {
  Contenders made;
  for (const Format& format : formats)
    for (const int32_t lhs_kind : {QMM_LHS_F32, QMM_LHS_S8}) made.push_back(make_libqmm(format, lhs_kind));
  return made;
}

void add_odd(const Contenders& contenders) {
  for (const Shape& shape : kOdd)
    for (const int64_t m : kOddRows)
      for (const auto& contender : contenders) add_matmul("odd", *contender, shape, m, m <= kMaxRotatedRows);
}

void add_sweeps(const Contenders& contenders) {
  std::set<std::pair<Shape, int64_t>> cases;
  for (const int64_t m : kSweepOfRows) cases.emplace(kSweep, m);
  for (const int64_t size : kSweepOfShape) {
    cases.emplace(Shape{size, kSweep.k}, kSweepRows);
    cases.emplace(Shape{kSweep.n, size}, kSweepRows);
  }
  for (const auto& [shape, m] : cases)
    for (const auto& contender : contenders) add_matmul("sweep", *contender, shape, m, false);
}

void add_calls(const Contenders& contenders) {
  for (const auto& contender : contenders)
    add("call/" + contender->name(), 1e-6, time_matmul, std::cref(*contender), Shape{16, 8}, 1, false);
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
  for (const Format& format : {kU4G32, kU4G128, kU4Channel})
    for (const int64_t m : {1, 16, 128})
      add("quantize_lhs/K:" + std::to_string(k) + "/" + format.name + "/M:" + std::to_string(m), 1e-9 * double(m * k),
          time_quantize_lhs, k, format, m);
}

void add_conditions() {
#if defined(__clang__)
  benchmark::AddCustomContext("compiler", "Clang " __clang_version__);
#else
  benchmark::AddCustomContext("compiler", "GCC " __VERSION__);
#endif
  benchmark::AddCustomContext("isa", isa_seen());
  for (const Library& library : libraries())
    benchmark::AddCustomContext(library.name, library.start == nullptr ? "missing" : library.conditions());
  benchmark::AddCustomContext("rotation", std::to_string(rotation_size() >> 20) +
                                              " MiB of weights in turn where M <= " + std::to_string(kMaxRotatedRows) +
                                              ", in huge pages where given");
}

int run(int num_threads) {
  Contenders contenders;
  for (const Library& library : libraries())
    if (library.start != nullptr)
      for (auto& contender : library.start(num_threads)) contenders.push_back(std::move(contender));
  check_results(contenders);
  add_conditions();

  for (const Shape& shape : kSmolLM2) add_model(shape, contenders);
  add_model(kLlama7B, contenders);
  const Contenders odd = make({kU4G32, kU4G128, kU4Channel, kS8Channel}), sweep = make({kU4G32, kU4G128, kS8G32}),
                   small = make({{"u4_g8", 4, 8, QMM_SYMMETRIC, QMM_F16}, {"s8_g8", 8, 8, QMM_SYMMETRIC, QMM_F16}});
  for (const int64_t m : kNarrowRows)
    for (const auto& contender : odd) add_matmul("matmul", *contender, kNarrow, m, false);
  add_odd(odd);
  add_sweeps(sweep);
  add_calls(small);
  if (num_threads > 1) add_fork_joins();
  add_quantize_lhs();
  add_peaks(num_threads);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  int num_threads = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--isa") {
      std::printf("%s\n", bench::isa_seen().c_str());
      return 0;
    }
    if (std::sscanf(argv[i], "--threads=%d", &num_threads) != 1 &&
        std::sscanf(argv[i], "--sample=%lf", &bench::sample_seconds) != 1) {
      std::fprintf(stderr, "qmm_bench: unknown argument %s\n", argv[i]);
      return 1;
    }
  }
  return bench::run(num_threads);
}
