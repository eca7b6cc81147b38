// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The entry points of compiled code: descriptors as MLIR lays them out, offsets and strides, and a handler for errors.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstddef>
#include <functional>

#include "weights.h"

namespace qmm::test {
namespace {

// ---- the descriptors -----------------------------------------------------------------------------------------------

// mlir/ExecutionEngine/CRunnerUtils.h, StridedMemRefType<T, N>.
template <class T, int N>
struct StridedMemRefType {
  T* basePtr;
  T* data;
  int64_t offset;
  int64_t sizes[N];
  int64_t strides[N];
};

template <class MemRef, class T, int N>
constexpr bool same_layout() {
  using Mlir = StridedMemRefType<T, N>;
  return sizeof(MemRef) == sizeof(Mlir) && alignof(MemRef) == alignof(Mlir) &&
         offsetof(MemRef, allocated) == offsetof(Mlir, basePtr) && offsetof(MemRef, aligned) == offsetof(Mlir, data) &&
         offsetof(MemRef, offset) == offsetof(Mlir, offset) && offsetof(MemRef, sizes) == offsetof(Mlir, sizes) &&
         offsetof(MemRef, strides) == offsetof(Mlir, strides) && sizeof(MemRef::sizes) == N * sizeof(int64_t) &&
         sizeof(MemRef::strides) == N * sizeof(int64_t) && std::is_same_v<decltype(MemRef::allocated), T*> &&
         std::is_same_v<decltype(MemRef::aligned), T*>;
}
static_assert(same_layout<qmm_memref_f32_2d, float, 2>());
static_assert(same_layout<qmm_memref_u16_2d, uint16_t, 2>());
static_assert(same_layout<qmm_memref_i8_1d, int8_t, 1>());
static_assert(same_layout<qmm_memref_i8_2d, int8_t, 2>());
static_assert(same_layout<qmm_memref_i64_1d, int64_t, 1>());
static_assert(sizeof(qmm_memref_f32_2d) == 56 && sizeof(qmm_memref_i8_1d) == 40);

// A view of `data` with `offset` elements before it. `allocated` is for whoever frees it: nobody else may read it.
template <class MemRef, class T>
MemRef view_1d(T* data, int64_t size, int64_t stride = 1, int64_t offset = 0) {
  return {nullptr, data, offset, {size}, {stride}};
}
template <class MemRef, class T>
MemRef view_2d(T* data, int64_t rows, int64_t columns, int64_t row_stride, int64_t col_stride = 1, int64_t offset = 0) {
  return {nullptr, data, offset, {rows, columns}, {row_stride, col_stride}};
}

// ---- a call of each entry point ------------------------------------------------------------------------------------

constexpr int64_t kM = 3, kN = 20, kK = 40, kG = 8, kGroups = 5;

struct Call {
  explicit Call(int bits = 4, int offset = QMM_SYMMETRIC, int scale_dtype = QMM_F32)
      : weights(make_desc(kN, kK, kG, bits, offset, scale_dtype)) {
    weights.randomize(1);
    blob = pack(weights);
    packed = view_1d<qmm_memref_i8_1d>(reinterpret_cast<int8_t*>(blob.data()), static_cast<int64_t>(blob.size()));
    codes = view_2d<qmm_memref_i8_2d>(reinterpret_cast<int8_t*>(weights.codes.data()), kN, weights.row_bytes,
                                      weights.row_bytes);
    auto* const offsets = weights.offsets.data();
    if (offset == QMM_ZEROS)
      zeros = view_2d<qmm_memref_i8_2d>(reinterpret_cast<int8_t*>(offsets), kN, kGroups, kGroups);
    sides_f32 = {view_2d<qmm_memref_f32_2d>(reinterpret_cast<float*>(weights.scales.data()), kN, kGroups, kGroups), {}};
    sides_u16 = {view_2d<qmm_memref_u16_2d>(reinterpret_cast<uint16_t*>(weights.scales.data()), kN, kGroups, kGroups),
                 {}};
    if (offset == QMM_MINS) {
      sides_f32.mins = view_2d<qmm_memref_f32_2d>(reinterpret_cast<float*>(offsets), kN, kGroups, kGroups);
      sides_u16.mins = view_2d<qmm_memref_u16_2d>(reinterpret_cast<uint16_t*>(offsets), kN, kGroups, kGroups);
    }
    x = view_2d<qmm_memref_f32_2d>(x_values.data(), kM, kK, kK);
    y = view_2d<qmm_memref_f32_2d>(y_values.data(), kM, kN, kN);
    ids = view_1d<qmm_memref_i64_1d>(id_values.data(), kM);
    rows = view_2d<qmm_memref_f32_2d>(row_values.data(), kM, kK, kK);
  }

  void matmul_packed() { _mlir_ciface_qmm_matmul_packed(&x, &packed, lhs_kind, &y); }
  void matmul_grouped() {
    const int64_t bits = changed_bits == 0 ? weights.desc.bits : changed_bits;
    if (weights.desc.scale_dtype == QMM_F32)
      _mlir_ciface_qmm_matmul_grouped_f32(&x, &codes, &sides_f32.scales, &zeros, &sides_f32.mins, bits, group, lhs_kind,
                                          &y);
    else
      (weights.desc.scale_dtype == QMM_F16 ? _mlir_ciface_qmm_matmul_grouped_f16
                                           : _mlir_ciface_qmm_matmul_grouped_bf16)(
          &x, &codes, &sides_u16.scales, &zeros, &sides_u16.mins, bits, group, lhs_kind, &y);
  }
  void rows_packed() { _mlir_ciface_qmm_rows_packed(&ids, &packed, &rows); }
  void matmul_packed_external() {
    _mlir_ciface_qmm_matmul_packed_external(&x, blob.data(), static_cast<int64_t>(blob.size()), lhs_kind, &y);
  }
  void rows_packed_external() {
    _mlir_ciface_qmm_rows_packed_external(&ids, blob.data(), static_cast<int64_t>(blob.size()), &rows);
  }

  // What qmm_matmul makes of the same.
  std::vector<float> expected() { return matmul(static_cast<int>(lhs_kind), kM, x_values, open(blob)); }

  bool untouched() const {
    for (const float value : y_values)
      if (value != -77.0f) return false;
    for (const float value : row_values)
      if (value != -77.0f) return false;
    return true;
  }

  Weights weights;
  std::vector<uint8_t> blob;
  std::vector<float> x_values = integers(kM, kK, 2), y_values = std::vector<float>(kM * kN, -77.0f),
                     row_values = std::vector<float>(kM * kK, -77.0f);
  std::vector<int64_t> id_values = {19, 0, 7};
  qmm_memref_f32_2d x, y, rows;
  qmm_memref_i8_1d packed;
  qmm_memref_i8_2d codes, zeros = {};
  template <class MemRef>
  struct Sides {
    MemRef scales, mins;
  };
  Sides<qmm_memref_f32_2d> sides_f32;
  Sides<qmm_memref_u16_2d> sides_u16;
  qmm_memref_i64_1d ids;
  int64_t lhs_kind = QMM_LHS_F32, group = kG, changed_bits = 0;
};

// ---- results -------------------------------------------------------------------------------------------------------

TEST(Memref, EqualsTheCFunctions) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
      Call call(bits, offset, scale_dtype);
      call.lhs_kind = lhs_kind;
      const std::vector<float> expected = call.expected();
      call.matmul_packed();
      EXPECT_EQ(call.y_values, expected);
      call.y_values.assign(kM * kN, -77.0f);
      call.matmul_grouped();
      EXPECT_EQ(call.y_values, expected);
      call.y_values.assign(kM * kN, -77.0f);
      call.matmul_packed_external();
      EXPECT_EQ(call.y_values, expected);
    }
    Call call(bits, offset, scale_dtype);
    call.rows_packed();
    const qmm_rhs rhs = open(call.blob);
    std::vector<float> expected(kM * kK);
    ASSERT_EQ(qmm_dequantize_rows(&rhs, call.id_values.data(), kM, expected.data(), kK), QMM_OK);
    EXPECT_EQ(call.row_values, expected);
    call.row_values.assign(kM * kK, -77.0f);
    call.rows_packed_external();
    EXPECT_EQ(call.row_values, expected);
  });
  EXPECT_EQ(qmm_sticky_status(), QMM_OK);
}

// Copies a matrix into a larger array, `offset` elements in, and views it there.
template <class MemRef, class T>
std::vector<T> spread(MemRef& memref, int64_t offset, int64_t row_stride, int64_t col_stride, T gap) {
  const int64_t rows = memref.sizes[0], columns = memref.sizes[1];
  std::vector<T> array(static_cast<size_t>(offset + (rows - 1) * row_stride + (columns - 1) * col_stride + 1), gap);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      array[static_cast<size_t>(offset + i * row_stride + j * col_stride)] =
          memref.aligned[i * memref.strides[0] + j * memref.strides[1]];
  memref = view_2d<MemRef>(array.data(), rows, columns, row_stride, col_stride, offset);
  return array;
}

// The elements of a view, row-major; what lies between them must be `gap`.
std::vector<float> gather(std::vector<float> array, const qmm_memref_f32_2d& memref, float gap) {
  std::vector<float> values;
  for (int64_t i = 0; i < memref.sizes[0]; ++i)
    for (int64_t j = 0; j < memref.sizes[1]; ++j) {
      float& element = array[static_cast<size_t>(memref.offset + i * memref.strides[0] + j * memref.strides[1])];
      values.push_back(element);
      element = gap;
    }
  for (const float element : array) EXPECT_EQ(element, gap);
  return values;
}

TEST(Memref, HonoursOffsetsAndStrides) {
  for (const bool transposed : {false, true}) {
    Call call(8, QMM_ZEROS);
    const std::vector<float> expected = call.expected();
    const auto x = transposed ? spread(call.x, 5, 1, kM + 2, NAN) : spread(call.x, 5, 2 * kK + 3, 2, NAN);
    const auto y = transposed ? spread(call.y, 9, 2, 2 * kM + 1, -77.0f) : spread(call.y, 9, 3 * kN, 3, -77.0f);
    const auto codes = spread(call.codes, 11, kK + 6, 1, int8_t(55));
    const auto scales = spread(call.sides_f32.scales, 2, kGroups + 1, 1, float(NAN));
    const auto zeros = spread(call.zeros, 1, kGroups + 4, 1, int8_t(99));
    call.matmul_grouped();
    EXPECT_EQ(gather(y, call.y, -77.0f), expected);

    std::vector<uint8_t> moved(call.blob.size() + 3, 0xa5);
    std::copy(call.blob.begin(), call.blob.end(), moved.begin() + 3);
    call.packed = view_1d<qmm_memref_i8_1d>(reinterpret_cast<int8_t*>(moved.data()),
                                            static_cast<int64_t>(call.blob.size()), 1, 3);
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < kN; ++j)
        call.y.aligned[call.y.offset + i * call.y.strides[0] + j * call.y.strides[1]] = -77.0f;
    call.matmul_packed();
    EXPECT_EQ(gather(y, call.y, -77.0f), expected);
  }
}

TEST(Memref, HonoursOffsetsAndStridesOfMinsAndRows) {
  for (const int scale_dtype : {QMM_F32, QMM_F16, QMM_BF16}) {
    Call call(4, QMM_MINS, scale_dtype);
    const std::vector<float> expected = call.expected();
    const auto scales = spread(call.sides_u16.scales, 2, kGroups + 1, 1, uint16_t(0x7fff));
    const auto mins = spread(call.sides_u16.mins, 4, kGroups + 3, 1, uint16_t(0x7fff));
    const auto scales32 =
        scale_dtype == QMM_F32 ? spread(call.sides_f32.scales, 2, kGroups + 1, 1, float(NAN)) : std::vector<float>();
    const auto mins32 =
        scale_dtype == QMM_F32 ? spread(call.sides_f32.mins, 4, kGroups + 3, 1, float(NAN)) : std::vector<float>();
    call.matmul_grouped();
    EXPECT_EQ(call.y_values, expected);
  }
  Call call, moved;
  call.rows_packed();
  const std::vector<int64_t> ids = {-1, -1, 19, 0, 7};
  moved.ids.aligned = const_cast<int64_t*>(ids.data());
  moved.ids.offset = 2;
  const auto rows = spread(moved.rows, 6, kK + 5, 1, -77.0f);
  moved.rows_packed();
  EXPECT_EQ(gather(rows, moved.rows, -77.0f), call.row_values);
}

// A dimension of extent 1 may have any stride: compilers do not keep it meaningful.
TEST(Memref, IgnoresStridesOfExtentOne) {
  Call call, expected;
  for (Call* c : {&call, &expected}) c->x.sizes[0] = c->y.sizes[0] = 1;
  expected.matmul_packed();
  call.x.strides[0] = call.y.strides[0] = 0;
  call.matmul_packed();
  EXPECT_EQ(call.y_values, expected.y_values);

  Weights one(make_desc(1, 1, 1, 8));
  one.set_code(0, 0, 3);
  one.set_scale(0, 0, 2);
  float x = 5, y = -77;
  const auto xm = view_2d<qmm_memref_f32_2d>(&x, 1, 1, 0, 0), ym = view_2d<qmm_memref_f32_2d>(&y, 1, 1, 0, 0),
             scales = view_2d<qmm_memref_f32_2d>(reinterpret_cast<float*>(one.scales.data()), 1, 1, 0, 0);
  const auto codes = view_2d<qmm_memref_i8_2d>(reinterpret_cast<int8_t*>(one.codes.data()), 1, 1, 0, 0);
  const qmm_memref_i8_2d zeros = {};
  const qmm_memref_f32_2d mins = {};
  _mlir_ciface_qmm_matmul_grouped_f32(&xm, &codes, &scales, &zeros, &mins, 8, 1, QMM_LHS_F32, &ym);
  EXPECT_EQ(y, 30);
}

TEST(Memref, RepeatsARowOfStrideZero) {
  Call call;
  call.x.strides[0] = 0;
  call.matmul_packed();
  for (int64_t i = 1; i < kM; ++i)
    for (int64_t j = 0; j < kN; ++j)
      EXPECT_EQ(call.y_values[static_cast<size_t>(i * kN + j)], call.y_values[static_cast<size_t>(j)]);
}

TEST(Memref, DoesNothingForNoRows) {
  Call call;
  call.x.sizes[0] = call.y.sizes[0] = call.ids.sizes[0] = call.rows.sizes[0] = 0;
  call.x.aligned = call.y.aligned = call.rows.aligned = nullptr;
  call.ids.aligned = nullptr;
  call.matmul_packed();
  call.matmul_grouped();
  call.rows_packed();
  EXPECT_TRUE(call.untouched());
  EXPECT_EQ(qmm_sticky_status(), QMM_OK);
}

// ---- errors --------------------------------------------------------------------------------------------------------

struct Seen {
  int count = 0;
  qmm_status status = QMM_OK;
  std::string sentence;
};

class Handler : public testing::Test {
 protected:
  void SetUp() override {
    qmm_sticky_status();
    qmm_set_error_handler(
        [](void* context, qmm_status status, const char* sentence) {
          auto& seen = *static_cast<Seen*>(context);
          ++seen.count;
          seen.status = status;
          seen.sentence = sentence;
        },
        &seen_);
  }
  void TearDown() override {
    qmm_set_error_handler(nullptr, nullptr);
    qmm_sticky_status();
  }

  // The call fails once, with this status and these words, leaves its outputs alone, and the status sticks.
  void expect_error(Call& call, void (Call::*run)(), qmm_status status, std::initializer_list<const char*> words) {
    seen_ = {};
    (call.*run)();
    EXPECT_EQ(seen_.count, 1);
    EXPECT_EQ(seen_.status, status) << qmm_status_name(seen_.status);
    for (const char* word : words)
      EXPECT_NE(seen_.sentence.find(word), std::string::npos) << "no '" << word << "' in '" << seen_.sentence << "'";
    EXPECT_EQ(seen_.sentence, qmm_last_error());
    EXPECT_TRUE(call.untouched());
    EXPECT_EQ(qmm_sticky_status(), status);
    EXPECT_EQ(qmm_sticky_status(), QMM_OK);
  }

  Seen seen_;
};

struct BadCall {
  const char* name;
  std::function<void(Call&)> damage;
  qmm_status status;
  std::initializer_list<const char*> words;
};

TEST_F(Handler, HearsOfEveryBadMatmul) {
  const BadCall bad_calls[] = {
      {"x columns", [](Call& c) { c.x.sizes[1] = 32; }, QMM_INVALID_ARGUMENT, {"32"}},
      {"y rows", [](Call& c) { c.y.sizes[0] = 2; }, QMM_INVALID_ARGUMENT, {"x is [3, 40]", "[20, 40]", "y [2, 20]"}},
      {"y columns", [](Call& c) { c.y.sizes[1] = 19; }, QMM_INVALID_ARGUMENT, {"y [3, 19]"}},
      {"x column stride 0",
       [](Call& c) { c.x.strides[1] = 0; },
       QMM_UNSUPPORTED,
       {"x [3, 40] has a column stride of 0"}},
      {"y column stride 0", [](Call& c) { c.y.strides[1] = 0; }, QMM_UNSUPPORTED, {"y [3, 20] has a column stride"}},
      {"x stride negative", [](Call& c) { c.x.strides[0] = -40; }, QMM_INVALID_ARGUMENT, {"row -40"}},
      {"y rows alias", [](Call& c) { c.y.strides[0] = 19; }, QMM_INVALID_ARGUMENT, {"row 19", "share memory"}},
      {"lhs_kind", [](Call& c) { c.lhs_kind = 3; }, QMM_INVALID_ARGUMENT, {"lhs_kind is 3"}},
      {"lhs_kind beyond int32",
       [](Call& c) { c.lhs_kind = int64_t(1) << 32; },
       QMM_INVALID_ARGUMENT,
       {"lhs_kind is -1"}},
      {"y is x", [](Call& c) { c.y.aligned = c.x.aligned; }, QMM_INVALID_ARGUMENT, {"overlap"}},
      {"no x", [](Call& c) { c.x.aligned = nullptr; }, QMM_INVALID_ARGUMENT, {"x is null"}},
  };
  for (const BadCall& bad : bad_calls)
    for (const auto run : {&Call::matmul_packed, &Call::matmul_grouped}) {
      SCOPED_TRACE(bad.name);
      Call call;
      bad.damage(call);
      expect_error(call, run, bad.status, bad.words);
    }
}

TEST_F(Handler, HearsOfBadPackedWeights) {
  const BadCall bad_calls[] = {
      {"cut off", [](Call& c) { --c.packed.sizes[0]; }, QMM_INVALID_PACKED, {"bytes; only"}},
      {"empty", [](Call& c) { c.packed.sizes[0] = 0; }, QMM_INVALID_PACKED, {"0 bytes"}},
      {"negative", [](Call& c) { c.packed.sizes[0] = -1; }, QMM_INVALID_ARGUMENT, {"-1 bytes"}},
      {"strided", [](Call& c) { c.packed.strides[0] = 2; }, QMM_UNSUPPORTED, {"stride of packed is 2"}},
      {"offset", [](Call& c) { c.packed.offset = 1, --c.packed.sizes[0]; }, QMM_INVALID_PACKED, {"mark"}},
      {"null", [](Call& c) { c.packed.aligned = nullptr; }, QMM_INVALID_ARGUMENT, {"packed is null"}},
  };
  for (const BadCall& bad : bad_calls)
    for (const auto run : {&Call::matmul_packed, &Call::rows_packed}) {
      SCOPED_TRACE(bad.name);
      Call call;
      bad.damage(call);
      expect_error(call, run, bad.status, bad.words);
    }
}

TEST_F(Handler, HearsOfBadCanonicalWeights) {
  const BadCall bad_calls[] = {
      {"bits", [](Call& c) { c.changed_bits = 5; }, QMM_INVALID_ARGUMENT, {"bits is 5"}},
      {"bits beyond int32",
       [](Call& c) { c.changed_bits = (int64_t(1) << 32) + 4; },
       QMM_INVALID_ARGUMENT,
       {"bits is -1"}},
      {"group", [](Call& c) { c.group = 12; }, QMM_INVALID_ARGUMENT, {"group is 12"}},
      {"group 0", [](Call& c) { c.group = 0; }, QMM_INVALID_ARGUMENT, {"group is 0"}},
      {"another group", [](Call& c) { c.group = 16; }, QMM_INVALID_ARGUMENT, {"scales are [20, 5]", "[20, 3]"}},
      {"codes rows", [](Call& c) { c.codes.sizes[0] = 19; }, QMM_INVALID_ARGUMENT, {"[20, 5]", "[19, 5]"}},
      {"codes columns",
       [](Call& c) { c.codes.sizes[1] = 40; },
       QMM_INVALID_ARGUMENT,
       {"codes are [20, 40]", "[20, 20]"}},
      {"codes strided", [](Call& c) { c.codes.strides[1] = 2; }, QMM_UNSUPPORTED, {"stride of codes is 2"}},
      {"codes row stride", [](Call& c) { c.codes.strides[0] = 19; }, QMM_INVALID_ARGUMENT, {"stride of codes is 19"}},
      {"scales empty", [](Call& c) { c.sides_f32.scales.sizes[1] = 0; }, QMM_INVALID_ARGUMENT, {"scales are [20, 0]"}},
      {"scales strided",
       [](Call& c) { c.sides_f32.scales.strides[1] = 3; },
       QMM_UNSUPPORTED,
       {"stride of scales is 3"}},
      {"zeros and mins",
       [](Call& c) { c.zeros.sizes[0] = c.sides_f32.mins.sizes[0] = 20; },
       QMM_INVALID_ARGUMENT,
       {"not both"}},
      {"zeros columns",
       [](Call& c) { c.zeros = view_2d<qmm_memref_i8_2d>(static_cast<int8_t*>(nullptr), 20, 4, 4); },
       QMM_INVALID_ARGUMENT,
       {"zeros are [20, 4]", "[20, 5]"}},
      {"zeros null",
       [](Call& c) { c.zeros = view_2d<qmm_memref_i8_2d>(static_cast<int8_t*>(nullptr), 20, 5, 5); },
       QMM_INVALID_ARGUMENT,
       {"zeros of shape [20, 5] are null"}},
      {"mins rows",
       [](Call& c) {
         c.sides_f32.mins = c.sides_f32.scales;
         c.sides_f32.mins.sizes[0] = 1;
       },
       QMM_INVALID_ARGUMENT,
       {"mins are [1, 5]"}},
  };
  for (const BadCall& bad : bad_calls) {
    SCOPED_TRACE(bad.name);
    Call call;
    bad.damage(call);
    expect_error(call, &Call::matmul_grouped, bad.status, bad.words);
  }
  Call call(4, QMM_ZEROS);
  call.weights.set_zero(2, 1, 17);
  expect_error(call, &Call::matmul_grouped, QMM_INVALID_ARGUMENT, {"[2, 1] is 17"});
}

TEST_F(Handler, HearsOfBadRows) {
  const BadCall bad_calls[] = {
      {"id", [](Call& c) { c.id_values[1] = 20; }, QMM_INVALID_ARGUMENT, {"ids[1] is 20"}},
      {"id negative", [](Call& c) { c.id_values[2] = -1; }, QMM_INVALID_ARGUMENT, {"ids[2] is -1"}},
      {"y rows", [](Call& c) { c.rows.sizes[0] = 2; }, QMM_INVALID_ARGUMENT, {"ids are [3]", "y [2, 40]"}},
      {"y columns", [](Call& c) { c.rows.sizes[1] = 39; }, QMM_INVALID_ARGUMENT, {"[20, 40]", "y [3, 39]"}},
      {"ids strided", [](Call& c) { c.ids.strides[0] = 2; }, QMM_UNSUPPORTED, {"stride of ids is 2"}},
      {"y strided", [](Call& c) { c.rows.strides[1] = 2; }, QMM_UNSUPPORTED, {"stride of y is 2"}},
      {"y row stride", [](Call& c) { c.rows.strides[0] = 39; }, QMM_INVALID_ARGUMENT, {"stride of y is 39"}},
  };
  for (const BadCall& bad : bad_calls) {
    SCOPED_TRACE(bad.name);
    Call call;
    bad.damage(call);
    expect_error(call, &Call::rows_packed, bad.status, bad.words);
  }
}

TEST_F(Handler, KeepsTheFirstStatus) {
  Call call;
  call.packed.sizes[0] = 0;
  call.matmul_packed();
  call.lhs_kind = 9;
  call.matmul_grouped();
  EXPECT_EQ(seen_.count, 2);
  EXPECT_EQ(seen_.status, QMM_INVALID_ARGUMENT);
  EXPECT_EQ(qmm_sticky_status(), QMM_INVALID_PACKED);
  EXPECT_EQ(qmm_sticky_status(), QMM_OK);
}

TEST_F(Handler, HearsNothingOfAGoodCall) {
  Call call;
  call.matmul_packed();
  call.matmul_grouped();
  call.rows_packed();
  EXPECT_EQ(seen_.count, 0);
  EXPECT_FALSE(call.untouched());
}

TEST(MemrefDeathTest, AbortsWithTheSentenceByDefault) {
  Call call;
  call.y.sizes[1] = 19;
  EXPECT_EXIT(call.matmul_packed(), testing::KilledBySignal(SIGABRT), "libqmm: qmm_matmul_packed: x is \\[3, 40\\]");
  EXPECT_EXIT(call.matmul_grouped(), testing::KilledBySignal(SIGABRT), "libqmm: qmm_matmul_grouped_f32: x is");
  call.id_values[0] = 99;
  EXPECT_EXIT(call.rows_packed(), testing::KilledBySignal(SIGABRT), "libqmm: qmm_dequantize_rows: ids\\[0\\] is 99");
  // A handler that was taken back is not called.
  qmm_set_error_handler([](void*, qmm_status, const char*) {}, nullptr);
  qmm_set_error_handler(nullptr, nullptr);
  EXPECT_EXIT(call.matmul_packed(), testing::KilledBySignal(SIGABRT), "libqmm: ");
}

}  // namespace
}  // namespace qmm::test
