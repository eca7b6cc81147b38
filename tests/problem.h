// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A random matmul in guarded memory, and how to run it.
#pragma once

#include <functional>
#include <ostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "guarded.h"
#include "oracle.h"
#include "runtime/layout.h"
#include "runtime/matmul.h"

namespace qmm::test {

struct Shape {
  int64_t m, n, k, group;
};

struct Format {
  int32_t bits, offset, scale_dtype;
};

// What the numbers are like.
enum class Values {
  Ordinary,   // near 1, as in a model
  Exact,      // small integers and powers of 2, so that nothing rounds
  Ties,       // x half way between the codes of an 8-bit lhs
  Extreme,    // every code, zero and x at an end of its range, so that sums are as large as they can be
  Wild,       // any finite bits
  Subnormal,  // x below 2^-126
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  int64_t integer(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[integer(0, static_cast<int64_t>(values.size()) - 1)];
  }

  // Bits of a finite number of a dtype: +-1.fraction * 2^exponent, exponent in [lo, hi]; below the range: subnormal.
  uint32_t real(int32_t dtype, int lo, int hi, bool power_of_2 = false) {
    const int exponent_bits = dtype == QMM_F16 ? 5 : 8, bits = dtype == QMM_F32 ? 32 : 16;
    const int fraction_bits = bits - 1 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int64_t exponent = std::clamp<int64_t>(integer(lo, hi) + bias, 0, 2 * bias);
    const int64_t fraction = power_of_2 ? 0 : integer(0, (int64_t(1) << fraction_bits) - 1);
    return static_cast<uint32_t>(integer(0, 1) << (bits - 1) | exponent << fraction_bits | fraction);
  }
  float real(int lo, int hi, bool power_of_2 = false) { return bit_copy<float>(real(QMM_F32, lo, hi, power_of_2)); }

  float x(Values values) {
    switch (values) {
      case Values::Ordinary: return real(-4, 1);
      case Values::Exact: return static_cast<float>(integer(-8, 8));
      case Values::Ties:  // 127 makes the step 1
        return integer(0, 3) == 0 ? one_of({127.0f, -127.0f}) : static_cast<float>(integer(-127, 126)) + 0.5f;
      case Values::Extreme: return one_of({1.0f, -1.0f});
      case Values::Wild: return real(-140, 127);
      case Values::Subnormal: return real(-127, -127);
    }
    return 0;
  }

  // A scale or min; zeros and subnormals among the wild ones.
  uint32_t scale(Values values, int32_t dtype) {
    switch (values) {
      case Values::Ordinary:
      case Values::Ties: return real(dtype, -8, -5);
      case Values::Exact: return real(dtype, -3, 0, true);
      case Values::Extreme: return real(dtype, 0, 0, true);
      case Values::Wild: return integer(0, 9) == 0 ? 0 : real(dtype, -140, 127);
      case Values::Subnormal: return real(dtype, -2, 2);
    }
    return 0;
  }

 private:
  std::mt19937_64 engine_;
};

// Canonical weights of random numbers, row strides longer than the rows.
class RandomWeights {
 public:
  RandomWeights(const Shape& shape, const Format& format, Values values, Random& random, Flush flush)
      : groups_(shape.k == 0 ? 0 : ceil_div(shape.k, shape.group)),
        codes_(rows(shape.n, ceil_div(shape.k * format.bits, 8), kCodesGap), flush),
        scales_(rows(shape.n, groups_, kScalesGap) * dtype_size(format.scale_dtype), flush),
        offsets_(format.offset == QMM_SYMMETRIC ? 0
                                                : rows(shape.n, groups_, kOffsetsGap) *
                                                      (format.offset == QMM_ZEROS ? 1 : dtype_size(format.scale_dtype)),
                 flush) {
    auto desc = sized<qmm_rhs_desc>();
    desc.n = shape.n;
    desc.k = shape.k;
    desc.group = shape.group;
    desc.bits = format.bits;
    desc.offset = format.offset;
    desc.scale_dtype = format.scale_dtype;
    auto arrays = sized<qmm_weights>();
    arrays.codes = codes_.data();
    arrays.codes_stride = ceil_div(shape.k * format.bits, 8) + kCodesGap;
    arrays.scales = scales_.data();
    arrays.scales_stride = groups_ + kScalesGap;
    arrays.offsets = format.offset == QMM_SYMMETRIC ? nullptr : offsets_.data();
    arrays.offsets_stride = groups_ + kOffsetsGap;
    canonical_ = {desc, arrays};

    for (auto* bytes : {&codes_, &scales_, &offsets_}) std::fill(bytes->begin(), bytes->end(), uint8_t(0xff));
    for (int64_t n = 0; n < shape.n; ++n) fill_row(n, values, random);
    for (auto* bytes : {&codes_, &scales_, &offsets_}) bytes->freeze();
  }

  const CanonicalWeights& canonical() const { return canonical_; }

 private:
  static constexpr int64_t kCodesGap = 3, kScalesGap = 1, kOffsetsGap = 2;  // in elements
  static int64_t rows(int64_t n, int64_t columns, int64_t gap) {
    return n == 0 || columns == 0 ? 0 : n * columns + (n - 1) * gap;
  }

  void fill_row(int64_t n, Values values, Random& random) {
    const qmm_rhs_desc& d = canonical_.desc;
    const qmm_weights& arrays = canonical_.arrays;
    const int lo = d.bits == 4 ? 0 : -128, hi = d.bits == 4 ? 15 : 127, zero_hi = d.bits == 4 ? 16 : 127;
    const auto code = [&] { return values == Values::Extreme ? n % 2 == 0 ? hi : lo : random.integer(lo, hi); };
    uint8_t* codes = codes_.data() + n * arrays.codes_stride;
    if (d.bits == 8)
      for (int64_t k = 0; k < d.k; ++k) codes[k] = static_cast<uint8_t>(code());
    else  // where k is odd, the last nibble belongs to nobody
      for (int64_t k = 0; k < d.k; k += 2)
        codes[k / 2] = static_cast<uint8_t>(code() | (k + 1 < d.k ? code() : 13) << 4);
    const auto put = [&](Guarded<uint8_t>& array, int64_t i, uint32_t bits, int64_t size) {
      std::memcpy(array.data() + i * size, &bits, static_cast<size_t>(size));
    };
    for (int64_t g = 0; g < groups_; ++g) {
      put(scales_, n * arrays.scales_stride + g, random.scale(values, d.scale_dtype), dtype_size(d.scale_dtype));
      const int64_t at = n * arrays.offsets_stride + g;
      if (d.offset == QMM_ZEROS)
        offsets_[at] = static_cast<uint8_t>(values == Values::Extreme ? n / 2 % 2 == 0 ? zero_hi : lo
                                                                      : random.integer(lo, zero_hi));
      if (d.offset == QMM_MINS) put(offsets_, at, random.scale(values, d.scale_dtype), dtype_size(d.scale_dtype));
    }
  }

  int64_t groups_;
  Guarded<uint8_t> codes_, scales_, offsets_;
  CanonicalWeights canonical_;
};

// Calls the library: Y goes to guarded memory between poisoned gaps, scratch is exactly as large as asked for, full of
// NaN. Returns Y [batch, m, n].
struct Call {
  const Kernel* kernel = nullptr;  // nullptr: the chooser's
  Flush flush = Flush::End;
  Gaps y_gaps = {};
  bool y_transposed = false;

  std::vector<float> operator()(qmm_matmul_args args) const {
    const int64_t n = args.rhs != nullptr ? args.rhs->desc.n : args.desc->n, batch = std::max<int64_t>(args.batch, 1);
    Strides strides = y_gaps.strides(args.m, n);
    if (y_transposed) {
      strides = y_gaps.strides(n, args.m);
      std::swap(strides.row, strides.col);
    }
    const Matrix y(batch, args.m, n, strides, flush);
    args.y = y.data();
    args.y_batch_stride = strides.batch;
    args.y_row_stride = strides.row;
    args.y_col_stride = strides.col;
    args.scratch = nullptr;
    size_t size = 0;
    EXPECT_EQ(scratch_size(&args, &size, kernel), QMM_OK) << qmm_last_error();
    // A byte follows that is not the library's, so that scratch flush with the end has an odd address.
    const Guarded<uint8_t> scratch(static_cast<int64_t>(size) + 1, flush);
    std::fill(scratch.begin(), scratch.end(), uint8_t(0xff));
    scratch[scratch.size() - 1] = 0x5a;
    args.scratch = scratch.data();
    args.scratch_size = size;
    EXPECT_EQ(matmul(&args, kernel), QMM_OK) << qmm_last_error();
    std::vector<float> values = y.get();
    EXPECT_TRUE(y.gaps_kept()) << "gaps of y were written";
    EXPECT_EQ(scratch[scratch.size() - 1], 0x5a) << "the byte after scratch was written";
    return values;
  }
};

struct Options {
  Values values = Values::Ordinary;
  bool bias = true;
  int64_t batch = 1;
  Gaps x_gaps = {};
  Gaps y_gaps = {};
  bool transposed = false;  // rows of X and Y are the inner dimension
  Flush flush = Flush::End;
};

// One matmul. Everything that the library reads is frozen.
class Problem {
 public:
  Problem(int32_t lhs_kind, const Format& format, const Shape& shape, const Options& options = {})
      : Problem(lhs_kind, format, shape, options, nullptr) {}
  // With x [batch, m, k] given.
  Problem(int32_t lhs_kind, const Format& format, const Shape& shape, const Options& options, std::vector<float> x)
      : Problem(lhs_kind, format, shape, options, &x) {}

  // Arguments for a Call, with the packed weights.
  qmm_matmul_args args() const {
    auto args = sized<qmm_matmul_args>();
    args.lhs_kind = lhs_kind_;
    args.m = shape_.m;
    args.batch = options_.batch;
    args.x = x_matrix_.data();
    args.x_batch_stride = x_matrix_.strides().batch;
    args.x_row_stride = x_matrix_.strides().row;
    args.x_col_stride = x_matrix_.strides().col;
    args.rhs = &rhs_;
    args.bias = options_.bias ? bias_.data() : nullptr;
    return args;
  }

  std::vector<float> run(const Kernel* kernel) const { return call(kernel)(args()); }
  Call call(const Kernel* kernel) const { return {kernel, options_.flush, options_.y_gaps, options_.transposed}; }

  const std::vector<float>& x() const { return x_; }
  const CanonicalWeights& weights() const { return weights_.canonical(); }

  std::vector<Number> oracle() const {
    std::vector<Number> y;
    for (int64_t i = 0; i < options_.batch * shape_.m; ++i) {
      const auto row = oracle_row(weights(), lhs_kind_, x_.data() + i * shape_.k, args().bias);
      y.insert(y.end(), row.begin(), row.end());
    }
    return y;
  }

  std::string describe() const {
    std::ostringstream s;
    s << "lhs kind " << lhs_kind_ << ", " << format_.bits << " bits, offset " << format_.offset << ", scales "
      << format_.scale_dtype << ", m " << shape_.m << ", n " << shape_.n << ", k " << shape_.k << ", group "
      << shape_.group << ", batch " << options_.batch << ", values " << static_cast<int>(options_.values);
    return s.str();
  }

 private:
  Problem(int32_t lhs_kind, const Format& format, const Shape& shape, const Options& options, std::vector<float>* x)
      : lhs_kind_(lhs_kind),
        format_(format),
        shape_(shape),
        options_(options),
        random_(static_cast<uint64_t>(shape.m * 31 + shape.n * 1009 + shape.k * 65537 + shape.group)),
        weights_(shape, format, options.values, random_, options.flush),
        bias_(options.bias ? shape.n : 0, options.flush),
        packed_(packed_size(weights_.canonical().desc), options.flush),
        x_matrix_(options.batch, shape.m, shape.k, x_strides(), options.flush) {
    for (float& b : bias_) b = options.values == Values::Subnormal ? 0 : random_.x(options.values);
    bias_.freeze();

    if (x != nullptr)
      x_ = *x;
    else
      for (int64_t i = 0; i < options.batch * shape.m; ++i) append_row(i);
    x_matrix_.set(x_);
    x_matrix_.freeze();

    const CanonicalWeights& w = weights_.canonical();
    EXPECT_EQ(qmm_pack(&w.desc, &w.arrays, packed_.data(), packed_.bytes()), QMM_OK) << qmm_last_error();
    packed_.freeze();
    rhs_ = sized<qmm_rhs>();
    EXPECT_EQ(qmm_rhs_open(packed_.data(), packed_.bytes(), &rhs_), QMM_OK) << qmm_last_error();
  }

  static int64_t packed_size(const qmm_rhs_desc& desc) {
    size_t size = 0;
    EXPECT_EQ(qmm_packed_size(&desc, &size), QMM_OK) << qmm_last_error();
    return static_cast<int64_t>(size);
  }

  Strides x_strides() const {
    if (!options_.transposed) return options_.x_gaps.strides(shape_.m, shape_.k);
    Strides strides = options_.x_gaps.strides(shape_.k, shape_.m);
    std::swap(strides.row, strides.col);
    return strides;
  }

  // Extreme rows are all of one sign, but for every third, whose signs are random.
  void append_row(int64_t i) {
    for (int64_t k = 0; k < shape_.k; ++k)
      x_.push_back(options_.values != Values::Extreme || i % 3 == 2 ? random_.x(options_.values)
                   : i % 3 == 0                                     ? 1.0f
                                                                    : -1.0f);
  }

  int32_t lhs_kind_;
  Format format_;
  Shape shape_;
  Options options_;
  Random random_;
  RandomWeights weights_;
  Guarded<float> bias_;
  Guarded<uint8_t> packed_;
  std::vector<float> x_;
  Matrix x_matrix_;
  qmm_rhs rhs_;
};

}  // namespace qmm::test
