// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every row of the table that this CPU can run, against the golden file: hashes of what the scalar rows compute. All
// CPUs are compared with the same file, and so with each other. It starts no threads and needs nothing but libc, so
// that emulators run it.
//
//   golden_test FILE [--full] [--without-scalar]    compares; tells what the library chooses, and which rows ran
//   golden_test --choice                            tells what the library chooses
//   golden_test --generate                          writes the golden file to stdout
//
// The scalar rows take most of an emulator's time.
#include <sys/mman.h>

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "kernels/quantizer.h"
#include "runtime/choose.h"
#include "runtime/cpu.h"
#include "runtime/layout.h"
#include "runtime/matmul.h"

namespace qmm {
namespace {

// ---- cases ----------------------------------------------------------------------------------------------------------

// What x and scales are like, as in tests/problem.h.
enum Values { kOrdinary, kTies, kExtreme, kWild, kSubnormal, kSpecial };
constexpr const char* kValues[] = {"ordinary", "ties", "extreme", "wild", "subnormal", "special"};
constexpr const char* kLhs[] = {"f32", "s8", "s8_token"};
constexpr const char* kOffsets[] = {"symmetric", "zeros", "mins"};
constexpr const char* kDtypes[] = {"f32", "f16", "bf16"};

enum class Of { Matmul, Quantizer, Weights };

struct Case {
  Of of;
  bool full;  // with --full only
  int32_t lhs_kind, bits, offset, scale_dtype;
  int64_t m, n, k, group;
  Values values;
};

std::string describe(const Case& c) {
  char text[160];
  const int64_t m = c.m, n = c.n, k = c.k, group = c.group;
  const char* values = kValues[c.values];
  if (c.of == Of::Quantizer)
    std::snprintf(text, sizeof text, "quantizer %s k %" PRId64 " group %" PRId64 " %s", kLhs[c.lhs_kind], k, group,
                  values);
  else
    std::snprintf(text, sizeof text, "%s %s %s %s m %" PRId64 " n %" PRId64 " k %" PRId64 " group %" PRId64 " %s",
                  c.of == Of::Weights ? "weights" : kLhs[c.lhs_kind], c.bits == 4 ? "u4" : "s8", kOffsets[c.offset],
                  kDtypes[c.scale_dtype], m, n, k, group, values);
  return text;
}

// A list that is gone through again and again.
template <class T, size_t N>
class Cycle {
 public:
  explicit constexpr Cycle(const T (&items)[N]) : items_(items) {}
  const T& next() { return items_[at_++ % N]; }

 private:
  const T (&items_)[N];
  size_t at_ = 0;
};

struct Depth {
  int64_t k, group;
};

std::vector<Case> make_cases() {
  std::vector<Case> cases;
  constexpr Values all_values[] = {kOrdinary, kTies, kExtreme, kWild, kSubnormal, kSpecial, kOrdinary};
  constexpr int64_t all_n[] = {33, 1, 64, 17, 48, 65, 15, 31, 79, 16, 95};
  // Offset and dtype, in turn: five and nine have no common factor with the other lists' lengths to keep them in step.
  int format = 0;
  const auto add = [&](int32_t kind, int32_t bits, int64_t m, int64_t n, Depth d, Values values, bool full) {
    cases.push_back({Of::Matmul, full, kind, bits, format % 3, format / 3 % 3, m, n, d.k, d.group, values});
    ++format;
  };
  const auto for_each_kind = [&](auto use) {
    for (const int32_t kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN})
      for (const int32_t bits : {4, 8}) use(kind, bits);
  };

  // Every format with all values.
  Cycle values(all_values);
  for_each_kind([&](int32_t kind, int32_t bits) {
    for (int i = 0; i < 9; ++i) {
      format = i;
      add(kind, bits, 1, 70, {104, 32}, values.next(), false);
      format = i;
      add(kind, bits, 7, 35, {77, 24}, values.next(), false);
      format = i;
      add(kind, bits, 18, 18, {200, 104}, values.next(), true);
    }
  });

  // Rows and columns around the edges of tiles and panels.
  constexpr Depth shallow[] = {{40, 16}, {1, 1}, {37, 8}, {131, 64}, {7, 7}, {64, 32}};
  Cycle n(all_n);
  Cycle depth(shallow);
  for_each_kind([&](int32_t kind, int32_t bits) {
    for (const int64_t m : {2, 3, 4, 5, 6, 8, 9, 12, 13, 15, 16, 17, 23, 31, 32, 33})
      add(kind, bits, m, n.next(), depth.next(), kOrdinary, false);
    for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 24, 32, 33, 48, 64})
      for (const int64_t columns : {16, 31, 63, 80, 129})
        add(kind, bits, m, columns, depth.next(), values.next(), true);
    add(kind, bits, 129, 17, {24, 8}, kOrdinary, false);  // slices of 128 rows
  });

  // Several tiles of every kernel, whole ones and others.
  for_each_kind([&](int32_t kind, int32_t bits) {
    for (const Depth& d : {Depth{192, 64}, Depth{256, 128}, Depth{520, 520}})
      add(kind, bits, 40, 80, d, kOrdinary, false);
  });

  // Depths and groups.
  constexpr Depth deep[] = {{8, 8},     {9, 9},      {15, 8},    {16, 16},  {33, 32},     {63, 56},    {65, 40},
                            {72, 72},   {100, 40},   {128, 128}, {129, 64}, {257, 136},   {256, 32},   {300, 264},
                            {600, 520}, {1031, 512}, {1024, 32}, {1025, 8}, {1031, 1031}, {2049, 1032}};
  constexpr int64_t few_rows[] = {1, 3, 17, 2, 5};
  Cycle rows(few_rows);
  for_each_kind([&](int32_t kind, int32_t bits) {
    for (const Depth& d : deep) {
      add(kind, bits, d.k > 600 ? 3 : rows.next(), n.next() % 40, d, values.next(), false);
      add(kind, bits, rows.next() + 16, n.next(), d, values.next(), true);
    }
  });

  // Segments: groups longer than 16384, with the largest sums.
  for_each_kind([&](int32_t kind, int32_t bits) {
    add(kind, bits, 2, 3, {16400, 16392}, kExtreme, false);
    add(kind, bits, 1, 2, {32776, 32776}, kExtreme, kind == QMM_LHS_F32);
    add(kind, bits, 17, 3, {40000, 40000}, kExtreme, true);
  });

  for (const Values v : {kOrdinary, kTies, kWild, kSubnormal, kSpecial})
    for (const int32_t kind : {QMM_LHS_S8, QMM_LHS_S8_TOKEN})
      for (const Depth& d : {Depth{1, 1}, Depth{7, 7}, Depth{31, 8}, Depth{64, 32}, Depth{100, 24}, Depth{129, 128},
                             Depth{300, 300}, Depth{520, 40}, Depth{16500, 16392}})
        cases.push_back({Of::Quantizer, d.k > 10000 && v != kSpecial, kind, 0, 0, 0, 0, 0, d.k, d.group, v});

  for (const int32_t bits : {4, 8})
    for (int i = 0; i < 9; ++i) cases.push_back({Of::Weights, false, 0, bits, i % 3, i / 3, 2, 19, 77, 24, kOrdinary});
  return cases;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// Memory before a page that may not be touched, so that a kernel that goes a byte too far ends the program.
class Guarded {
 public:
  Guarded() {
    auto* memory =
        static_cast<uint8_t*>(mmap(nullptr, kSize + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED || mprotect(memory + kSize, kPage, PROT_NONE) != 0) std::abort();
    end_ = memory + kSize;
  }
  // The last bytes, of which every float is a NaN.
  template <class T>
  T* last(size_t count) const {
    if (count * sizeof(T) > kSize) std::abort();
    return static_cast<T*>(std::memset(end_ - count * sizeof(T), 0xff, count * sizeof(T)));
  }

 private:
  static constexpr size_t kSize = 4 << 20, kPage = 65536;  // the largest page that there is
  uint8_t* end_;
};

struct Memory {
  Guarded packed, x, y, scratch;
};

const Memory& memory() {
  static const Memory memory;
  return memory;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

// SplitMix64. The distributions of <random> are not the same in all libraries.
class Random {
 public:
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  // lo .. hi; the range is small.
  int integer(int lo, int hi) {
    const uint64_t range = static_cast<uint64_t>(hi - lo + 1);
    return lo + static_cast<int>((next() >> 32) * range >> 32);
  }
  // Bits of +-1.fraction * 2^exponent, exponent in [lo, hi]; what is below a dtype's range becomes subnormal.
  uint32_t real(int32_t dtype, int lo, int hi) {
    const int exponent_bits = dtype == QMM_F16 ? 5 : 8, bits = dtype == QMM_F32 ? 32 : 16;
    const int fraction_bits = bits - 1 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = integer(lo, hi) + bias;
    exponent = exponent < 0 ? 0 : exponent > 2 * bias ? 2 * bias : exponent;
    const auto random = static_cast<uint32_t>(next());
    return random >> 31 << (bits - 1) | static_cast<uint32_t>(exponent) << fraction_bits |
           (random & ((1u << fraction_bits) - 1));
  }
  float real(int lo, int hi) { return bit_copy<float>(real(QMM_F32, lo, hi)); }

 private:
  uint64_t state_ = 1;
};

// x [row, k].
float make_x(Random& random, Values values, int64_t row) {
  switch (values) {
    case kOrdinary: return random.real(-4, 1);
    case kTies:  // 127 makes the step 1, and half the others lie between two codes
      return random.integer(0, 3) == 0 ? (random.integer(0, 1) == 0 ? 127.0f : -127.0f)
                                       : static_cast<float>(random.integer(-127, 126)) + 0.5f;
    case kExtreme: return row % 3 == 0 || (row % 3 == 2 && random.integer(0, 1) == 0) ? 1.0f : -1.0f;
    case kWild: return random.real(-140, 127);
    case kSubnormal: return random.real(-127, -127);
    case kSpecial: break;
  }
  constexpr float special[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-130f, INFINITY, -INFINITY, NAN};
  if (random.integer(0, 15) != 0) return random.real(-4, 1);
  return special[random.integer(0, row % 3 == 1 ? 6 : 3)];
}

uint32_t make_scale(Random& random, Values values, int32_t dtype) {
  switch (values) {
    case kExtreme:
      return random.real(dtype, 0, 0) & (dtype == QMM_F32 ? 0xff800000 : dtype == QMM_F16 ? 0xfc00 : 0xff80);
    case kWild: return random.integer(0, 9) == 0 ? 0 : random.real(dtype, -140, 127);
    case kSubnormal: return random.real(dtype, -2, 2);
    default: return random.real(dtype, -8, -5);
  }
}

void require(qmm_status status) {
  if (status == QMM_OK) return;
  std::printf("golden_test: %s\n", qmm_last_error());
  std::exit(1);
}

// Canonical weights.
struct Weights {
  Weights(const Case& c, Random& random) : groups(static_cast<size_t>(ceil_div(c.k, c.group))) {
    desc = sized<qmm_rhs_desc>();
    desc.n = c.n;
    desc.k = c.k;
    desc.group = c.group;
    desc.bits = c.bits;
    desc.offset = c.offset;
    desc.scale_dtype = c.scale_dtype;
    const auto n = static_cast<size_t>(c.n), row = static_cast<size_t>(ceil_div(c.k * c.bits, 8));
    codes.resize(n * row);
    scales.resize(n * groups * static_cast<size_t>(dtype_size(c.scale_dtype)));
    if (c.offset != QMM_SYMMETRIC) offsets.resize(n * groups * static_cast<size_t>(offset_size(desc)));
    arrays = sized<qmm_weights>();
    arrays.codes = codes.data();
    arrays.codes_stride = static_cast<int64_t>(row);
    arrays.scales = scales.data();
    arrays.scales_stride = static_cast<int64_t>(groups);
    arrays.offsets = offsets.empty() ? nullptr : offsets.data();
    arrays.offsets_stride = static_cast<int64_t>(groups);

    const bool extreme = c.values == kExtreme;
    const int lo = c.bits == 4 ? 0 : -128, hi = c.bits == 4 ? 16 : 127;
    for (size_t i = 0; i < n; ++i) {
      // Any byte is two 4-bit codes, or an 8-bit one; eight of them at a time are quick to make.
      const uint8_t end = c.bits == 4 ? (i % 2 == 0 ? 0xff : 0) : (i % 2 == 0 ? 0x7f : 0x80);
      uint8_t* to = codes.data() + i * row;
      if (extreme) std::memset(to, end, row);
      for (size_t b = 0; b < row && !extreme; b += 8) {
        const uint64_t bytes = random.next();
        std::memcpy(to + b, &bytes, row - b < 8 ? row - b : 8);
      }
      for (size_t g = 0; g < groups; ++g) {
        put(scales, i * groups + g, make_scale(random, c.values, c.scale_dtype), dtype_size(c.scale_dtype));
        if (c.offset == QMM_ZEROS)
          offsets[i * groups + g] = static_cast<uint8_t>(extreme ? (i / 2 % 2 == 0 ? hi : lo) : random.integer(lo, hi));
        if (c.offset == QMM_MINS)
          put(offsets, i * groups + g, make_scale(random, c.values, c.scale_dtype), dtype_size(c.scale_dtype));
      }
    }
  }

  static void put(std::vector<uint8_t>& array, size_t i, uint32_t bits, int64_t size) {
    std::memcpy(array.data() + i * static_cast<size_t>(size), &bits, static_cast<size_t>(size));
  }

  // In guarded memory.
  std::span<const uint8_t> pack() const {
    size_t size = 0;
    require(qmm_packed_size(&desc, &size));
    auto* packed = memory().packed.last<uint8_t>(size);
    require(qmm_pack(&desc, &arrays, packed, size));
    return {packed, size};
  }

  size_t groups;
  qmm_rhs_desc desc;
  std::vector<uint8_t> codes, scales, offsets;
  qmm_weights arrays;
};

// ---- hashes ---------------------------------------------------------------------------------------------------------

// FNV-1a over 32-bit words, the upper half folded down at each step: each is one-to-one, so that a change of one word
// is always seen.
class Hash {
 public:
  void add(uint32_t word) {
    value_ = (value_ ^ word) * 0x100000001b3;
    value_ ^= value_ >> 32;
  }
  void add(float f) { add(f != f ? 0x7fc00000 : bit_copy<uint32_t>(f)); }  // NaNs are equal
  template <class T>
  void add(std::span<const T> values) {
    for (const T& value : values)
      if constexpr (sizeof(T) == 1)
        add(static_cast<uint32_t>(static_cast<uint8_t>(value)));
      else if constexpr (std::is_integral_v<T>)
        add(static_cast<uint32_t>(value));
      else
        add(value);
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(std::span<const T>(values));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// ---- what is hashed -------------------------------------------------------------------------------------------------

// Which rows run.
struct Rows {
  uint64_t features;
  bool scalar;
  bool include(uint64_t need) const { return (need & ~features) == 0 && (scalar || need != 0); }
};

// Calls use(name, hash) for each of the rows that computes the case.
template <class Use>
void run_matmul(const Case& c, const Rows& rows, Use use) {
  Random random;
  const Weights weights(c, random);
  const std::span<const uint8_t> packed = weights.pack();
  auto rhs = sized<qmm_rhs>();
  require(qmm_rhs_open(packed.data(), packed.size(), &rhs));
  const auto x_size = static_cast<size_t>(c.m * c.k), y_size = static_cast<size_t>(c.m * c.n);
  auto* x = memory().x.last<float>(x_size);
  for (size_t i = 0; i < x_size; ++i) x[i] = make_x(random, c.values, static_cast<int64_t>(i) / c.k);
  std::vector<float> bias;
  for (int64_t i = 0; i < c.n; ++i) bias.push_back(random.real(-4, 1));
  auto args = sized<qmm_matmul_args>();
  args.lhs_kind = c.lhs_kind;
  args.m = c.m;
  args.x = x;
  args.x_row_stride = c.k;
  args.rhs = &rhs;
  args.bias = c.n % 2 == 0 ? bias.data() : nullptr;
  args.y_row_stride = c.n;
  const Lhs lhs = c.lhs_kind == QMM_LHS_F32 ? Lhs::F32 : Lhs::S8;
  for (const Kernel& kernel : kernels()) {
    if (kernel.lhs != lhs || kernel.bits != c.bits || !rows.include(kernel.need)) continue;
    auto* y = memory().y.last<float>(y_size);
    args.y = y;
    require(scratch_size(&args, &args.scratch_size, &kernel));
    args.scratch = memory().scratch.last<uint8_t>(args.scratch_size);
    require(matmul(&args, &kernel));
    Hash hash;
    hash.add(std::span<const float>(y, y_size));
    use(kernel.name, hash.value());
  }
}

template <class Use>
void run_quantizer(const Case& c, const Rows& rows, Use use) {
  Random random;
  const auto k = static_cast<size_t>(c.k);
  auto* x = memory().x.last<float>(k);
  for (size_t i = 0; i < k; ++i) x[i] = make_x(random, c.values, c.k % 2);
  const auto segments =
      static_cast<size_t>(c.k / c.group * ceil_div(c.group, kMaxSegment) + ceil_div(c.k % c.group, kMaxSegment));
  for (const Quantizer& quantizer : quantizers()) {
    if (!rows.include(quantizer.need)) continue;
    auto* codes = memory().y.last<int8_t>(static_cast<size_t>(round_up(c.k, 8)));
    std::vector<float> scales(segments), token_scale(1);
    std::vector<int32_t> sums(segments);
    quantizer.run({.x = x,
                   .stride = 1,
                   .k = c.k,
                   .group = round_up(c.group, 8),
                   .codes = codes,
                   .scales = scales.data(),
                   .sums = sums.data(),
                   .token_scale = c.lhs_kind == QMM_LHS_S8_TOKEN ? token_scale.data() : nullptr});
    Hash hash;
    hash.add(std::span<const int8_t>(codes, k)), hash.add(scales), hash.add(sums), hash.add(token_scale);
    use(quantizer.name, hash.value());
  }
}

// What no row of the table computes: weights are quantized, packed and dequantized.
template <class Use>
void run_weights(const Case& c, Use use) {
  Random random;
  Weights weights(c, random);
  std::vector<float> w, rows(static_cast<size_t>(c.m * c.k));
  for (int64_t i = 0; i < c.n * c.k; ++i) w.push_back(make_x(random, c.values, 0));
  require(qmm_quantize(&weights.desc, w.data(), c.k, &weights.arrays));
  const std::span<const uint8_t> packed = weights.pack();
  auto rhs = sized<qmm_rhs>();
  require(qmm_rhs_open(packed.data(), packed.size(), &rhs));
  const std::vector<int64_t> ids = {c.n - 1, 0};
  require(qmm_dequantize_rows(&rhs, ids.data(), c.m, rows.data(), c.k));
  Hash hash;
  hash.add(weights.codes), hash.add(weights.scales), hash.add(weights.offsets), hash.add(packed), hash.add(rows);
  use("the weights' functions", hash.value());
}

template <class Use>
void run(const Case& c, const Rows& rows, Use use) {
  switch (c.of) {
    case Of::Matmul: return run_matmul(c, rows, use);
    case Of::Quantizer: return run_quantizer(c, rows, use);
    case Of::Weights: return run_weights(c, use);
  }
}

// ---- main -----------------------------------------------------------------------------------------------------------

int generate() {
  setenv("QMM_MAX_ISA", "scalar", 1);  // for what quantizes the lhs
  for (const Case& c : make_cases())
    run(c, {0, true},
        [&](const char*, uint64_t hash) { std::printf("%016" PRIx64 " %s\n", hash, describe(c).c_str()); });
  return 0;
}

void print_choice() {
  for (const int32_t kind : {QMM_LHS_F32, QMM_LHS_S8})
    for (const int32_t bits : {4, 8})
      for (const int64_t m : {1, 128}) {
        auto desc = sized<qmm_rhs_desc>();
        desc.n = desc.k = desc.group = 64;
        desc.bits = bits;
        const char* name = nullptr;
        require(qmm_kernel_name(kind, &desc, m, &name));
        std::printf("chose %s_%s %" PRId64 " %s\n", kLhs[kind], bits == 4 ? "u4" : "s8", m, name);
      }
  uint64_t features = 0;
  require(process_features(&features));
  std::printf("chose quantizer 1 %s\n", choose_quantizer(features)->name);
}

int compare(const char* path, bool full, bool scalar) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) {
    std::printf("golden_test: can not read %s\n", path);
    return 1;
  }
  const Rows rows = {decode_cpu(read_cpu_words()), scalar};
  int cases = 0, wrong = 0;
  for (const Case& c : make_cases()) {
    char line[200] = "";
    uint64_t want = 0;
    int begin = 0;
    if (std::fgets(line, sizeof line, file) == nullptr || std::sscanf(line, "%16" SCNx64 " %n", &want, &begin) != 1 ||
        line + begin != describe(c) + "\n") {
      std::printf("golden_test: %s is not of these cases (./dev generate makes it): %s, not \"%s\"\n", path, line,
                  describe(c).c_str());
      return 1;
    }
    if (c.full && !full) continue;
    ++cases;
    run(c, rows, [&](const char* name, uint64_t hash) {
      if (hash == want) return;
      ++wrong;
      std::printf("golden_test: other bits than the golden file's: %s, %s\n", name, describe(c).c_str());
    });
  }
  std::fclose(file);
  const auto tell = [&](const auto& row) {
    if (rows.include(row.need)) std::printf("ran %s\n", row.name);
  };
  for (const Quantizer& quantizer : quantizers()) tell(quantizer);
  for (const Kernel& kernel : kernels()) tell(kernel);
  std::printf("compared %d cases\n", cases);
  return wrong != 0;
}

}  // namespace
}  // namespace qmm

int main(int argc, char** argv) {
  bool full = false, scalar = true;
  const char* what = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--full") == 0)
      full = true;
    else if (std::strcmp(argv[i], "--without-scalar") == 0)
      scalar = false;
    else
      what = argv[i];
  }
  if (what == nullptr) {
    std::printf("golden_test FILE [--full] [--without-scalar], golden_test --choice, or golden_test --generate\n");
    return 2;
  }
  if (std::strcmp(what, "--generate") == 0) return qmm::generate();
  qmm::print_choice();
  return std::strcmp(what, "--choice") == 0 ? 0 : qmm::compare(what, full, scalar);
}
