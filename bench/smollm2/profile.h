// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the time goes, as the calling thread sees it: in the library's matmuls and in attention. Compiled code calls
// the matmul through the wrapper below, which the linker puts there (--wrap); unless switched on, it costs a
// comparison.
#pragma once

#include <qmm/qmm.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

namespace smollm2 {

struct Calls {
  int64_t count = 0, ns = 0;
};

struct Profile {
  bool on = false;
  std::map<std::pair<int64_t, int64_t>, Calls> matmuls;  // by the shape [n, k] of the weights
  Calls attention;
};

inline Profile profile;

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
    calls_.count++;
    calls_.ns += std::chrono::nanoseconds(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Calls& calls_;
  Clock::time_point start_;
};

extern "C" {
void __real__mlir_ciface_qmm_matmul_packed(const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* packed, int64_t lhs_kind,
                                           const qmm_memref_f32_2d* y);
void __wrap__mlir_ciface_qmm_matmul_packed(const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* packed, int64_t lhs_kind,
                                           const qmm_memref_f32_2d* y) {
  if (!profile.on) return __real__mlir_ciface_qmm_matmul_packed(x, packed, lhs_kind, y);
  const Timer timer(profile.matmuls[{y->sizes[1], x->sizes[1]}]);
  __real__mlir_ciface_qmm_matmul_packed(x, packed, lhs_kind, y);
}
}

}  // namespace smollm2
