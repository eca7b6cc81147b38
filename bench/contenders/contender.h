// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is compared: libraries, each with the formats of weights that it has.
//
// Weights are packed ahead; what a library does to the activations (X is f32, row-major and dense) is timed. Packed
// weights are bytes that work wherever they are copied to, so that all contenders read them from the same memory.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../weights.h"

namespace bench {

// A matmul, ready to run.
struct Bound {
  std::function<void()> run;
  std::string kernel;  // what runs, where the library tells
};

// One library with one format. Its results are those of the quantized weights within `tolerance` of the largest.
class Contender {
 public:
  Contender(std::string name, const Format& format, float tolerance)
      : name_(std::move(name)), format_(format), tolerance_(tolerance) {}
  virtual ~Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  const std::string& name() const { return name_; }
  const Format& format() const { return format_; }
  float tolerance() const { return tolerance_; }

  virtual Buffer<std::byte> pack(Shape shape) const = 0;
  // Y[m,n] = X[m,k] W[n,k]^T, packed at a multiple of 64. Valid while the contender is.
  virtual Bound bind(Shape shape, int64_t m, const float* x, const std::byte* packed, float* y) const = 0;

 private:
  const std::string name_;
  const Format format_;
  const float tolerance_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

constexpr float kFloatTolerance = 1e-4f;    // of f32 arithmetic
constexpr float kDynamicTolerance = 0.03f;  // of activations rounded to 8 bits

struct Library {
  const char* name;
  // Sets the library to `threads` threads, and makes its contenders.
  Contenders (*start)(int threads);
  // Version, and the code that it chose; nullptr: the build is without the library.
  std::string (*conditions)();
};

// All that are known, in the order of the tables: also those that the build is without.
std::span<const Library> libraries();

#define BENCH_LIBRARY(name)             \
  Contenders start_##name(int threads); \
  std::string name##_conditions();
BENCH_LIBRARY(libqmm)
BENCH_LIBRARY(openblas)
BENCH_LIBRARY(eigen)
BENCH_LIBRARY(onednn)
BENCH_LIBRARY(xnnpack)
#undef BENCH_LIBRARY

// libqmm with another format.
std::unique_ptr<Contender> make_libqmm(const Format& format, int32_t lhs_kind);

}  // namespace bench
