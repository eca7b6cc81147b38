// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory in which an access one byte too far is fatal: every buffer that the library reads or writes in a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace qmm::test {

// Which guard page the elements touch. The other side has a gap of less than a page, kept by canaries.
enum class Flush { Begin, End };

// `count` elements of T between two pages that may not be touched.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t count, Flush flush = Flush::End) : count_(static_cast<size_t>(count)) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inner_size_ = (bytes() + page - 1) / page * page;
    outer_size_ = inner_size_ + 2 * page;
    outer_ = static_cast<uint8_t*>(mmap(nullptr, outer_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (outer_ == MAP_FAILED) std::abort();
    inner_ = outer_ + page;
    protect(PROT_READ | PROT_WRITE);
    std::memset(inner_, kCanary, inner_size_);
    data_ = reinterpret_cast<T*>(flush == Flush::Begin ? inner_ : inner_ + inner_size_ - bytes());
  }
  ~Guarded() {
    const auto* begin = reinterpret_cast<const uint8_t*>(data_);
    const auto kept = [](uint8_t byte) { return byte == kCanary; };
    EXPECT_TRUE(std::all_of(static_cast<const uint8_t*>(inner_), begin, kept)) << "bytes before a buffer were written";
    EXPECT_TRUE(std::all_of(begin + bytes(), static_cast<const uint8_t*>(inner_) + inner_size_, kept))
        << "bytes after a buffer were written";
    munmap(outer_, outer_size_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // From now on a write is fatal, too.
  void freeze() { protect(PROT_READ); }

  T* data() const { return data_; }
  int64_t size() const { return static_cast<int64_t>(count_); }
  size_t bytes() const { return count_ * sizeof(T); }
  T& operator[](int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }

 private:
  static constexpr uint8_t kCanary = 0xa5;

  void protect(int how) {
    if (inner_size_ > 0 && mprotect(inner_, inner_size_, how) != 0) std::abort();
  }

  size_t count_, inner_size_, outer_size_;
  uint8_t *outer_, *inner_;
  T* data_;
};

struct Strides {
  int64_t batch, row, col;
};

// Strides of [batch, rows, columns] with so many elements unused after each column, row and batch.
struct Gaps {
  int64_t col = 0, row = 0, batch = 0;
  Strides strides(int64_t rows, int64_t columns) const {
    const int64_t row_stride = columns * (col + 1) + row;
    return {rows * row_stride + batch, row_stride, col + 1};
  }
};

// Floats [batch, rows, columns], guarded; what lies between them is poison, a signalling NaN of a known pattern.
class Matrix {
 public:
  Matrix(int64_t batch, int64_t rows, int64_t columns, Strides strides, Flush flush)
      : batch_(batch),
        rows_(rows),
        columns_(columns),
        strides_(strides),
        memory_(batch == 0 || rows == 0 || columns == 0
                    ? 0
                    : (batch - 1) * strides.batch + (rows - 1) * strides.row + (columns - 1) * strides.col + 1,
                flush) {
    std::fill(memory_.begin(), memory_.end(), kPoison);
  }

  float* data() const { return reinterpret_cast<float*>(memory_.data()); }
  const Strides& strides() const { return strides_; }
  void freeze() { memory_.freeze(); }

  // The elements without gaps, row-major.
  std::vector<float> get() const {
    std::vector<float> values;
    for_each([&](uint32_t& bits) { std::memcpy(&values.emplace_back(), &bits, 4); });
    return values;
  }
  void set(const std::vector<float>& values) const {
    auto from = values.begin();
    for_each([&](uint32_t& bits) { std::memcpy(&bits, &*from++, 4); });
  }

  // Whether the gaps are as they were at first; poisons the elements.
  bool gaps_kept() const {
    for_each([](uint32_t& bits) { bits = kPoison; });
    return std::all_of(memory_.begin(), memory_.end(), [](uint32_t bits) { return bits == kPoison; });
  }

 private:
  static constexpr uint32_t kPoison = 0x7fa5a5a5;

  template <class Use>
  void for_each(Use use) const {
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j) use(memory_[b * strides_.batch + i * strides_.row + j * strides_.col]);
  }

  int64_t batch_, rows_, columns_;
  Strides strides_;
  Guarded<uint32_t> memory_;
};

}  // namespace qmm::test
