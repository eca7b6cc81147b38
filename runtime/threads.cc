// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "threads.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform.h"

namespace qmm {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int kSpins = 2000;  // pauses, 30 to 120 us: longer than from one matmul of a model to the next

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A job is published by one store to `ticket`: its number, its count and the next index to take. Whoever takes an index
// by compare-and-swap knows that the job is still open, since its caller waits for every index that was taken.
class Pool {
 public:
  static uint64_t make_ticket(uint64_t job, uint64_t count, uint64_t next) { return job << 32 | count << 16 | next; }

  // Stops the workers, and starts num_threads - 1 others; nobody may be in run().
  bool resize(int64_t num_threads) {
    mutex_.lock();
    stop_.store(true);
    wake_.wake_all();
    mutex_.unlock();
    for (int64_t i = 0; i < workers_; ++i) threads_[i].join();
    workers_ = 0;
    stop_.store(false);
    while (workers_ < num_threads - 1 && threads_[workers_].start(work, this)) ++workers_;
    return workers_ == num_threads - 1;
  }

  int64_t num_threads() const { return workers_ + 1; }

  bool try_lock() { return !busy_.exchange(true, std::memory_order_acquire); }
  void lock() {
    while (!try_lock()) yield_thread();
  }
  void unlock() { busy_.store(false, std::memory_order_release); }

  void run(qmm_task task, void* arg, int64_t count) {
    task_.store(task, std::memory_order_relaxed);
    arg_.store(arg, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    const uint64_t job = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
    ticket_.store(make_ticket(job, static_cast<uint64_t>(count), 0));
    if (sleepers_.load() > 0) {
      mutex_.lock();
      wake_.wake_all();
      mutex_.unlock();
    }
    take_all();
    for (int spins = 0; done_.load(std::memory_order_acquire) != count; ++spins)
      spins < kSpins ? pause() : yield_thread();
  }

  // In the child of a fork there are no workers, and locks and an open job are as they happened to be.
  void after_fork() {
    workers_ = 0;
    ticket_.store(0);
    sleepers_.store(0);
    busy_.store(false);
    mutex_.reset();
    wake_.reset();
  }

 private:
  static bool open(uint64_t ticket) { return (ticket & 0xffff) < (ticket >> 16 & 0xffff); }

  void take_all() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (open(ticket)) {
      const qmm_task task = task_.load(std::memory_order_relaxed);
      void* const arg = arg_.load(std::memory_order_relaxed);
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      task(arg, static_cast<int64_t>(ticket & 0xffff));
      done_.fetch_add(1, std::memory_order_release);
      ticket = ticket_.load(std::memory_order_acquire);
    }
  }

  void wait() {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (open(ticket_.load(std::memory_order_acquire)) || stop_.load(std::memory_order_relaxed)) return;
      pause();
    }
    mutex_.lock();
    sleepers_.fetch_add(1);
    while (!open(ticket_.load()) && !stop_.load()) wake_.wait(mutex_);
    sleepers_.fetch_sub(1);
    mutex_.unlock();
  }

  static Thread::Result work(void* self) {
    auto& pool = *static_cast<Pool*>(self);
    while (!pool.stop_.load(std::memory_order_relaxed)) {
      pool.take_all();
      pool.wait();
    }
    return {};
  }

  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) std::atomic<qmm_task> task_{nullptr};
  std::atomic<void*> arg_{nullptr};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false}, busy_{false};
  Mutex mutex_;
  Condition wake_;
  int64_t workers_ = 0;
  Thread threads_[kMaxThreads] = {};
};

// Zero-initialised but for the constants above; never destroyed, since a worker may outlive main.
constinit Pool pool;

void run_in_pool(void*, qmm_task task, void* arg, int64_t count) {
  if (!pool.try_lock()) return run_here(nullptr, task, arg, count);
  pool.run(task, arg, count);
  pool.unlock();
}

constinit Mutex default_mutex;
constinit qmm_threads default_value = {sizeof(qmm_threads), 1, run_here, nullptr};

// What qmm_run was given, as its threads share it.
struct Tasks {
  qmm_task task;
  void* arg;
  int64_t count;
  std::atomic<int64_t> next{0};
};

void take_tasks(void* arg, int64_t) {
  auto& tasks = *static_cast<Tasks*>(arg);
  for (int64_t i; (i = tasks.next.fetch_add(1, std::memory_order_relaxed)) < tasks.count;) tasks.task(tasks.arg, i);
}

// The default is whole when a process forks.
void before_fork() { default_mutex.lock(); }
void after_fork_in_parent() { default_mutex.unlock(); }
void after_fork_in_child() {
  default_mutex.reset();
  pool.after_fork();
  if (default_value.parallel_for == run_in_pool) default_value = {sizeof(qmm_threads), 1, run_here, nullptr};
}

void register_fork_handlers() { at_fork(before_fork, after_fork_in_parent, after_fork_in_child); }

// Every use of the pool comes by here first, and a fork may happen in any.
void expect_forks() {
  static constinit Once once;
  once.call(register_fork_handlers);
}

void lock_default() {
  expect_forks();
  default_mutex.lock();
}

void set_default(const qmm_threads& value) {
  lock_default();
  default_value = value;
  default_mutex.unlock();
}

// The cgroup's quota of whole CPUs, at least 1; 0 where there is none. Version 2: cpu.max of the group and all above
// it.
int64_t cgroup_cpus() {
  int64_t least = 0;
#if defined(__linux__)
  char line[1024], path[1200];
  std::FILE* file = std::fopen("/proc/self/cgroup", "re");
  if (file == nullptr) return 0;
  line[0] = '\0';
  while (std::fgets(line, sizeof line, file) != nullptr && std::strncmp(line, "0::", 3) != 0) line[0] = '\0';
  std::fclose(file);
  if (line[0] == '\0') return 0;
  char* group = line + 3;
  group[std::strcspn(group, "\n")] = '\0';
  for (;;) {
    std::snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    if (std::FILE* max = std::fopen(path, "re")) {
      int64_t quota, period;
      if (std::fscanf(max, "%" SCNd64 " %" SCNd64, &quota, &period) == 2 && quota > 0 && period > 0) {
        const int64_t cpus = quota < period ? 1 : quota / period;
        if (least == 0 || cpus < least) least = cpus;
      }
      std::fclose(max);
    }
    char* slash = std::strrchr(group, '/');
    if (slash == nullptr) return least;
    *slash = '\0';
  }
#endif
  return least;
}

}  // namespace

void run_here(void*, qmm_task task, void* arg, int64_t count) {
  for (int64_t i = 0; i < count; ++i) task(arg, i);
}

qmm_status run(qmm_task task, void* arg, int64_t count) {
  if (task == nullptr) return fail(QMM_INVALID_ARGUMENT, "qmm_run: task is null");
  if (count < 0) return fail(QMM_INVALID_ARGUMENT, "qmm_run: count is %" PRId64 "; it must not be negative", count);
  if (count == 0) return QMM_OK;
  const qmm_threads threads = default_threads();
  Tasks tasks = {task, arg, count};
  threads.parallel_for(threads.context, take_tasks, &tasks, std::min(threads.num_threads, count));
  return QMM_OK;
}

int64_t max_threads() {
  int64_t cpus = affinity_cpus();
  const int64_t quota = cgroup_cpus();
  if (quota > 0 && quota < cpus) cpus = quota;
  return cpus < 1 ? 1 : cpus;
}

qmm_threads default_threads() {
  lock_default();
  const qmm_threads value = default_value;
  default_mutex.unlock();
  return value;
}

qmm_status check_threads(const char* function, const qmm_threads& threads) {
  QMM_TRY(check_struct(function, "threads", &threads, sizeof threads));
  if (threads.num_threads < 1 || threads.num_threads > kMaxThreads)
    return fail(QMM_INVALID_ARGUMENT, "%s: num_threads is %" PRId64 "; it must be 1 to %" PRId64, function,
                threads.num_threads, kMaxThreads);
  return QMM_OK;
}

qmm_status set_num_threads(int64_t num_threads) {
  if (num_threads < 1 || num_threads > kMaxThreads)
    return fail(QMM_INVALID_ARGUMENT, "qmm_set_num_threads: num_threads is %" PRId64 "; it must be 1 to %" PRId64,
                num_threads, kMaxThreads);
  const int64_t allowed = max_threads();
  if (num_threads > allowed) num_threads = allowed;
  expect_forks();
  pool.lock();
  const bool started = pool.resize(num_threads);
  const int64_t got = pool.num_threads();
  set_default({sizeof(qmm_threads), got, got > 1 ? run_in_pool : run_here, nullptr});
  pool.unlock();
  if (!started)
    return fail(QMM_OUT_OF_MEMORY, "qmm_set_num_threads: only %" PRId64 " of %" PRId64 " threads could be started", got,
                num_threads);
  return QMM_OK;
}

qmm_status set_threads(const qmm_threads* threads) {
  qmm_threads value = {sizeof value, 1, run_here, nullptr};
  if (threads != nullptr) {
    QMM_TRY(check_threads("qmm_set_threads", *threads));
    value = *threads;
    if (value.parallel_for == nullptr) value.parallel_for = run_here;
  }
  set_default(value);
  return QMM_OK;
}

}  // namespace qmm
