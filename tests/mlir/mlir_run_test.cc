// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the passes leave, run: the bits of the C ABI, for the shapes and views that programs have.
#include <cstring>
#include <set>

#include "program.h"
#include "tests/weights.h"

namespace qmm::test {
namespace {

constexpr int64_t kN = 32, kK = 64, kG = 32;
constexpr const char* kLhs[] = {"f32", "s8", "s8_token"};  // QMM_LHS_*

template <class MemRef, class T>
MemRef dense_2d(T* data, int64_t rows, int64_t columns) {
  return {data, data, 0, {rows, columns}, {columns, 1}};
}
template <class T>
qmm_memref_i8_1d dense_bytes(std::vector<T>& bytes) {
  auto* const data = reinterpret_cast<int8_t*>(bytes.data());
  return {data, data, 0, {static_cast<int64_t>(bytes.size() * sizeof(T))}, {1}};
}

// A result of rank N, which is the caller's to free.
template <int N, class T = float>
struct Result {
  ~Result() { std::free(allocated); }
  std::vector<T> values() const {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    return {aligned + offset, aligned + offset + count};  // entries return dense memory
  }

  T *allocated = nullptr, *aligned = nullptr;
  int64_t offset = 0, sizes[N] = {}, strides[N] = {};
};

// Bits, not values: -0 is not 0, and a NaN is itself.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

struct Packed {
  explicit Packed(int bits = 4, int offset = QMM_ZEROS) : weights(make_desc(kN, kK, kG, bits, offset)) {
    weights.randomize(3);
    blob = pack(weights);
    rhs = open(blob);
  }
  Weights weights;
  std::vector<uint8_t> blob;
  qmm_rhs rhs;
};

// func @forward(x, packed) with one op, in torch's form.
std::string torch_text(const std::string& x, const std::string& packed, const std::string& y, const char* lhs) {
  const auto type = [](const std::string& shape_and_dtype) { return "!torch.vtensor<" + shape_and_dtype + ">"; };
  return "func.func @forward(%x: " + type(x) + ", %w: " + type(packed) + ") -> " + type(y) +
         " attributes {llvm.emit_c_interface} {\n"
         R"(  %n = "torch.constant.int"() <{value = 32 : i64}> : () -> !torch.int
  %lhs = "torch.constant.str"() <{value = ")" +
         std::string(lhs) + R"("}> : () -> !torch.str
  %y = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : ()" +
         type(x) + ", " + type(packed) + ", !torch.int, !torch.str) -> " + type(y) + "\n  return %y : " + type(y) +
         "\n}\n";
}

TEST(Run, StaticAndDynamicShapes) {
  for (const int bits : {4, 8})
    for (const int lhs : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
      Packed packed(bits);
      const std::string size = std::to_string(packed.blob.size());
      Program fixed(torch_text("[5,64],f32", "[" + size + "],ui8", "[5,32],f32", kLhs[lhs]));
      Program dynamic(torch_text("[?,64],f32", "[?],ui8", "[?,32],f32", kLhs[lhs]));
      Program unknown(torch_text("[?,?],f32", "[?],ui8", "[?,?],f32", kLhs[lhs]));
      for (const int64_t m : {5, 0, 1, 37}) {
        std::vector<float> x = integers(m, kK, static_cast<uint32_t>(m));
        auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), m, kK);
        qmm_memref_i8_1d w = dense_bytes(packed.blob);
        for (Program* program : {&fixed, &dynamic, &unknown}) {
          if (program == &fixed && m != 5) continue;
          SCOPED_TRACE(testing::Message() << bits << " bits, lhs " << kLhs[lhs] << ", m = " << m);
          calls.clear();
          Result<2> y;
          (*program)("forward", &y, &x_memref, &w);
          EXPECT_EQ(calls, std::vector<std::string>{"_mlir_ciface_qmm_matmul_packed"});
          EXPECT_EQ(y.sizes[0], m);
          EXPECT_EQ(y.sizes[1], kN);
          EXPECT_TRUE(same_bits(y.values(), matmul(lhs, m, x, packed.rhs)));
        }
      }
    }
}

TEST(Run, RanksOfX) {
  Packed packed;
  qmm_memref_i8_1d w = dense_bytes(packed.blob);
  std::vector<float> x = integers(6, kK, 1);

  Program rank_1(torch_text("[64],f32", "[?],ui8", "[32],f32", "s8"));
  struct {
    float *allocated, *aligned;
    int64_t offset, sizes[1], strides[1];
  } x1 = {x.data(), x.data(), 0, {kK}, {1}};
  Result<1> y1;
  rank_1("forward", &y1, &x1, &w);
  EXPECT_TRUE(same_bits(y1.values(), matmul(QMM_LHS_S8, 1, {x.begin(), x.begin() + kK}, packed.rhs)));

  for (const char* shape : {"[2,3,", "[?,3,", "[?,?,"}) {
    Program rank_3(torch_text(shape + std::string("64],f32"), "[?],ui8", shape + std::string("32],f32"), "s8"));
    struct {
      float *allocated, *aligned;
      int64_t offset, sizes[3], strides[3];
    } x3 = {x.data(), x.data(), 0, {2, 3, kK}, {3 * kK, kK, 1}};
    Result<3> y3;
    rank_3("forward", &y3, &x3, &w);
    EXPECT_EQ(std::vector<int64_t>(y3.sizes, y3.sizes + 3), (std::vector<int64_t>{2, 3, kN}));
    EXPECT_TRUE(same_bits(y3.values(), matmul(QMM_LHS_S8, 6, x, packed.rhs)));
  }
}

TEST(Run, HalfPrecisionIsWidenedAndRounded) {
  Packed packed;
  qmm_memref_i8_1d w = dense_bytes(packed.blob);
  std::vector<float> x = integers(3, kK, 4);
  std::vector<_Float16> half(x.begin(), x.end());
  Program program(torch_text("[?,64],f16", "[?],ui8", "[?,32],f16", "f32"));
  struct {
    _Float16 *allocated, *aligned;
    int64_t offset, sizes[2], strides[2];
  } x_memref = {half.data(), half.data(), 0, {3, kK}, {kK, 1}};
  Result<2, _Float16> y;
  program("forward", &y, &x_memref, &w);
  const std::vector<float> expected = matmul(QMM_LHS_F32, 3, x, packed.rhs);
  const std::vector<_Float16> rounded(expected.begin(), expected.end());
  ASSERT_EQ(y.values().size(), rounded.size());
  EXPECT_EQ(std::memcmp(y.values().data(), rounded.data(), rounded.size() * sizeof(_Float16)), 0);
}

constexpr const char* kMaps = R"(
#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>
)";

// x and packed weights are slices of larger tensors, with offsets and strides. Strides of x reach the entry point;
// packed weights that do not lie side by side are copied first.
TEST(Run, Views) {
  Packed packed;
  Program program(R"(
    func.func @forward(%x: tensor<?x160xf32>, %w: tensor<?xi8>, %spread: tensor<?x2xi8>)
        -> (tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>) attributes {llvm.emit_c_interface} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c100 = arith.constant 100 : index
      %all = tensor.dim %x, %c0 : tensor<?x160xf32>
      %m = arith.divui %all, %c2 : index
      %padded = tensor.dim %w, %c0 : tensor<?xi8>
      %size = arith.subi %padded, %c100 : index
      %w0 = tensor.extract_slice %w[100] [%size] [1] : tensor<?xi8> to tensor<?xi8>
      %w1 = tensor.extract_slice %spread[0, 1] [%size, 1] [1, 1] : tensor<?x2xi8> to tensor<?xi8>
      %x0 = tensor.extract_slice %x[1, 16] [%m, 64] [2, 1] : tensor<?x160xf32> to tensor<?x64xf32>
      %x1 = tensor.extract_slice %x[0, 3] [%m, 64] [1, 2] : tensor<?x160xf32> to tensor<?x64xf32>
      %0 = "stablehlo.custom_call"(%x0, %w0) {call_target_name = "qmm_matmul_packed", backend_config = {lhs = "s8"}}
        : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<?x32xf32>
      %1 = "stablehlo.custom_call"(%x1, %w0) {call_target_name = "qmm_matmul_packed", backend_config = {lhs = "s8"}}
        : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<?x32xf32>
      %2 = "stablehlo.custom_call"(%x0, %w1) {call_target_name = "qmm_matmul_packed", backend_config = {lhs = "s8"}}
        : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<?x32xf32>
      return %0, %1, %2 : tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>
    })");
  constexpr int64_t kM = 3;
  std::vector<float> x = integers(2 * kM, 160, 5), x0, x1;
  for (size_t i = 0; i < kM; ++i)
    for (size_t k = 0; k < kK; ++k) {
      x0.push_back(x[(2 * i + 1) * 160 + 16 + k]);
      x1.push_back(x[i * 160 + 3 + 2 * k]);
    }
  std::vector<uint8_t> padded(100), spread(2 * packed.blob.size());
  padded.insert(padded.end(), packed.blob.begin(), packed.blob.end());
  for (size_t i = 0; i < packed.blob.size(); ++i) spread[2 * i + 1] = packed.blob[i];
  auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), 2 * kM, 160);
  auto spread_memref =
      dense_2d<qmm_memref_i8_2d>(reinterpret_cast<int8_t*>(spread.data()), static_cast<int64_t>(packed.blob.size()), 2);
  qmm_memref_i8_1d w = dense_bytes(padded);
  struct {
    Result<2> first, second, third;
  } y;
  program("forward", &y, &x_memref, &w, &spread_memref);
  EXPECT_TRUE(same_bits(y.first.values(), matmul(QMM_LHS_S8, kM, x0, packed.rhs)));
  EXPECT_TRUE(same_bits(y.second.values(), matmul(QMM_LHS_S8, kM, x1, packed.rhs)));
  EXPECT_TRUE(same_bits(y.third.values(), matmul(QMM_LHS_S8, kM, x0, packed.rhs)));
}

// What a value is in memory is not always to be seen in what computes it: ids from columns, which a branch chooses, or
// which are computed in place.
TEST(Run, ViewsBehindOtherOperations) {
  Packed packed(8);
  Program program(R"(
    func.func @forward(%ids: tensor<?x2xi64>, %w: tensor<?xi8>, %first: i1)
        -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) attributes {llvm.emit_c_interface} {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %ids, %c0 : tensor<?x2xi64>
      %a = tensor.extract_slice %ids[0, 0] [%n, 1] [1, 1] : tensor<?x2xi64> to tensor<?xi64>
      %b = tensor.extract_slice %ids[0, 1] [%n, 1] [1, 1] : tensor<?x2xi64> to tensor<?xi64>
      %branch = scf.if %first -> tensor<?xi64> {
        scf.yield %a : tensor<?xi64>
      } else {
        scf.yield %b : tensor<?xi64>
      }
      %select = arith.select %first, %a, %b : tensor<?xi64>
      %all = tensor.empty(%n) : tensor<?x2xi64>
      %column = tensor.extract_slice %all[0, 1] [%n, 1] [1, 1] : tensor<?x2xi64> to tensor<?xi64>
      %sum = linalg.add ins(%a, %b : tensor<?xi64>, tensor<?xi64>) outs(%column : tensor<?xi64>) -> tensor<?xi64>
      %0 = "stablehlo.custom_call"(%branch, %w) {call_target_name = "qmm_rows_packed"}
        : (tensor<?xi64>, tensor<?xi8>) -> tensor<?x64xf32>
      %1 = "stablehlo.custom_call"(%select, %w) {call_target_name = "qmm_rows_packed"}
        : (tensor<?xi64>, tensor<?xi8>) -> tensor<?x64xf32>
      %2 = "stablehlo.custom_call"(%sum, %w) {call_target_name = "qmm_rows_packed"}
        : (tensor<?xi64>, tensor<?xi8>) -> tensor<?x64xf32>
      return %0, %1, %2 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
    })");
  std::vector<int64_t> ids = {3, 18, 0, 7, 5, 9};
  const std::vector<int64_t> columns[] = {{3, 0, 5}, {18, 7, 9}, {21, 7, 14}};
  struct {
    int64_t *allocated, *aligned, offset, sizes[2], strides[2];
  } ids_memref = {ids.data(), ids.data(), 0, {3, 2}, {2, 1}};
  qmm_memref_i8_1d w = dense_bytes(packed.blob);
  const auto rows = [&](const std::vector<int64_t>& of) {
    std::vector<float> expected(of.size() * kK);
    EXPECT_EQ(qmm_dequantize_rows(&packed.rhs, of.data(), static_cast<int64_t>(of.size()), expected.data(), kK), QMM_OK)
        << qmm_last_error();
    return expected;
  };
  for (const bool first : {true, false}) {
    struct {
      Result<2> branch, select, sum;
    } y;
    program("forward", &y, &ids_memref, &w, first);
    const std::vector<float> chosen = rows(columns[first ? 0 : 1]);
    EXPECT_TRUE(same_bits(y.branch.values(), chosen));
    EXPECT_TRUE(same_bits(y.select.values(), chosen));
    EXPECT_TRUE(same_bits(y.sum.values(), rows(columns[2])));
  }
}

// A chain that reads each result in the next call, in a loop: a buffer freed too early would be another's by then.
TEST(Run, ResultsLiveUntilTheyAreRead) {
  Weights square(make_desc(kK, kK, kG, 8));
  square.randomize(9);
  std::vector<uint8_t> blob = pack(square);
  const qmm_rhs rhs = open(blob);
  Program program(std::string(kMaps) + R"(
    func.func @forward(%x: tensor<?x64xf32>, %w: tensor<?xi8>) -> tensor<?x64xf32> attributes {llvm.emit_c_interface} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %m = tensor.dim %x, %c0 : tensor<?x64xf32>
      %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %x) -> tensor<?x64xf32> {
        %e = tensor.empty(%m) : tensor<?x64xf32>
        %0 = linalg.generic {indexing_maps = [#x, #w, #y], library_call = "quantized.matmul.packed{lhs = \"s8\"}",
            iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
          ins(%t, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%e : tensor<?x64xf32>) {
        ^bb0(%a: f32, %b: i8, %c: f32):
          linalg.yield %a : f32
        } -> tensor<?x64xf32>
        scf.yield %0 : tensor<?x64xf32>
      }
      return %y : tensor<?x64xf32>
    })");
  std::vector<float> x = integers(2, kK, 7);
  auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), 2, kK);
  qmm_memref_i8_1d w = dense_bytes(blob);
  Result<2> y;
  program("forward", &y, &x_memref, &w);
  for (int i = 0; i < 4; ++i) x = matmul(QMM_LHS_S8, 2, x, rhs);
  EXPECT_TRUE(same_bits(y.values(), x));
}

// A residual: the sum could be written to where x is, but x is the caller's.
TEST(Run, ArgumentsAreOnlyRead) {
  Weights square(make_desc(kK, kK, kG, 8));
  square.randomize(9);
  std::vector<uint8_t> blob = pack(square);
  const qmm_rhs rhs = open(blob);
  Program program(R"(
    func.func @forward(%x: tensor<?x64xf32>, %w: tensor<?xi8>) -> tensor<?x64xf32> attributes {llvm.emit_c_interface} {
      %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed"}
        : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<?x64xf32>
      %1 = arith.addf %x, %0 : tensor<?x64xf32>
      %2 = "stablehlo.custom_call"(%1, %w) {call_target_name = "qmm_matmul_packed"}
        : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<?x64xf32>
      return %2 : tensor<?x64xf32>
    })");
  std::vector<float> x = integers(3, kK, 12);
  const std::vector<float> given = x;
  std::vector<float> sum = matmul(QMM_LHS_F32, 3, x, rhs);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
  auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), 3, kK);
  qmm_memref_i8_1d w = dense_bytes(blob);
  Result<2> y;
  program("forward", &y, &x_memref, &w);
  EXPECT_TRUE(same_bits(y.values(), matmul(QMM_LHS_F32, 3, sum, rhs)));
  EXPECT_TRUE(same_bits(x, given));
}

// The caller frees each result.
TEST(Run, ResultsShareNoMemory) {
  Packed packed;
  Program program(R"(
    func.func @forward(%x: tensor<?x64xf32>, %w: tensor<?xi8>)
        -> (tensor<?x32xf32>, tensor<?xf32>, tensor<?x32xf32>, tensor<?x64xf32>, tensor<?x64xf32>)
        attributes {llvm.emit_c_interface} {
      %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed"}
        : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<?x32xf32>
      %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<?x32xf32> into tensor<?xf32>
      return %0, %1, %0, %x, %x
        : tensor<?x32xf32>, tensor<?xf32>, tensor<?x32xf32>, tensor<?x64xf32>, tensor<?x64xf32>
    })");
  std::vector<float> x = integers(3, kK, 13);
  auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), 3, kK);
  qmm_memref_i8_1d w = dense_bytes(packed.blob);
  struct {
    Result<2> y;
    Result<1> flat;
    Result<2> again, x, x_again;
  } results;
  program("forward", &results, &x_memref, &w);
  const std::vector<float> expected = matmul(QMM_LHS_F32, 3, x, packed.rhs);
  EXPECT_TRUE(same_bits(results.y.values(), expected));
  EXPECT_TRUE(same_bits(results.flat.values(), expected));
  EXPECT_TRUE(same_bits(results.again.values(), expected));
  EXPECT_TRUE(same_bits(results.x.values(), x));
  EXPECT_TRUE(same_bits(results.x_again.values(), x));
  const std::set<const float*> owned = {x.data(),
                                        results.y.allocated,
                                        results.flat.allocated,
                                        results.again.allocated,
                                        results.x.allocated,
                                        results.x_again.allocated};
  EXPECT_EQ(owned.size(), 6u);
}

TEST(Run, ResultsNobodyReads) {
  Packed packed;
  std::string text = torch_text("[?,64],f32", "[?],ui8", "[?,32],f32", "s8");
  const size_t at = text.find("  %y = "), end = text.find('\n', at);
  std::string unused = text.substr(at, end + 1 - at);
  unused.replace(3, 1, "z");
  text.insert(at, unused);
  Program program(text);
  std::vector<float> x = integers(2, kK, 6);
  auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), 2, kK);
  qmm_memref_i8_1d w = dense_bytes(packed.blob);
  calls.clear();
  Result<2> y;
  program("forward", &y, &x_memref, &w);
  EXPECT_EQ(calls.size(), 2u);
  EXPECT_TRUE(same_bits(y.values(), matmul(QMM_LHS_S8, 2, x, packed.rhs)));
}

TEST(Run, CanonicalWeights) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    Weights weights(make_desc(kN, kK, kG, bits, offset, scale_dtype));
    weights.randomize(2);
    const std::vector<uint8_t> blob = pack(weights);
    const std::string scale = scale_dtype == QMM_F32 ? "f32" : scale_dtype == QMM_F16 ? "f16" : "bf16";
    const std::string codes = "tensor<?x?xui8>", sides = "tensor<?x?x" + scale + ">";
    std::string zeros = offset == QMM_ZEROS ? "tensor<32x2xi8>" : "tensor<0x0xi8>";
    std::string mins = "tensor<" + std::string(offset == QMM_MINS ? "32x2x" : "0x0x") + scale + ">";
    Program program("func.func @forward(%x: tensor<?x64xf32>, %c: " + codes + ", %s: " + sides + ", %z: " + zeros +
                    ", %m: " + mins + R"() -> tensor<?x?xf32> attributes {llvm.emit_c_interface} {
      %0 = "stablehlo.custom_call"(%x, %c, %s, %z, %m) {call_target_name = "qmm_matmul_grouped",
        backend_config = {lhs = "s8", group = 32, bits = )" +
                    std::to_string(bits) + "}} : (tensor<?x64xf32>, " + codes + ", " + sides + ", " + zeros + ", " +
                    mins + ") -> tensor<?x?xf32>\n  return %0 : tensor<?x?xf32>\n}");
    std::vector<float> x = integers(3, kK, 8);
    auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), 3, kK);
    auto c = dense_2d<qmm_memref_i8_2d>(reinterpret_cast<int8_t*>(weights.codes.data()), kN, weights.row_bytes);
    auto s = dense_2d<qmm_memref_i8_2d>(reinterpret_cast<int8_t*>(weights.scales.data()), kN, weights.groups);
    qmm_memref_i8_2d absent = {};
    auto given = dense_2d<qmm_memref_i8_2d>(reinterpret_cast<int8_t*>(weights.offsets.data()), kN, weights.groups);
    Result<2> y;
    program("forward", &y, &x_memref, &c, &s, offset == QMM_ZEROS ? &given : &absent,
            offset == QMM_MINS ? &given : &absent);
    EXPECT_TRUE(same_bits(y.values(), matmul(QMM_LHS_S8, 3, x, open(blob))));
  });
}

TEST(Run, RowsOfWeights) {
  Packed packed(8);
  Program program(R"(
    func.func @forward(%ids: tensor<?xi64>, %w: tensor<?xi8> {qmm.external = true}) -> tensor<?x64xf32>
        attributes {llvm.emit_c_interface} {
      %0 = "stablehlo.custom_call"(%ids, %w) {call_target_name = "qmm_rows_packed"}
        : (tensor<?xi64>, tensor<?xi8>) -> tensor<?x64xf32>
      return %0 : tensor<?x64xf32>
    })");
  std::vector<int64_t> ids = {31, 0, 7, 7};
  qmm_memref_i64_1d ids_memref = {ids.data(), ids.data(), 0, {4}, {1}};
  Result<2> y;
  program("forward", &y, &ids_memref, packed.blob.data(), static_cast<int64_t>(packed.blob.size()));
  std::vector<float> expected(4 * kK);
  ASSERT_EQ(qmm_dequantize_rows(&packed.rhs, ids.data(), 4, expected.data(), kK), QMM_OK) << qmm_last_error();
  EXPECT_TRUE(same_bits(y.values(), expected));
}

// On memrefs, the call writes into the middle of the caller's array.
TEST(Run, MemrefsInPlace) {
  Packed packed;
  Program program(std::string(kMaps) + R"(
    func.func @forward(%x: memref<?x64xf32, strided<[?, 1], offset: ?>>, %w: memref<?xi8>, %all: memref<?x40xf32>)
        attributes {llvm.emit_c_interface} {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %m = memref.dim %x, %c0 : memref<?x64xf32, strided<[?, 1], offset: ?>>
      %y = memref.subview %all[1, 4] [%m, 32] [1, 1] : memref<?x40xf32> to memref<?x32xf32, strided<[40, 1], offset: 44>>
      linalg.fill ins(%zero : f32) outs(%y : memref<?x32xf32, strided<[40, 1], offset: 44>>)
      linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"],
          library_call = "quantized.matmul.packed{lhs = \"s8_token\"}"}
        ins(%x, %w : memref<?x64xf32, strided<[?, 1], offset: ?>>, memref<?xi8>)
        outs(%y : memref<?x32xf32, strided<[40, 1], offset: 44>>) {
      ^bb0(%a: f32, %b: i8, %c: f32):
        %t = arith.addf %a, %c : f32
        linalg.yield %t : f32
      }
      return
    })");
  constexpr int64_t kM = 4;
  std::vector<float> x = integers(kM, kK, 10), all((kM + 2) * 40, -77.0f), expected = all;
  const std::vector<float> product = matmul(QMM_LHS_S8_TOKEN, kM, x, packed.rhs);
  for (size_t i = 0; i < kM; ++i)
    std::copy_n(product.begin() + static_cast<std::ptrdiff_t>(i * kN), kN,
                expected.begin() + static_cast<std::ptrdiff_t>((i + 1) * 40 + 4));
  auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), kM, kK);
  auto y_memref = dense_2d<qmm_memref_f32_2d>(all.data(), kM + 2, 40);
  qmm_memref_i8_1d w = dense_bytes(packed.blob);
  program("forward", &x_memref, &w, &y_memref);
  EXPECT_TRUE(same_bits(all, expected));
}

// Packed weights that the program holds.
TEST(Run, ConstantWeights) {
  Packed packed;
  std::string bytes;
  for (const uint8_t byte : packed.blob) bytes += (bytes.empty() ? "" : ", ") + std::to_string(byte);
  const std::string size = std::to_string(packed.blob.size());
  Program program(
      "func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x32xf32> attributes {llvm.emit_c_interface} {\n"
      "  %w = \"stablehlo.constant\"() {value = dense<[" +
      bytes + "]> : tensor<" + size + "xui8>} : () -> tensor<" + size + "xui8>\n" +
      R"(  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "quantized.matmul.packed"}
          : (tensor<?x64xf32>, tensor<)" +
      size + R"(xui8>) -> tensor<?x32xf32>
      return %0 : tensor<?x32xf32>
    })");
  std::vector<float> x = integers(2, kK, 11);
  auto x_memref = dense_2d<qmm_memref_f32_2d>(x.data(), 2, kK);
  Result<2> y;
  program("forward", &y, &x_memref);
  EXPECT_TRUE(same_bits(y.values(), matmul(QMM_LHS_F32, 2, x, packed.rhs)));
}

// ---- other targets -------------------------------------------------------------------------------------------------

struct Vector {
  float *allocated, *aligned;
  int64_t offset, sizes[1], strides[1];
};

void log(const Vector* x, const char* text, int64_t size) {
  calls.push_back(std::string(text, static_cast<size_t>(size)) + " " + std::to_string(x->aligned[x->offset]));
}

void add_state(const Vector* x, void* state, int64_t size, const Vector* y) {
  float sum;
  ASSERT_EQ(size, 4);
  std::memcpy(&sum, state, sizeof sum);
  for (int64_t i = 0; i < x->sizes[0]; ++i)
    y->aligned[y->offset + i * y->strides[0]] = sum += x->aligned[x->offset + i * x->strides[0]];
  std::memcpy(state, &sum, sizeof sum);  // state is mutable, by the contract of this function
}

TEST(Run, CallsWithSideEffectsKeepTheirOrder) {
  Program program(R"(
    func.func @forward(%x: tensor<4xf32>, %state: tensor<4xi8> {qmm.external = true}) -> tensor<4xf32>
        attributes {llvm.emit_c_interface} {
      "stablehlo.custom_call"(%x) {call_target_name = "log", backend_config = "first", has_side_effect = true}
        : (tensor<4xf32>) -> ()
      %0 = "stablehlo.custom_call"(%x, %state) {call_target_name = "add_state", has_side_effect = true}
        : (tensor<4xf32>, tensor<4xi8>) -> tensor<4xf32>
      %1 = "stablehlo.custom_call"(%x, %state) {call_target_name = "add_state", has_side_effect = true}
        : (tensor<4xf32>, tensor<4xi8>) -> tensor<4xf32>
      "stablehlo.custom_call"(%1) {call_target_name = "log", backend_config = "then", has_side_effect = true}
        : (tensor<4xf32>) -> ()
      %2 = "stablehlo.custom_call"(%x, %state) {call_target_name = "add_state"}
        : (tensor<4xf32>, tensor<4xi8>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    })",
                  {{"_mlir_ciface_log", reinterpret_cast<void*>(&log)},
                   {"_mlir_ciface_add_state", reinterpret_cast<void*>(&add_state)}});
  float x[4] = {1, 2, 3, 4}, state = 100;
  Vector x_memref = {x, x, 0, {4}, {1}};
  Result<1> y;
  calls.clear();
  program("forward", &y, &x_memref, &state, int64_t{4});
  EXPECT_EQ(calls, (std::vector<std::string>{"first 1.000000", "then 111.000000"}));
  EXPECT_EQ(y.values(), (std::vector<float>{111, 113, 116, 120}));
  EXPECT_EQ(state, 120);  // the third call has no side effects, and nobody reads it
}

}  // namespace
}  // namespace qmm::test
