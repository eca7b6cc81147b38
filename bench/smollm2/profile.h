// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the time of the threads goes: matmuls and attention. Compiled code calls the matmul through the wrapper below,
// which the linker puts there (--wrap); unless switched on, it costs a comparison.
#pragma once

#include <qmm/qmm.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace smollm2 {

struct Calls {
  int64_t count = 0;
  int64_t ns = 0;  // of all threads that took part
};

struct Profile {
  bool on = false;
  std::mutex mutex;
  std::map<std::pair<int64_t, int64_t>, Calls> matmuls;  // by the shape [n, k] of the weights
  Calls attention;
};

inline Profile profile;

/// Whether this thread runs one of several tasks; if not, a matmul is on all threads.
inline thread_local bool in_task = false;

/// Adds the time that it lives to `calls`, if the profile is on.
class Timer {
 public:
  explicit Timer(Calls& calls) : calls_(calls) {
    if (profile.on) start_ = Clock::now();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    if (!profile.on) return;
    const int64_t ns = std::chrono::nanoseconds(Clock::now() - start_).count();
    const std::lock_guard lock(profile.mutex);
    calls_.count++;
    calls_.ns += in_task ? ns : ns * qmm_num_threads();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Calls& calls_;
  Clock::time_point start_;
};

inline Calls& matmuls_by(int64_t n, int64_t k) {
  const std::lock_guard lock(profile.mutex);
  return profile.matmuls[{n, k}];
}

extern "C" {
void __real__mlir_ciface_qmm_matmul_packed(const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* packed, int64_t lhs_kind,
                                           const qmm_memref_f32_2d* y);
void __wrap__mlir_ciface_qmm_matmul_packed(const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* packed, int64_t lhs_kind,
                                           const qmm_memref_f32_2d* y) {
  if (!profile.on) return __real__mlir_ciface_qmm_matmul_packed(x, packed, lhs_kind, y);
  const Timer timer(matmuls_by(y->sizes[1], x->sizes[1]));
  __real__mlir_ciface_qmm_matmul_packed(x, packed, lhs_kind, y);
}
}

}  // namespace smollm2
