// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The custom calls of XLA, called as its CPU client does: call frames and descriptors, and how a failure gets back.
#include "qmm/xla.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "weights.h"
#include "xla_frame.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

// The linker sends all calls in this program here (--wrap).
static bool no_memory = false;
extern "C" void* __real_aligned_alloc(size_t alignment, size_t size);
extern "C" void* __wrap_aligned_alloc(size_t alignment, size_t size);
extern "C" void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return no_memory ? nullptr : __real_aligned_alloc(alignment, size);
}

namespace qmm::test {
namespace {

constexpr int64_t kM = 6, kN = 20, kK = 40, kG = 8, kGroups = 5;
const float kUntouched = -77.0f;

// ---- untyped calls -------------------------------------------------------------------------------------------------

using Untyped = void(void*, const void**, const char*, size_t, XlaCustomCallStatus_*);

// While one lives, untyped calls have a status.
struct StatusSetter {
  StatusSetter() { qmm_xla_set_status_setter(set_failure); }
  ~StatusSetter() { qmm_xla_set_status_setter(nullptr); }
};

std::optional<std::string> call_untyped(Untyped* handler, void* out, std::vector<const void*> in, const void* opaque,
                                        size_t size) {
  const StatusSetter setter;
  XlaCustomCallStatus_ status;
  handler(out, in.data(), static_cast<const char*>(opaque), size, &status);
  return status.message;
}

// ---- the same call of every kind -----------------------------------------------------------------------------------

struct Problem {
  explicit Problem(int bits = 4, int offset = QMM_SYMMETRIC, int scale_dtype = QMM_F32, int kind = QMM_LHS_F32)
      : weights(make_desc(kN, kK, kG, bits, offset, scale_dtype)), lhs_kind(kind) {
    weights.randomize(1);
    blob = pack(weights);
  }

  Tensor x_tensor() const { return {Dtype::F32, x.data(), {2, 3, kK}}; }
  Tensor packed_tensor() const { return {Dtype::U8, blob.data(), {static_cast<int64_t>(blob.size())}}; }
  Attribute lhs() const {
    return {"lhs", lhs_kind == QMM_LHS_F32 ? "f32" : lhs_kind == QMM_LHS_S8 ? "s8" : "s8_token"};
  }

  Frame matmul_packed() {
    return {.operands = {x_tensor(), packed_tensor()},
            .results = {{Dtype::F32, y.data(), {2, 3, kN}}},
            .attributes = {lhs()}};
  }
  Frame matmul_grouped() {
    const qmm_rhs_desc& d = weights.desc;
    const Dtype scale = d.scale_dtype == QMM_F32 ? Dtype::F32 : d.scale_dtype == QMM_F16 ? Dtype::F16 : Dtype::BF16;
    const int64_t zeros = d.offset == QMM_ZEROS ? kN : 0, mins = d.offset == QMM_MINS ? kN : 0;
    return {.operands = {x_tensor(),
                         {Dtype::U8, weights.codes.data(), {kN, weights.row_bytes}},
                         {scale, weights.scales.data(), {kN, kGroups}},
                         {Dtype::S8, weights.offsets.data(), {zeros, zeros == 0 ? 0 : kGroups}},
                         {scale, weights.offsets.data(), {mins, mins == 0 ? 0 : kGroups}}},
            .results = {{Dtype::F32, y.data(), {2, 3, kN}}},
            .attributes = {{"bits", d.bits}, {"group", kG, Dtype::S32}, lhs()}};
  }
  Frame rows_packed() {
    return {.operands = {{Dtype::S64, ids.data(), {3, 2}}, packed_tensor()},
            .results = {{Dtype::F32, rows.data(), {3, 2, kK}}},
            .attributes = {}};
  }

  qmm_xla_descriptor packed_descriptor() const {
    return {.version = QMM_XLA_DESCRIPTOR_VERSION,
            .size = sizeof(qmm_xla_descriptor),
            .lhs_kind = lhs_kind,
            .bits = 0,
            .offset = 0,
            .scale_dtype = 0,
            .m = kM,
            .n = kN,
            .k = kK,
            .group = 0,
            .packed_size = static_cast<int64_t>(blob.size())};
  }
  qmm_xla_descriptor grouped_descriptor() const {
    qmm_xla_descriptor d = packed_descriptor();
    d.bits = weights.desc.bits;
    d.offset = weights.desc.offset;
    d.scale_dtype = weights.desc.scale_dtype;
    d.group = kG;
    d.packed_size = 0;
    return d;
  }
  qmm_xla_descriptor rows_descriptor() const {
    qmm_xla_descriptor d = packed_descriptor();
    d.lhs_kind = 0;
    d.n = 0;
    return d;
  }
  std::optional<std::string> matmul_packed(const qmm_xla_descriptor& d) {
    return call_untyped(qmm_xla_opaque_matmul_packed, y.data(), {x.data(), blob.data()}, &d, sizeof d);
  }
  std::optional<std::string> matmul_grouped(const qmm_xla_descriptor& d) {
    return call_untyped(
        qmm_xla_opaque_matmul_grouped, y.data(),
        {x.data(), weights.codes.data(), weights.scales.data(), weights.offsets.data(), weights.offsets.data()}, &d,
        sizeof d);
  }
  std::optional<std::string> rows_packed(const qmm_xla_descriptor& d) {
    return call_untyped(qmm_xla_opaque_rows_packed, rows.data(), {ids.data(), blob.data()}, &d, sizeof d);
  }

  std::vector<float> expected() { return matmul(lhs_kind, kM, x, open(blob)); }
  std::vector<float> expected_rows() {
    const qmm_rhs rhs = open(blob);
    std::vector<float> want(rows.size());
    EXPECT_EQ(qmm_dequantize_rows(&rhs, ids.data(), kM, want.data(), kK), QMM_OK);
    return want;
  }
  bool untouched() const {
    for (const auto* values : {&y, &rows})
      for (const float value : *values)
        if (value != kUntouched) return false;
    return true;
  }

  Weights weights;
  std::vector<uint8_t> blob;
  std::vector<float> x = integers(kM, kK, 2), y = std::vector<float>(kM * kN, kUntouched),
                     rows = std::vector<float>(kM * kK, kUntouched);
  std::vector<int64_t> ids = {19, 0, 7, 7, 1, 18};
  int32_t lhs_kind;
};

testing::AssertionResult fine(const std::optional<XLA_FFI_Error>& error) {
  return error ? testing::AssertionFailure() << error->message : testing::AssertionSuccess();
}
testing::AssertionResult fine(const std::optional<std::string>& message) {
  return message ? testing::AssertionFailure() << *message : testing::AssertionSuccess();
}

TEST(Xla, EqualsTheCFunctions) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
      Problem p(bits, offset, scale_dtype, lhs_kind);
      const std::vector<float> expected = p.expected();
      const auto check = [&](auto failure) {
        EXPECT_TRUE(fine(failure));
        EXPECT_EQ(p.y, expected);
        p.y.assign(p.y.size(), kUntouched);
      };
      check(p.matmul_packed().call(qmm_xla_ffi_matmul_packed));
      check(p.matmul_grouped().call(qmm_xla_ffi_matmul_grouped));
      check(p.matmul_packed(p.packed_descriptor()));
      check(p.matmul_grouped(p.grouped_descriptor()));
    }
    Problem p(bits, offset, scale_dtype);
    const std::vector<float> expected = p.expected_rows();
    EXPECT_TRUE(fine(p.rows_packed().call(qmm_xla_ffi_rows_packed)));
    EXPECT_EQ(p.rows, expected);
    p.rows.assign(p.rows.size(), kUntouched);
    EXPECT_TRUE(fine(p.rows_packed(p.rows_descriptor())));
    EXPECT_EQ(p.rows, expected);
  });
  EXPECT_EQ(qmm_sticky_status(), QMM_OK);
}

TEST(Xla, TakesOtherDtypesAndRanks) {
  Problem four(4, QMM_ZEROS), eight(8, QMM_ZEROS);
  Frame frame = four.matmul_grouped();
  frame.operands[3].dtype = Dtype::U8;
  EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_matmul_grouped)));
  EXPECT_EQ(four.y, four.expected());
  frame = eight.matmul_grouped();
  frame.operands[1].dtype = Dtype::S8;
  EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_matmul_grouped)));
  EXPECT_EQ(eight.y, eight.expected());

  Problem p;
  const std::vector<float> expected = p.expected(), expected_rows = p.expected_rows();
  frame = p.matmul_packed();
  frame.operands[0].extents = {kK};
  frame.results[0].extents = {kN};
  frame.attributes.clear();
  EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_matmul_packed)));
  EXPECT_TRUE(std::equal(p.y.begin(), p.y.begin() + kN, expected.begin()));
  EXPECT_EQ(p.y[kN], kUntouched);

  frame = p.rows_packed();
  frame.operands[0].extents = {};
  frame.results[0].extents = {kK};
  EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_rows_packed)));
  EXPECT_TRUE(std::equal(p.rows.begin(), p.rows.begin() + kK, expected_rows.begin()));
  EXPECT_EQ(p.rows[kK], kUntouched);
}

TEST(Xla, DoesNothingForNoRows) {
  Problem p;
  Frame frame = p.matmul_packed();
  frame.operands[0] = {Dtype::F32, nullptr, {2, 0, kK}};
  frame.results[0] = {Dtype::F32, nullptr, {2, 0, kN}};
  EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_matmul_packed)));
  frame = p.rows_packed();
  frame.operands[0] = {Dtype::S64, nullptr, {0}};
  frame.results[0] = {Dtype::F32, nullptr, {0, kK}};
  EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_rows_packed)));
  qmm_xla_descriptor d = p.packed_descriptor();
  d.m = 0;
  EXPECT_TRUE(fine(call_untyped(qmm_xla_opaque_matmul_packed, nullptr, {nullptr, p.blob.data()}, &d, sizeof d)));
}

#if defined(__x86_64__)
TEST(Xla, KeepsDenormalsAndRestoresTheEnvironment) {
  // Calls with denormals flushed.
  const auto flushed = [](auto call) {
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040);
    const auto failure = call();
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    EXPECT_TRUE(fine(failure));
    EXPECT_EQ(after & 0x8040, 0x8040u);
  };
  const auto counts = [](const std::vector<float>& expected) {
    return std::any_of(expected.begin(), expected.end(), [](float value) { return value != 0; });
  };
  for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8}) {
    Problem p(8, QMM_SYMMETRIC, QMM_F32, lhs_kind);
    // x is denormal, or, as 127 / amax has to be finite, the scale that amax / 127 is.
    for (float& value : p.x) value *= lhs_kind == QMM_LHS_F32 ? 1e-42f : 4e-37f / 127;
    const std::vector<float> expected = p.expected();
    EXPECT_TRUE(counts(expected));
    const auto check = [&](auto call) {
      p.y.assign(p.y.size(), kUntouched);
      flushed(call);
      EXPECT_EQ(p.y, expected);
    };
    check([&] { return p.matmul_packed().call(qmm_xla_ffi_matmul_packed); });
    check([&] { return p.matmul_grouped(p.grouped_descriptor()); });
  }
  Problem p(8);
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t g = 0; g < kGroups; ++g) p.weights.set_scale(n, g, 1e-42f);
  p.blob = pack(p.weights);
  const std::vector<float> expected = p.expected_rows();
  EXPECT_TRUE(counts(expected));
  flushed([&] { return p.rows_packed().call(qmm_xla_ffi_rows_packed); });
  EXPECT_EQ(p.rows, expected);
  p.rows.assign(p.rows.size(), kUntouched);
  flushed([&] { return p.rows_packed(p.rows_descriptor()); });
  EXPECT_EQ(p.rows, expected);
}
#endif

// ---- refusals ------------------------------------------------------------------------------------------------------

testing::AssertionResult holds(const std::string& sentence, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (sentence.find(word) == std::string::npos)
      return testing::AssertionFailure() << "no '" << word << "' in '" << sentence << "'";
  return testing::AssertionSuccess();
}

struct BadFrame {
  const char* name;
  std::function<void(Frame&)> damage;
  ErrorCode code;
  std::initializer_list<const char*> words;
};

void expect_refused(Typed* handler, Frame (Problem::*make)(), std::initializer_list<BadFrame> bad_frames) {
  for (const BadFrame& bad : bad_frames) {
    SCOPED_TRACE(bad.name);
    Problem p;
    Frame frame = (p.*make)();
    bad.damage(frame);
    const auto error = frame.call(handler);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, bad.code);
    EXPECT_TRUE(holds(error->message, bad.words));
    EXPECT_TRUE(p.untouched());
  }
}

constexpr ErrorCode kInvalid = ErrorCode::InvalidArgument;

TEST(XlaTyped, RefusesWhatDoesNotFit) {
  expect_refused(
      qmm_xla_ffi_matmul_packed, &Problem::matmul_packed,
      {
          {"operands", [](Frame& f) { f.operands.pop_back(); }, kInvalid, {"qmm_matmul_packed: 1 operands", "has 2"}},
          {"results", [](Frame& f) { f.results.clear(); }, kInvalid, {"0 results"}},
          {"no tensor", [](Frame& f) { f.value_type = 2; }, kInvalid, {"x is no tensor"}},
          {"x dtype",
           [](Frame& f) { f.operands[0].dtype = Dtype::F16; },
           kInvalid,
           {"x is f16 [2, 3, 40]; it must be f32"}},
          {"x dtype unknown",
           [](Frame& f) { f.operands[0].dtype = static_cast<Dtype>(99); },
           kInvalid,
           {"x is dtype 99 [2, 3, 40]"}},
          {"x rank", [](Frame& f) { f.operands[0].extents = {}; }, kInvalid, {"x is f32 []", "at least rank 1"}},
          {"x columns", [](Frame& f) { f.operands[0].extents[2] = 39; }, kInvalid, {"x is [6, 39]", "[20, 40]"}},
          {"x of many ranks",
           [](Frame& f) { f.operands[0].extents = std::vector<int64_t>(100, 1000000); },
           kInvalid,
           {"x is f32 [1000000, 1000000"}},
          {"x extents whose product is 2^64",
           [](Frame& f) {
             f.operands[0].extents = {int64_t(1) << 32, int64_t(1) << 32, kK};
             f.results[0].extents = {int64_t(1) << 32, int64_t(1) << 32, kN};
           },
           kInvalid,
           {"x is f32 [4294967296, 4294967296, 40]", "product below 2^63"}},
          {"x extents whose product with the last is 2^64",
           [](Frame& f) { f.operands[0].extents = {1, int64_t(1) << 60, 16}; },
           kInvalid,
           {"x is f32 [1, 1152921504606846976, 16]", "product below 2^63"}},
          {"x extents negative",
           [](Frame& f) { f.operands[0].extents = {-1, -1, kK}, f.results[0].extents = {-1, -1, kN}; },
           kInvalid,
           {"x is f32 [-1, -1, 40]", "must be 0 or more"}},
          {"packed extent negative",
           [](Frame& f) { f.operands[1].extents = {-1}; },
           kInvalid,
           {"packed is u8 [-1]", "must be 0 or more"}},
          {"y extent negative",
           [](Frame& f) { f.results[0].extents[2] = -20; },
           kInvalid,
           {"y is f32 [2, 3, -20]", "must be 0 or more"}},
          {"packed dtype",
           [](Frame& f) { f.operands[1].dtype = Dtype::S8; },
           kInvalid,
           {"packed is s8 [", "it must be u8"}},
          {"packed rank",
           [](Frame& f) { f.operands[1].extents.insert(f.operands[1].extents.begin(), 1); },
           kInvalid,
           {"packed is u8 [1, ", "must have rank 1"}},
          {"packed cut off", [](Frame& f) { --f.operands[1].extents[0]; }, kInvalid, {"bytes; only"}},
          {"packed empty", [](Frame& f) { f.operands[1].extents[0] = 0; }, kInvalid, {"0 bytes"}},
          {"y dtype", [](Frame& f) { f.results[0].dtype = Dtype::BF16; }, kInvalid, {"y is bf16 [2, 3, 20]"}},
          {"y rank", [](Frame& f) { f.results[0].extents = {6, kN}; }, kInvalid, {"y f32 [6, 20]", "x but the last"}},
          {"y rows",
           [](Frame& f) { f.results[0].extents = {3, 2, kN}; },
           kInvalid,
           {"y f32 [3, 2, 20]", "x but the last"}},
          {"y columns", [](Frame& f) { f.results[0].extents[2] = 21; }, kInvalid, {"y [6, 21]"}},
          {"lhs", [](Frame& f) { f.attributes = {{"lhs", "s9"}}; }, kInvalid, {"lhs is 's9'", "'s8_token'"}},
          {"lhs a number", [](Frame& f) { f.attributes = {{"lhs", 1}}; }, kInvalid, {"'lhs' is no string"}},
          {"attribute", [](Frame& f) { f.attributes.push_back({"bits", 4}); }, kInvalid, {"no attribute 'bits'"}},
          {"stage",
           [](Frame& f) { f.stage = static_cast<Stage>(1); },
           ErrorCode::Unimplemented,
           {"stage 1", "execute"}},
      });
  expect_refused(
      qmm_xla_ffi_matmul_grouped, &Problem::matmul_grouped,
      {
          {"operands", [](Frame& f) { f.operands.pop_back(); }, kInvalid, {"4 operands", "has 5"}},
          {"codes dtype", [](Frame& f) { f.operands[1].dtype = Dtype::S32; }, kInvalid, {"codes is s32 [20, 20]"}},
          {"codes dtype of 8 bits",
           [](Frame& f) { f.operands[1].dtype = Dtype::S8; },
           kInvalid,
           {"codes is s8 [20, 20]; it must be u8"}},
          {"codes rank", [](Frame& f) { f.operands[1].extents = {400}; }, kInvalid, {"codes is u8 [400]", "rank 2"}},
          {"codes columns", [](Frame& f) { f.operands[1].extents[1] = 40; }, kInvalid, {"codes are [20, 40]"}},
          {"scales dtype",
           [](Frame& f) { f.operands[2].dtype = Dtype::S8; },
           kInvalid,
           {"scales is s8 [20, 5]; it must be f32 or f16 or bf16"}},
          {"scales columns", [](Frame& f) { f.operands[2].extents[1] = 4; }, kInvalid, {"scales are [20, 4]"}},
          {"zeros dtype", [](Frame& f) { f.operands[3].dtype = Dtype::F32; }, kInvalid, {"zeros is f32 [0, 0]"}},
          {"mins dtype", [](Frame& f) { f.operands[4].dtype = Dtype::F16; }, kInvalid, {"mins is f16", "be f32"}},
          {"zeros and mins",
           [](Frame& f) { f.operands[3].extents = f.operands[4].extents = {kN, kGroups}; },
           kInvalid,
           {"not both"}},
          {"bits", [](Frame& f) { f.attributes[0].s64 = 5; }, kInvalid, {"bits is 5"}},
          {"bits missing", [](Frame& f) { f.attributes.erase(f.attributes.begin()); }, kInvalid, {"'bits' is missing"}},
          {"group missing", [](Frame& f) { f.attributes.erase(f.attributes.begin() + 1); }, kInvalid, {"'group'"}},
          {"bits a float",
           [](Frame& f) { f.attributes[0].dtype = Dtype::F32; },
           kInvalid,
           {"'bits' is no signed integer of 32 or 64 bits"}},
          {"bits no scalar", [](Frame& f) { f.attributes[0].type = 2; }, kInvalid, {"'bits' is no signed"}},
          {"bits a string", [](Frame& f) { f.attributes[0] = {"bits", "4"}; }, kInvalid, {"'bits' is no signed"}},
          {"group", [](Frame& f) { f.attributes[1].s32 = 12; }, kInvalid, {"group is 12"}},
      });
  expect_refused(qmm_xla_ffi_rows_packed, &Problem::rows_packed,
                 {
                     {"ids dtype",
                      [](Frame& f) { f.operands[0].dtype = Dtype::S32; },
                      kInvalid,
                      {"ids is s32 [3, 2]; it must be s64"}},
                     {"ids whose bytes are 2^64",
                      [](Frame& f) {
                        f.operands[0].extents = {int64_t(1) << 61};
                        f.results[0].extents = {int64_t(1) << 61, kK};
                      },
                      kInvalid,
                      {"y is f32 [2305843009213693952, 40]", "product below 2^63"}},
                     {"y rank", [](Frame& f) { f.results[0].extents = {6, kK}; }, kInvalid, {"ids is s64 [3, 2]"}},
                     {"y columns", [](Frame& f) { f.results[0].extents[2] = 39; }, kInvalid, {"y [6, 39]"}},
                     {"lhs", [](Frame& f) { f.attributes = {{"lhs", "f32"}}; }, kInvalid, {"no attribute 'lhs'"}},
                 });
  Problem p(8, QMM_ZEROS);
  Frame frame = p.matmul_grouped();
  frame.operands[3].dtype = Dtype::U8;
  const auto error = frame.call(qmm_xla_ffi_matmul_grouped);
  ASSERT_TRUE(error);
  EXPECT_TRUE(holds(error->message, {"zeros is u8 [20, 5]; it must be s8"}));
  for (const auto& [at, id] : {std::pair(1, 20), std::pair(2, -1)}) {
    Problem q;
    q.ids[static_cast<size_t>(at)] = id;
    const auto bad_id = q.rows_packed().call(qmm_xla_ffi_rows_packed);
    ASSERT_TRUE(bad_id);
    EXPECT_TRUE(holds(bad_id->message, {"ids[", "is ", "20 rows"}));
    EXPECT_TRUE(q.untouched());
  }
}

TEST(XlaTyped, ReportsNoMemory) {
  std::thread([] {  // a thread whose arena has not grown yet
    Problem p;
    no_memory = true;
    const auto error = p.matmul_packed().call(qmm_xla_ffi_matmul_packed);
    no_memory = false;
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ErrorCode::ResourceExhausted);
    EXPECT_TRUE(holds(error->message, {"no memory for"}));
    EXPECT_TRUE(p.untouched());
  })
      .join();
}

TEST(XlaTyped, TellsItsVersion) {
  for (const auto& [major, minor] : {std::pair(0, 1), std::pair(0, ffi::kMinor), std::pair(0, 99), std::pair(1, 0)}) {
    ffi::Metadata metadata = {sizeof metadata, {sizeof metadata.version, nullptr, -1, -1}, 7};
    ffi::MetadataExtension extension = {{sizeof extension, ffi::kMetadataExtension, nullptr}, &metadata};
    ffi::Extension other = {sizeof other, 77, &extension.base};
    Frame frame;
    frame.version.major = major;
    frame.version.minor = minor;
    frame.extensions = &other;
    EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_matmul_packed)));
    EXPECT_EQ(metadata.version.major, ffi::kMajor);
    EXPECT_EQ(metadata.version.minor, ffi::kMinor);
    EXPECT_EQ(metadata.traits, 0u);
  }
}

struct Seen {
  int count = 0;
  qmm_status status = QMM_OK;
  std::string sentence;
};

class XlaHandler : public testing::Test {
 protected:
  XlaHandler() {
    qmm_set_error_handler(
        [](void* context, qmm_status status, const char* sentence) {
          auto& seen = *static_cast<Seen*>(context);
          ++seen.count;
          seen.status = status;
          seen.sentence = sentence;
        },
        &seen_);
  }
  ~XlaHandler() override { qmm_set_error_handler(nullptr, nullptr); }
  Seen seen_;
};

TEST_F(XlaHandler, HearsOfACallFrameOfAnotherInterface) {
  const struct {
    std::function<void(Frame&)> damage;
    const char* word;
  } kBad[] = {
      {[](Frame& f) { f.size -= 8; }, "version -1.-1 with 0 bytes"},
      {[](Frame& f) { f.version.major = 1; }, "version 1.3"},
      {[](Frame& f) { f.version.minor = ffi::kMinor - 1; }, "version 0.2"},
      {[](Frame& f) { f.api_size -= 8; }, "version 0.3 with "},
  };
  int count = 0;
  for (const auto& bad : kBad) {
    SCOPED_TRACE(bad.word);
    Problem p;
    Frame frame = p.matmul_packed();
    bad.damage(frame);
    EXPECT_TRUE(fine(frame.call(qmm_xla_ffi_matmul_packed)));
    EXPECT_TRUE(p.untouched());
    EXPECT_EQ(seen_.count, ++count);
    EXPECT_EQ(qmm_sticky_status(), QMM_UNSUPPORTED);
    EXPECT_TRUE(holds(seen_.sentence, {"qmm_matmul_packed: a call frame of", bad.word}));
  }
}

TEST(XlaUntyped, RefusesWhatDoesNotFit) {
  struct Bad {
    const char* name;
    std::function<void(qmm_xla_descriptor&)> damage;
    std::initializer_list<const char*> words;
  };
  const auto expect = [](auto call, auto make, std::initializer_list<Bad> bads) {
    for (const Bad& bad : bads) {
      SCOPED_TRACE(bad.name);
      Problem p;
      qmm_xla_descriptor d = (p.*make)();
      bad.damage(d);
      const std::optional<std::string> message = (p.*call)(d);
      ASSERT_TRUE(message);
      EXPECT_TRUE(holds(*message, bad.words));
      EXPECT_TRUE(p.untouched());
    }
  };
  using Call = std::optional<std::string> (Problem::*)(const qmm_xla_descriptor&);
  using D = qmm_xla_descriptor;
  expect(static_cast<Call>(&Problem::matmul_packed), &Problem::packed_descriptor,
         {
             {"version", [](D& d) { d.version = 2; }, {"version 2", "reads version 1"}},
             {"size", [](D& d) { d.size = 63; }, {"says that it has 63 bytes; it has 64"}},
             {"lhs_kind", [](D& d) { d.lhs_kind = 3; }, {"lhs_kind is 3"}},
             {"bits", [](D& d) { d.bits = 4; }, {"bits is 4"}},
             {"offset", [](D& d) { d.offset = 1; }, {"offset is 1"}},
             {"scale_dtype", [](D& d) { d.scale_dtype = -1; }, {"scale_dtype is -1"}},
             {"group", [](D& d) { d.group = 8; }, {"group is 8"}},
             {"m", [](D& d) { d.m = -1; }, {"m is -1"}},
             {"n", [](D& d) { d.n = 21; }, {"y [6, 21]"}},
             {"k", [](D& d) { d.k = INT64_MAX; }, {"x is [6, 9223372036854775807]"}},
             {"packed_size", [](D& d) { d.packed_size = -1; }, {"-1 bytes"}},
             {"packed_size of none", [](D& d) { d.packed_size = 0; }, {"0 bytes"}},
             {"packed_size too small", [](D& d) { --d.packed_size; }, {"bytes; only"}},
         });
  expect(static_cast<Call>(&Problem::matmul_grouped), &Problem::grouped_descriptor,
         {
             {"version", [](D& d) { d.version = 0; }, {"qmm_matmul_grouped: ", "version 0"}},
             {"lhs_kind", [](D& d) { d.lhs_kind = -1; }, {"lhs_kind is -1"}},
             {"bits", [](D& d) { d.bits = 16; }, {"bits is 16"}},
             {"offset", [](D& d) { d.offset = 3; }, {"offset is 3"}},
             {"scale_dtype", [](D& d) { d.scale_dtype = 3; }, {"scale_dtype is 3"}},
             {"group", [](D& d) { d.group = 0; }, {"group is 0"}},
             {"k", [](D& d) { d.k = INT64_MAX; }, {"[20, 9223372036854775807]", "2^40"}},
             {"n", [](D& d) { d.n = -1; }, {"[-1, 40]"}},
             {"m", [](D& d) { d.m = INT64_MIN; }, {"m is -9223372036854775808"}},
             {"packed_size", [](D& d) { d.packed_size = 1; }, {"packed_size is 1"}},
         });
  expect(static_cast<Call>(&Problem::rows_packed), &Problem::rows_descriptor,
         {
             {"version", [](D& d) { d.version = 3; }, {"qmm_rows_packed: ", "version 3"}},
             {"lhs_kind", [](D& d) { d.lhs_kind = 1; }, {"lhs_kind is 1"}},
             {"bits", [](D& d) { d.bits = 4; }, {"bits is 4"}},
             {"offset", [](D& d) { d.offset = 1; }, {"offset is 1"}},
             {"scale_dtype", [](D& d) { d.scale_dtype = 1; }, {"scale_dtype is 1"}},
             {"group", [](D& d) { d.group = 8; }, {"group is 8"}},
             {"n", [](D& d) { d.n = 20; }, {"n is 20"}},
             {"k", [](D& d) { d.k = 41; }, {"y [6, 41]"}},
             {"m", [](D& d) { d.m = -6; }, {"-6"}},
         });
  Problem p;
  const auto message = call_untyped(qmm_xla_opaque_matmul_packed, p.y.data(), {nullptr, nullptr}, "hello", 5);
  EXPECT_EQ(message, "qmm_matmul_packed: the descriptor has 5 bytes; it must have 64");
  EXPECT_TRUE(call_untyped(qmm_xla_opaque_rows_packed, p.y.data(), {nullptr, nullptr}, nullptr, 0));
}

// ---- the status of an untyped call ---------------------------------------------------------------------------------

TEST_F(XlaHandler, HearsOfAFailureThatNoStatusTakes) {
  const void* in[2] = {};
  XlaCustomCallStatus_ status;
  qmm_xla_opaque_matmul_packed(nullptr, in, "hello", 5, &status);
  EXPECT_FALSE(status.message);
  EXPECT_EQ(seen_.count, 1);
  EXPECT_EQ(qmm_sticky_status(), QMM_INVALID_ARGUMENT);

  const StatusSetter setter;
  qmm_xla_opaque_matmul_packed(nullptr, in, "hello", 5, nullptr);
  EXPECT_EQ(seen_.count, 2);
  EXPECT_EQ(seen_.sentence, "qmm_matmul_packed: the descriptor has 5 bytes; it must have 64");
}

TEST_F(XlaHandler, IsNotAskedWhereAStatusTakesTheFailure) {
  Problem p;
  EXPECT_TRUE(call_untyped(qmm_xla_opaque_matmul_packed, p.y.data(), {nullptr, nullptr}, "hello", 5));
  EXPECT_EQ(seen_.count, 0);
}

TEST(XlaDeathTest, AbortsWithTheSentenceWhereNobodyListens) {
  const void* in[2] = {};
  EXPECT_EXIT(qmm_xla_opaque_matmul_packed(nullptr, in, "hello", 5, nullptr), testing::KilledBySignal(SIGABRT),
              "libqmm: qmm_matmul_packed: the descriptor has 5 bytes");
}

}  // namespace
}  // namespace qmm::test
