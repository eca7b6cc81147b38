// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads: the pool, hooks, callers at once, forks; the same bits always. Built with -fsanitize=thread it finds races.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/environment.h"
#include "weights.h"

// Children of forks start threads here.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace qmm::test {
namespace {

// Weights that are worth several threads, and what one thread makes of them.
struct Model {
  Model() : weights(make_desc(520, 256, 32, 4, QMM_ZEROS)) {
    weights.randomize(1);
    packed = pack(weights);
    rhs = open(packed);
    for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN})
      expected.push_back(matmul(lhs_kind, 9, x, rhs, &alone));
  }
  // Whether a matmul with the process default, or with `threads`, gives those bits.
  bool right(const qmm_threads* threads = nullptr) const {
    for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN})
      if (matmul(lhs_kind, 9, x, rhs, threads) != expected[static_cast<size_t>(lhs_kind)]) return false;
    return true;
  }

  const qmm_threads alone = {sizeof(qmm_threads), 1, nullptr, nullptr};
  Weights weights;
  std::vector<uint8_t> packed;
  qmm_rhs rhs;
  std::vector<float> x = integers(9, 256, 2);
  std::vector<std::vector<float>> expected;
};

const Model& model() {
  static const Model* const the_model = new Model;
  return *the_model;
}

// Makes the model before other threads may, and leaves the process default as it was at first. Beside the first thread
// of the program a sanitizer starts one of its own: not one to count.
class Threads : public testing::Test {
 protected:
  void SetUp() override {
    model();
    std::thread([] {}).join();
  }
  void TearDown() override { EXPECT_EQ(qmm_set_num_threads(1), QMM_OK) << qmm_last_error(); }
};

// A hook with a thread for every index.
void one_thread_each(void*, qmm_task task, void* arg, int64_t count) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back(task, arg, i);
  for (std::thread& thread : threads) thread.join();
}

qmm_threads hook(int64_t num_threads, qmm_parallel_for parallel_for = one_thread_each, void* context = nullptr) {
  auto threads = sized<qmm_threads>();
  threads.num_threads = num_threads;
  threads.parallel_for = parallel_for;
  threads.context = context;
  return threads;
}

// The ids of this process's threads.
std::set<int> thread_ids() {
  std::set<int> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ids.insert(std::stoi(entry.path().filename()));
  return ids;
}

// Allows this thread, and those it starts, the first `count` of its CPUs.
class Affinity {
 public:
  explicit Affinity(int count) {
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < count; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &some);
    EXPECT_EQ(sched_setaffinity(0, sizeof some, &some), 0);
  }
  ~Affinity() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

// Runs `body` in a child; whether it returned true there.
template <class Body>
bool in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// ---- the pool ------------------------------------------------------------------------------------------------------

TEST_F(Threads, PoolGivesTheSameBits) {
  for (const int64_t count : {2, 3, 1, 8, 2}) {
    ASSERT_EQ(qmm_set_num_threads(count), QMM_OK) << qmm_last_error();
    EXPECT_EQ(qmm_num_threads(), std::min(count, qmm_max_threads()));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(model().right());
  }
}

TEST_F(Threads, PoolServesManyCallers) {
  ASSERT_EQ(qmm_set_num_threads(8), QMM_OK);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) wrong += !model().right();
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Threads, PoolMayBeResizedUnderUse) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i)
    callers.emplace_back([&] {
      while (!stop) wrong += !model().right();
    });
  std::vector<std::thread> resizers;
  for (int i = 0; i < 2; ++i)
    resizers.emplace_back([] {
      for (int repeat = 0; repeat < 20; ++repeat) EXPECT_EQ(qmm_set_num_threads(1 + repeat % 3), QMM_OK);
    });
  for (std::thread& resizer : resizers) resizer.join();
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Threads, PoolIsNeverLargerThanAllowed) {
  for (const int cpus : {1, 2}) {
    const Affinity affinity(cpus);
    EXPECT_LE(qmm_max_threads(), cpus);
    const std::set<int> before = thread_ids();
    ASSERT_EQ(qmm_set_num_threads(8), QMM_OK) << qmm_last_error();
    EXPECT_LE(qmm_num_threads(), cpus);
    EXPECT_LE(thread_ids().size(), before.size() + static_cast<size_t>(cpus) - 1);
    EXPECT_TRUE(model().right());
    ASSERT_EQ(qmm_set_num_threads(1), QMM_OK);
    // A thread that was joined may be seen for a moment longer.
    while (thread_ids().size() > before.size()) sched_yield();
  }
  EXPECT_GE(qmm_max_threads(), 1);
}

TEST_F(Threads, PoolBeginsWithOneThread) {
  EXPECT_EQ(qmm_num_threads(), 1);
  const std::set<int> before = thread_ids();
  EXPECT_TRUE(model().right());
  EXPECT_TRUE(std::ranges::includes(before, thread_ids()));
}

// A signal to the process must not land on a worker.
TEST_F(Threads, WorkersTakeNoSignalsButTheirOwnFaults) {
  sigset_t mask_before, mask_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  const std::set<int> before = thread_ids();
  ASSERT_EQ(qmm_set_num_threads(2), QMM_OK);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (int signal = 1; signal < NSIG; ++signal)
    EXPECT_EQ(sigismember(&mask_after, signal), sigismember(&mask_before, signal)) << signal;
  size_t workers = 0;
  for (const int id : thread_ids()) {
    if (before.contains(id)) continue;
    ++workers;
    // Until it runs, a new thread blocks all.
    uint64_t blocked = 0;
    for (int tries = 0; tries < 10000; ++tries, std::this_thread::yield()) {
      std::ifstream status("/proc/self/task/" + std::to_string(id) + "/status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(7), nullptr, 16);
      if (!(blocked >> (SIGSEGV - 1) & 1)) break;
    }
    for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGUSR2, SIGPIPE, SIGPROF})
      EXPECT_TRUE(blocked >> (signal - 1) & 1) << "signal " << signal;
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})  // the host's handler is to see these
      EXPECT_FALSE(blocked >> (fault - 1) & 1) << "signal " << fault;
  }
  EXPECT_EQ(workers, static_cast<size_t>(qmm_num_threads() - 1));
}

TEST_F(Threads, NoRowsAndNoDepthAreFine) {
  ASSERT_EQ(qmm_set_num_threads(4), QMM_OK);
  qmm_matmul_args args = make_args(QMM_LHS_F32, 0, nullptr, &model().rhs, nullptr);
  EXPECT_EQ(qmm_matmul(&args), QMM_OK) << qmm_last_error();

  Weights none(make_desc(500, 0, 0, 4));
  const std::vector<uint8_t> packed = pack(none);
  const qmm_rhs rhs = open(packed);
  const std::vector<float> bias(500, 2.5f);
  std::vector<float> y(3 * 500, -77.0f);
  for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
    args = make_args(lhs_kind, 3, nullptr, &rhs, y.data());
    args.bias = bias.data();
    EXPECT_EQ(qmm_matmul(&args), QMM_OK) << qmm_last_error();
    EXPECT_EQ(y, std::vector<float>(3 * 500, 2.5f));
  }
}

TEST(ThreadsDeathTest, ProcessExitsWhileWorkersWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto use_and_exit = [] {
    const bool right = qmm_set_num_threads(2) == QMM_OK && model().right();
    std::exit(right ? 0 : 1);
  };
  EXPECT_EXIT(use_and_exit(), testing::ExitedWithCode(0), "");
}

// ---- hooks ---------------------------------------------------------------------------------------------------------

TEST_F(Threads, HookGivesTheSameBits) {
  for (const int64_t count : {1, 2, 3, 8, 64}) {
    const qmm_threads threads = hook(count);
    EXPECT_TRUE(model().right(&threads)) << count;
    ASSERT_EQ(qmm_set_threads(&threads), QMM_OK);
    EXPECT_EQ(qmm_num_threads(), count);
    EXPECT_TRUE(model().right()) << count;
  }
  ASSERT_EQ(qmm_set_threads(nullptr), QMM_OK);
  EXPECT_EQ(qmm_num_threads(), 1);
}

TEST_F(Threads, RunsEachTaskOnce) {
  const qmm_threads threads = hook(3);
  for (const bool in_pool : {true, false}) {
    ASSERT_EQ(in_pool ? qmm_set_num_threads(2) : qmm_set_threads(&threads), QMM_OK);
    for (const size_t count : {size_t(0), size_t(1), size_t(2), size_t(5), size_t(100'000)}) {
      std::vector<int> runs(count);
      const qmm_task task = [](void* arg, int64_t i) {
        ++(*static_cast<std::vector<int>*>(arg))[static_cast<size_t>(i)];
      };
      EXPECT_EQ(qmm_run(task, &runs, static_cast<int64_t>(count)), QMM_OK);
      EXPECT_EQ(std::count(runs.begin(), runs.end(), 1), static_cast<ptrdiff_t>(count));
    }
  }
}

// A task makes calls of its own, whose threads are busy with the tasks.
TEST_F(Threads, TasksMayCallTheLibrary) {
  ASSERT_EQ(qmm_set_num_threads(2), QMM_OK);
  std::atomic<int> right{0};
  const qmm_task task = [](void* arg, int64_t) { *static_cast<std::atomic<int>*>(arg) += model().right(); };
  EXPECT_EQ(qmm_run(task, &right, 5), QMM_OK);
  EXPECT_EQ(right, 5);
}

// Backwards on the calling thread is as good as any.
TEST_F(Threads, HookMayTakeAnyOrder) {
  struct Seen {
    std::vector<int64_t> counts;
  } seen;
  const qmm_threads threads = hook(
      8,
      [](void* context, qmm_task task, void* arg, int64_t count) {
        static_cast<Seen*>(context)->counts.push_back(count);
        for (int64_t i = count; i-- > 0;) task(arg, i);
      },
      &seen);
  EXPECT_TRUE(model().right(&threads));
  EXPECT_FALSE(seen.counts.empty());
  for (const int64_t count : seen.counts) EXPECT_TRUE(count >= 1 && count <= 8) << count;
}

TEST_F(Threads, HookMayBeMissing) {
  const qmm_threads threads = hook(8, nullptr);
  EXPECT_TRUE(model().right(&threads));
  ASSERT_EQ(qmm_set_threads(&threads), QMM_OK);
  EXPECT_TRUE(model().right());
}

// Each of the hook's threads makes a call of its own, on the pool, before it does its part.
TEST_F(Threads, HookThreadsMayCallTheLibrary) {
  ASSERT_EQ(qmm_set_num_threads(2), QMM_OK);
  static std::atomic<int> wrong, calls;
  wrong = calls = 0;
  const qmm_threads threads = hook(4, [](void*, qmm_task task, void* arg, int64_t count) {
    std::vector<std::thread> workers;
    for (int64_t i = 0; i < count; ++i)
      workers.emplace_back([=] {
        wrong += !model().right();
        ++calls;
        task(arg, i);
      });
    for (std::thread& worker : workers) worker.join();
  });
  EXPECT_TRUE(model().right(&threads));
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(calls, 3);
}

#if defined(__x86_64__)
// The hook's threads may round up and flush denormals; they get their environment back.
TEST_F(Threads, HookThreadsKeepTheirFloatEnvironment) {
  static std::atomic<int> changed;
  changed = 0;
  const qmm_threads threads = hook(4, [](void*, qmm_task task, void* arg, int64_t count) {
    std::vector<std::thread> workers;
    for (int64_t i = 0; i < count; ++i)
      workers.emplace_back([=] {
        constexpr unsigned kUpFlush = 0x1f80 | 0x4000 | 0x8040;
        _mm_setcsr(kUpFlush);
        task(arg, i);
        changed += _mm_getcsr() != kUpFlush;
      });
    for (std::thread& worker : workers) worker.join();
  });
  EXPECT_TRUE(model().right(&threads));
  EXPECT_EQ(changed, 0);
}
#endif

// ---- forks ---------------------------------------------------------------------------------------------------------

TEST_F(Threads, ChildOfAForkWorks) {
  ASSERT_TRUE(model().right());
  for (const int64_t count : {1, 2}) {
    ASSERT_EQ(qmm_set_num_threads(count), QMM_OK);
    ASSERT_TRUE(model().right());
    EXPECT_TRUE(in_child([] {
      if (qmm_num_threads() != 1 || !model().right()) return false;  // workers stay behind
      return qmm_set_num_threads(2) == QMM_OK && model().right() && model().right();
    }));
    EXPECT_TRUE(model().right());
  }
}

// The fork comes in the middle of other threads' calls.
TEST_F(Threads, ChildOfAForkUnderUseWorks) {
  for (const int64_t count : {1, 2}) {
    ASSERT_EQ(qmm_set_num_threads(count), QMM_OK);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0}, calls{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i)
      callers.emplace_back([&] {
        const std::vector<float> x = integers(128, 256, 3), expected = matmul(QMM_LHS_F32, 128, x, model().rhs);
        std::vector<float> y(expected.size());
        const qmm_matmul_args args = make_args(QMM_LHS_F32, 128, x.data(), &model().rhs, y.data());
        for (; !stop; ++calls) wrong += qmm_matmul(&args) != QMM_OK || y != expected;
      });
    // Not every allocator survives a fork in the middle of it: the callers have all their memory before the first, and
    // the child asks for none before its first call.
    while (calls < 10) sched_yield();
    for (int repeat = 0; repeat < 50; ++repeat)
      EXPECT_TRUE(in_child([] {
        static float y[9 * 520];
        const qmm_matmul_args args = make_args(QMM_LHS_F32, 9, model().x.data(), &model().rhs, y);
        const auto right = [&] {
          std::fill(std::begin(y), std::end(y), 0.0f);
          return qmm_matmul(&args) == QMM_OK && std::equal(std::begin(y), std::end(y), model().expected[0].begin());
        };
        if (!right() || qmm_set_num_threads(2) != QMM_OK) return false;
        for (int i = 0; i < 10; ++i)
          if (!right()) return false;
        return true;
      }));
    stop = true;
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace qmm::test
