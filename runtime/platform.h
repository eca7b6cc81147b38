// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime asks of the operating system for threads and memory: POSIX, or Windows, which has no pthreads. Not
// the C++ library's, since the library needs libc alone.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <malloc.h>
#include <windows.h>
#else
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>
#endif

namespace qmm {

#if defined(_WIN32)

class Mutex {
 public:
  void lock() { AcquireSRWLockExclusive(&lock_); }
  void unlock() { ReleaseSRWLockExclusive(&lock_); }
  void reset() { lock_ = SRWLOCK_INIT; }

 private:
  friend class Condition;
  SRWLOCK lock_ = SRWLOCK_INIT;
};

class Condition {
 public:
  void wait(Mutex& mutex) { SleepConditionVariableSRW(&condition_, &mutex.lock_, INFINITE, 0); }
  void wake_all() { WakeAllConditionVariable(&condition_); }
  void reset() { condition_ = CONDITION_VARIABLE_INIT; }

 private:
  CONDITION_VARIABLE condition_ = CONDITION_VARIABLE_INIT;
};

// Calls a function once, for all threads; all return when it has.
class Once {
 public:
  void call(void (*function)()) {
    const auto run = [](PINIT_ONCE, PVOID argument, PVOID*) -> BOOL {
      reinterpret_cast<void (*)()>(argument)();
      return TRUE;
    };
    InitOnceExecuteOnce(&once_, run, reinterpret_cast<void*>(function), nullptr);
  }

 private:
  INIT_ONCE once_ = INIT_ONCE_STATIC_INIT;
};

// Keeps the library that holds this code loaded, whose threads, and what runs when a thread ends, may outlive its last
// handle: what -z nodelete does on Linux.
inline void stay_loaded() {
  static const char here = 0;
  HMODULE module;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, &here, &module);
}

class Thread {
 public:
  using Result = DWORD;
  using Function = Result(void*);

  bool start(Function* function, void* argument) {
    stay_loaded();
    thread_ = CreateThread(nullptr, 0, function, argument, 0, nullptr);
    return thread_ != nullptr;
  }
  void join() {
    WaitForSingleObject(thread_, INFINITE);
    CloseHandle(thread_);
  }

 private:
  HANDLE thread_ = nullptr;
};

// A pointer of each thread, which goes to a function when the thread ends unless it is null.
class ThreadValue {
 public:
  bool make(void (*at_end)(void*)) {
    stay_loaded();
    index_ = FlsAlloc(at_end);
    return index_ != FLS_OUT_OF_INDEXES;
  }
  bool set(void* value) { return FlsSetValue(index_, value) != 0; }

 private:
  DWORD index_ = FLS_OUT_OF_INDEXES;
};

inline void yield_thread() { SwitchToThread(); }

// There are no forks.
inline void at_fork(void (*)(), void (*)(), void (*)()) {}

// The CPUs of the affinity mask.
inline int64_t affinity_cpus() {
  DWORD_PTR process, system;
  return GetProcessAffinityMask(GetCurrentProcess(), &process, &system) ? __builtin_popcountll(process) : 1;
}

// `size` is a multiple of `alignment`.
inline void* aligned_allocate(size_t alignment, size_t size) { return _aligned_malloc(size, alignment); }
inline void aligned_free(void* memory) { _aligned_free(memory); }

#else

class Mutex {
 public:
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }
  void reset() { pthread_mutex_init(&mutex_, nullptr); }  // for the child of a fork

 private:
  friend class Condition;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

class Condition {
 public:
  void wait(Mutex& mutex) { pthread_cond_wait(&condition_, &mutex.mutex_); }
  void wake_all() { pthread_cond_broadcast(&condition_); }
  void reset() { pthread_cond_init(&condition_, nullptr); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

// Calls a function once, for all threads; all return when it has.
class Once {
 public:
  void call(void (*function)()) { pthread_once(&once_, function); }

 private:
  pthread_once_t once_ = PTHREAD_ONCE_INIT;
};

class Thread {
 public:
  using Result = void*;
  using Function = Result(void*);

  // Signals are the host's business: the thread takes none, but for those that a fault of its own raises.
  bool start(Function* function, void* argument) {
    sigset_t all, before;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread_, nullptr, function, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }
  void join() { pthread_join(thread_, nullptr); }

 private:
  pthread_t thread_ = {};
};

// A pointer of each thread, which goes to a function when the thread ends unless it is null.
class ThreadValue {
 public:
  bool make(void (*at_end)(void*)) { return pthread_key_create(&key_, at_end) == 0; }
  bool set(void* value) { return pthread_setspecific(key_, value) == 0; }

 private:
  pthread_key_t key_ = {};
};

inline void yield_thread() { sched_yield(); }

inline void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  pthread_atfork(before, in_parent, in_child);
}

// The CPUs of the affinity mask, where the system has one.
inline int64_t affinity_cpus() {
#if defined(__linux__)
  cpu_set_t sets[64];  // the kernel's mask may be longer than one
  return sched_getaffinity(0, sizeof sets, sets) == 0 ? CPU_COUNT_S(sizeof sets, sets) : 1;
#else
  return sysconf(_SC_NPROCESSORS_ONLN);
#endif
}

// `size` is a multiple of `alignment`.
inline void* aligned_allocate(size_t alignment, size_t size) { return std::aligned_alloc(alignment, size); }
inline void aligned_free(void* memory) { std::free(memory); }

#endif

}  // namespace qmm
