// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Any bytes as a descriptor, and as a call frame, of each target of XLA. Operands and results have just the bytes that
// the call says, and AddressSanitizer watches what lies beside them: a call runs or is refused, and touches nothing
// else.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "weights.h"
#include "xla_frame.h"

namespace qmm::test {
namespace {

constexpr size_t kMost = 1 << 16;  // bytes of an operand; larger calls are not run

// The input, taken piece by piece; when it is used up, zeros.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  void take(void* to, size_t size) {
    const size_t there = std::min(size, size_);
    std::memset(to, 0, size);
    std::memcpy(to, data_, there);
    data_ += there;
    size_ -= there;
  }
  template <class T = uint8_t>
  T take() {
    T value;
    take(&value, sizeof value);
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

// Memory of its own of just this size, filled from the input: nullptr where it would be too large.
using Bytes = std::unique_ptr<uint8_t[]>;
Bytes allocate(Input& input, size_t size, bool* possible) {
  *possible &= size <= kMost;
  if (!*possible) return nullptr;
  Bytes bytes(new uint8_t[size]);
  input.take(bytes.get(), size);
  return bytes;
}

size_t product(std::initializer_list<uint64_t> factors) {
  size_t result = 1;
  for (const uint64_t factor : factors)
    if (factor == 0) return 0;
  for (const uint64_t factor : factors) {
    if (factor > kMost || result > kMost) return SIZE_MAX;
    result *= factor;
  }
  return result;
}

// Packed weights of a shape and format that the input chooses, of which it may change some bytes.
std::vector<uint8_t> make_packed(Input& input) {
  const int bits = input.take() % 2 == 0 ? 4 : 8;
  const int64_t k = input.take() % 64, groups_of_8 = input.take() % 4;
  Weights weights(make_desc(input.take() % 40, k, groups_of_8 == 0 || groups_of_8 * 8 > k ? k : groups_of_8 * 8, bits,
                            input.take() % 3, input.take() % 3));
  weights.randomize(input.take());
  std::vector<uint8_t> packed = pack(weights);
  for (int changes = input.take() % 4; changes > 0; --changes)
    packed[input.take<uint16_t>() % packed.size()] = input.take();
  return packed;
}

void fuzz_descriptor(Input& input) {
  const uint8_t target = input.take() % 3;
  qmm_xla_descriptor d = {};
  std::vector<uint8_t> packed;
  if (input.take() % 4 == 0) {
    input.take(&d, sizeof d);
  } else {
    // Near to a right one, so that most get beyond the first checks.
    d.version = QMM_XLA_DESCRIPTOR_VERSION;
    d.size = sizeof d;
    d.m = input.take() % 5;
    d.k = input.take() % 64;
    if (target != 2) d.lhs_kind = input.take() % 4, d.n = input.take() % 40;
    if (target == 1) {
      d.bits = input.take() % 2 == 0 ? 4 : 8;
      d.group = input.take() % 2 == 0 ? d.k : input.take() % 8 * 8;
      d.offset = input.take() % 4;
      d.scale_dtype = input.take() % 4;
    } else {
      packed = make_packed(input);
      d.packed_size = static_cast<int64_t>(packed.size());
      auto rhs = sized<qmm_rhs>();
      if (input.take() % 4 != 0 && qmm_rhs_open(packed.data(), packed.size(), &rhs) == QMM_OK) {
        d.k = rhs.desc.k;
        if (target == 0) d.n = rhs.desc.n;
      }
    }
    if (input.take() % 4 == 0) reinterpret_cast<uint8_t*>(&d)[input.take() % sizeof d] = input.take();
  }
  const size_t length = input.take() % 8 == 0 ? input.take() : sizeof d;

  // What the descriptor promises of the operands.
  bool possible = true;
  const auto u = [](int64_t value) { return value < 0 ? 0 : static_cast<uint64_t>(value); };
  const uint64_t groups = d.group <= 0 ? 0 : u(d.k / d.group) + (d.k % d.group != 0);
  const size_t side = product({u(d.n), groups, d.scale_dtype == QMM_F32 ? 4u : 2u});
  const size_t columns = d.k < 0 || u(d.k) > kMost ? SIZE_MAX : (u(d.k) * u(d.bits) + 7) / 8;
  std::vector<Bytes> operands;
  operands.push_back(target == 2 ? allocate(input, product({u(d.m), 8}), &possible)
                                 : allocate(input, product({u(d.m), u(d.k), 4}), &possible));
  if (target == 1) {
    operands.push_back(allocate(input, product({u(d.n), columns}), &possible));
    operands.push_back(allocate(input, side, &possible));
    operands.push_back(allocate(input, d.offset == QMM_ZEROS ? product({u(d.n), groups}) : 0, &possible));
    operands.push_back(allocate(input, d.offset == QMM_MINS ? side : 0, &possible));
  } else {
    operands.push_back(allocate(input, u(d.packed_size), &possible));
    if (possible) std::copy_n(packed.begin(), std::min<size_t>(packed.size(), u(d.packed_size)), operands[1].get());
  }
  if (target == 2 && possible && input.take() % 4 != 0)
    for (int64_t i = 0; i < d.m; ++i) reinterpret_cast<int64_t*>(operands[0].get())[i] &= 7;
  const Bytes y = allocate(input, product({u(d.m), u(target == 2 ? d.k : d.n), 4}), &possible);
  const Bytes opaque = allocate(input, length, &possible);
  if (!possible) return;
  std::memcpy(opaque.get(), &d, std::min(length, sizeof d));
  std::vector<const void*> in;
  for (const Bytes& operand : operands) in.push_back(operand.get());
  constexpr decltype(&qmm_xla_opaque_matmul_packed) kTargets[] = {
      qmm_xla_opaque_matmul_packed, qmm_xla_opaque_matmul_grouped, qmm_xla_opaque_rows_packed};
  XlaCustomCallStatus_ status;
  kTargets[target](y.get(), in.data(), reinterpret_cast<const char*>(opaque.get()), length, &status);
  if (status.message && status.message->rfind("qmm_", 0) != 0) std::abort();
}

// Bytes of a tensor: none where its extents are such as no tensor has, so that it must be refused unread.
size_t size_of(Dtype dtype, const std::vector<int64_t>& extents) {
  int64_t elements = 1;
  for (const int64_t extent : extents)
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) return 0;
  const auto count = static_cast<uint64_t>(elements);
  switch (dtype) {
    case Dtype::S8:
    case Dtype::U8: return product({count});
    case Dtype::F16:
    case Dtype::BF16: return product({count, 2});
    case Dtype::F32:
    case Dtype::S32: return product({count, 4});
    default: return product({count, 8});
  }
}

void fuzz_frame(Input& input) {
  const uint8_t target = input.take() % 3;
  const std::vector<uint8_t> packed = make_packed(input);
  auto rhs = sized<qmm_rhs>();
  if (qmm_rhs_open(packed.data(), packed.size(), &rhs) != QMM_OK) rhs.desc = make_desc(3, 16, 8, 4);
  qmm_rhs_desc d = rhs.desc;
  if (d.n > 64 || d.k > 64) return;
  const int64_t m = input.take() % 5, groups = d.group == 0 ? 0 : (d.k + d.group - 1) / d.group;

  // A call that would be right, but for what the input changes.
  Frame frame;
  std::vector<Bytes> memory;
  bool possible = true;
  const auto changes = [&] { return input.take() % 16 == 15; };
  const auto add = [&](std::vector<Tensor>& to, Dtype dtype, std::vector<int64_t> extents,
                       const std::vector<uint8_t>& content = {}) {
    if (changes()) dtype = static_cast<Dtype>(input.take() % 40);
    if (changes()) extents.push_back(input.take() % 4);
    if (changes() && !extents.empty()) extents.pop_back();
    if (changes() && !extents.empty()) extents[input.take() % extents.size()] = input.take() % 70;
    const size_t size = size_of(dtype, extents);
    memory.push_back(allocate(input, size, &possible));
    if (possible) std::copy_n(content.begin(), std::min(content.size(), size), memory.back().get());
    if (!changes()) to.push_back({dtype, memory.back().get(), extents});
  };
  const Dtype scale = d.scale_dtype == QMM_F32 ? Dtype::F32 : d.scale_dtype == QMM_F16 ? Dtype::F16 : Dtype::BF16;
  // Extents that x or ids, and y, begin with.
  std::vector<int64_t> leading = {1, m};
  if (changes())
    for (int64_t& extent : leading)
      extent = static_cast<int64_t>((input.take() % 4 == 0 ? ~uint64_t(0) : 1) << input.take() % 64);
  const auto led = [&](int64_t last) { return std::vector<int64_t>{leading[0], leading[1], last}; };
  std::vector<uint8_t> ids(static_cast<size_t>(m) * 8);
  for (size_t i = 0; i < ids.size(); i += 4) ids[i] = i % 8 == 0 ? input.take() : 0;
  if (target == 2)
    add(frame.operands, Dtype::S64, leading, ids);
  else
    add(frame.operands, Dtype::F32, led(d.k));
  if (target == 1) {
    add(frame.operands, changes() ? Dtype::S8 : Dtype::U8, {d.n, (d.k * d.bits + 7) / 8});
    add(frame.operands, scale, {d.n, groups});
    add(frame.operands, Dtype::S8, {d.offset == QMM_ZEROS ? d.n : 0, groups});
    add(frame.operands, scale, {d.offset == QMM_MINS ? d.n : 0, groups});
    if (!changes()) frame.attributes.emplace_back("bits", d.bits);
    if (!changes()) frame.attributes.emplace_back("group", changes() ? input.take<int64_t>() : d.group);
  } else {
    add(frame.operands, Dtype::U8, {static_cast<int64_t>(packed.size())}, packed);
  }
  add(frame.results, Dtype::F32, led(target == 2 ? d.k : d.n));
  constexpr const char* kTexts[] = {"f32", "s8", "s8_token", "", "lhs", "bits", "s8_tokens"};
  if (target != 2 && !changes()) frame.attributes.emplace_back("lhs", kTexts[input.take() % 3]);
  if (changes()) frame.attributes.emplace_back(kTexts[input.take() % 7], kTexts[input.take() % 7]);
  for (Attribute& attribute : frame.attributes) {
    if (changes()) attribute.type = input.take() % 6;
    if (changes()) attribute.dtype = static_cast<Dtype>(input.take() % 8);
    if (attribute.type == ffi::kScalar && attribute.text.empty() && changes()) attribute.s64 = input.take<int64_t>();
  }
  ffi::Metadata metadata = {};
  ffi::MetadataExtension asks = {{sizeof asks, ffi::kMetadataExtension, nullptr}, &metadata};
  ffi::Extension other = {sizeof other, input.take(), changes() ? &asks.base : nullptr};
  if (changes() && other.type != ffi::kMetadataExtension) frame.extensions = &other;
  if (changes()) frame.size = input.take() % 4 * sizeof(ffi::CallFrame) / 2;
  if (changes()) frame.api_size = input.take() % 4 * sizeof(ffi::Api) / 2;
  if (changes()) frame.version.major = input.take() % 3 - 1;
  if (changes()) frame.version.minor = input.take() % 6 - 1;
  if (changes()) frame.stage = static_cast<Stage>(input.take() % 5);
  if (changes()) frame.value_type = input.take() % 3;
  if (!possible) return;
  constexpr Typed* kTargets[] = {qmm_xla_ffi_matmul_packed, qmm_xla_ffi_matmul_grouped, qmm_xla_ffi_rows_packed};
  const auto error = frame.call(kTargets[target]);
  if (error && error->message.rfind("qmm_", 0) != 0) std::abort();
}

}  // namespace
}  // namespace qmm::test

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  qmm_xla_set_status_setter(qmm::test::set_failure);
  // Of call frames of another interface it hears, and would abort.
  qmm_set_error_handler([](void*, qmm_status, const char*) {}, nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qmm::test::Input input(data, size);
  if (input.take() % 2 == 0)
    qmm::test::fuzz_descriptor(input);
  else
    qmm::test::fuzz_frame(input);
  return 0;
}
