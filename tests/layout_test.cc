// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The packed format, which must never drift: its bytes by a second description of the layout, one blob in full, what
// opening refuses, and that no blob leads outside itself.
#include "runtime/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "guarded.h"
#include "runtime/matmul.h"
#include "weights.h"

namespace qmm::test {
namespace {

using Bytes = std::vector<uint8_t>;

// ---- golden bytes --------------------------------------------------------------------------------------------------

void put(Bytes& blob, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) blob[at + i] = static_cast<uint8_t>(value >> 8 * i);
}
uint64_t get64(const Bytes& blob, size_t at) {
  uint64_t value = 0;
  for (size_t i = 8; i-- > 0;) value = value << 8 | blob[at + i];
  return value;
}

void put_checksum(Bytes& blob) {
  put(blob, 88, 0, 8);
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < blob.size(); i += 8) {
    hash = (hash ^ get64(blob, i)) * 0x100000001b3;
    hash ^= hash >> 32;
  }
  put(blob, 88, hash, 8);
}

// The blob by the words of runtime/layout.h, with the offsets of the header as numbers.
Bytes describe(const Weights& w) {
  const qmm_rhs_desc& d = w.desc;
  const auto n = static_cast<size_t>(d.n), k = static_cast<size_t>(d.k), groups = static_cast<size_t>(w.groups);
  const auto scale_size = static_cast<size_t>(w.scale_size), row_bytes = static_cast<size_t>(w.row_bytes);
  const size_t code_lines = (k + 7) / 8 * (d.bits == 4 ? 1 : 2);
  const size_t scales_at = code_lines * 64, scales_end = scales_at + groups * 16 * scale_size;
  const size_t offset_size = d.offset == QMM_SYMMETRIC ? 0 : d.offset == QMM_ZEROS ? 1 : scale_size;
  const size_t panel_stride = (scales_end + groups * 16 * offset_size + 63) / 64 * 64;

  Bytes blob(256 + (n + 15) / 16 * panel_stride, 0);
  std::memcpy(blob.data(), "QMMPACK", 8);
  put(blob, 8, 1, 4);            // version
  put(blob, 12, 0x01020304, 4);  // byte order
  put(blob, 16, 256, 4);         // of the header
  put(blob, 20, static_cast<uint64_t>(d.bits), 4);
  put(blob, 24, static_cast<uint64_t>(d.offset), 4);
  put(blob, 28, static_cast<uint64_t>(d.scale_dtype), 4);
  put(blob, 32, n, 8);
  put(blob, 40, k, 8);
  put(blob, 48, static_cast<uint64_t>(d.group), 8);
  put(blob, 56, scales_at, 8);
  put(blob, 64, offset_size == 0 ? 0 : scales_end, 8);
  put(blob, 72, panel_stride, 8);
  put(blob, 80, blob.size(), 8);
  for (size_t row = 0; row < n; ++row) {
    const size_t panel = 256 + row / 16 * panel_stride, column = row % 16;
    for (size_t i = 0; i < k; ++i) {
      const size_t line = d.bits == 4 ? i / 8 : i / 4;
      uint8_t& byte = blob[panel + line * 64 + column * 4 + i % 4];
      if (d.bits == 8) {
        byte = w.codes[row * row_bytes + i];
      } else {
        const int code = w.codes[row * row_bytes + i / 2] >> (i % 2 * 4) & 15;
        byte = static_cast<uint8_t>(byte | code << (i % 8 >= 4 ? 4 : 0));
      }
    }
    for (size_t g = 0; g < groups; ++g) {
      std::memcpy(&blob[panel + scales_at + (g * 16 + column) * scale_size], &w.scales[(row * groups + g) * scale_size],
                  scale_size);
      if (offset_size > 0)
        std::memcpy(&blob[panel + scales_end + (g * 16 + column) * offset_size],
                    &w.offsets[(row * groups + g) * offset_size], offset_size);
    }
  }
  put_checksum(blob);
  return blob;
}

TEST(Layout, IsAsDescribed) {
  for_each_format([](int bits, int offset, int scale_dtype) {
    for (const auto& [n, k, group] : {std::array<int64_t, 3>{1, 1, 1},
                                      {3, 16, 16},
                                      {17, 23, 8},
                                      {32, 5, 5},
                                      {16, 48, 32},
                                      {2, 0, 0},
                                      {0, 24, 8},
                                      {0, 0, 0}}) {
      SCOPED_TRACE(testing::Message() << "[" << n << ", " << k << "], group " << group);
      Weights weights(make_desc(n, k, group, bits, offset, scale_dtype));
      weights.randomize(static_cast<uint32_t>(n * 100 + k));
      const Bytes packed = pack(weights);
      EXPECT_EQ(packed, describe(weights));
      const qmm_rhs rhs = open(packed);
      EXPECT_EQ(qmm_rhs_verify(&rhs), QMM_OK) << qmm_last_error();
      EXPECT_EQ(rhs.desc.n, n);
      EXPECT_EQ(rhs.desc.k, k);
      EXPECT_EQ(rhs.desc.group, group);
      EXPECT_EQ(rhs.desc.bits, bits);
      EXPECT_EQ(rhs.desc.offset, offset);
      EXPECT_EQ(rhs.desc.scale_dtype, scale_dtype);
      EXPECT_EQ(rhs.packed, packed.data());
      EXPECT_EQ(rhs.packed_size, packed.size());
    }
  });
}

// W[3, 12], 4 bits, group 8, zeros, f16: code[n, k] = (5 n + k) mod 16, scale[n, g] = 2^(n - 2 g), zero[n, g] = 4 n +
// g.
constexpr const char* kGolden[] = {
    "514d4d5041434b00010000000403020100010000040000000100000001000000",
    "03000000000000000c0000000000000008000000000000008000000000000000",
    "c00000000000000000010000000000000002000000000000094c998b41c507af",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "4051627395a6b7c8eafb0c1d0000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "08090a0b0d0e0f00020304050000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "003c004000440000000000000000000000000000000000000000000000000000",
    "00340038003c0000000000000000000000000000000000000000000000000000",
    "0004080000000000000000000000000001050900000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
};
constexpr uint64_t kGoldenChecksum = 0xaf07c5418b994c09;

TEST(Layout, HasNotDrifted) {
  Weights weights(make_desc(3, 12, 8, 4, QMM_ZEROS, QMM_F16));
  for (int n = 0; n < 3; ++n) {
    for (int k = 0; k < 12; ++k) weights.set_code(n, k, (5 * n + k) % 16);
    for (int g = 0; g < 2; ++g) {
      weights.set_scale(n, g, std::ldexp(1.0f, n - 2 * g));
      weights.set_zero(n, g, 4 * n + g);
    }
  }
  const Bytes packed = pack(weights);
  ASSERT_EQ(packed.size(), 512u);
  std::string hex;
  for (const uint8_t byte : packed) {
    hex += "0123456789abcdef"[byte / 16];
    hex += "0123456789abcdef"[byte % 16];
  }
  for (size_t line = 0; line < 16; ++line) EXPECT_EQ(hex.substr(line * 64, 64), kGolden[line]) << "line " << line;
  EXPECT_EQ(get64(packed, 88), kGoldenChecksum);
}

// ---- what opening refuses ------------------------------------------------------------------------------------------

Bytes example() {
  Weights weights(make_desc(19, 23, 8, 4, QMM_ZEROS));
  weights.randomize(1);
  return pack(weights);
}

// Opens bytes at the end of readable memory.
qmm_status try_open(const Bytes& bytes, qmm_rhs* rhs) {
  Guarded<uint8_t> blob(static_cast<int64_t>(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), blob.begin());
  blob.freeze();
  *rhs = sized<qmm_rhs>();
  const qmm_status status = qmm_rhs_open(blob.data(), bytes.size(), rhs);
  EXPECT_EQ(rhs->packed != nullptr, status == QMM_OK);
  return status == QMM_OK ? qmm_rhs_verify(rhs) : status;
}

TEST(Open, RefusesEveryCut) {
  const Bytes good = example();
  qmm_rhs rhs;
  for (size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<int64_t>(size));
    ASSERT_TRUE(refused(try_open(cut, &rhs), QMM_INVALID_PACKED, {std::to_string(size).c_str()})) << size;
  }
  EXPECT_EQ(try_open(good, &rhs), QMM_OK);
}

TEST(Open, IgnoresWhatFollows) {
  Bytes longer = example();
  const size_t size = longer.size();
  longer.resize(size + 100, 0xa5);
  qmm_rhs rhs;
  EXPECT_EQ(try_open(longer, &rhs), QMM_OK);
  EXPECT_EQ(rhs.packed_size, size);
}

// Refused by opening, but for a few that mean another shape of the same size, and the checksum itself: by verifying.
TEST(Open, RefusesEveryChangeOfTheHeader) {
  const Bytes good = example();
  qmm_rhs rhs;
  int verified = 0;
  for (size_t at = 0; at < 256; ++at)
    for (int value = 0; value < 256; ++value) {
      if (value == good[at]) continue;
      Bytes bad = good;
      bad[at] = static_cast<uint8_t>(value);
      ASSERT_EQ(try_open(bad, &rhs), QMM_INVALID_PACKED) << "byte " << at << " = " << value;
      if (rhs.packed == nullptr) continue;
      ++verified;
      const bool checksum = at >= 88 && at < 96, n = at == 32 && value > 16 && value <= 32,
                 k = at == 40 && value > 16 && value <= 24;
      EXPECT_TRUE(checksum || n || k) << "byte " << at << " = " << value << " was opened";
    }
  EXPECT_GT(verified, 8 * 255);
}

TEST(Open, SaysWhatIsWrong) {
  const auto damaged = [](size_t at, uint64_t value, size_t size) {
    Bytes blob = example();
    put(blob, at, value, size);
    put_checksum(blob);  // whoever wrote it meant it
    qmm_rhs rhs;
    return try_open(blob, &rhs);
  };
  EXPECT_TRUE(refused(damaged(0, 'G', 1), QMM_INVALID_PACKED, {"mark of packed weights"}));
  EXPECT_TRUE(refused(damaged(8, 2, 4), QMM_INVALID_PACKED, {"version 2", "reads version 1"}));
  EXPECT_TRUE(refused(damaged(8, 0, 4), QMM_INVALID_PACKED, {"version 0"}));
  EXPECT_TRUE(refused(damaged(12, 0x04030201, 4), QMM_INVALID_PACKED, {"0x04030201", "0x01020304"}));
  EXPECT_TRUE(refused(damaged(16, 128, 4), QMM_INVALID_PACKED, {"[19, 23]"}));
  EXPECT_TRUE(refused(damaged(20, 3, 4), QMM_INVALID_PACKED, {"bits is 3"}));
  EXPECT_TRUE(refused(damaged(24, 3, 4), QMM_INVALID_PACKED, {"offset is 3"}));
  EXPECT_TRUE(refused(damaged(28, 4, 4), QMM_INVALID_PACKED, {"scale_dtype is 4"}));
  EXPECT_TRUE(refused(damaged(32, uint64_t(-1), 8), QMM_INVALID_PACKED, {"[-1, 23]"}));
  EXPECT_TRUE(refused(damaged(40, uint64_t(1) << 60, 8), QMM_INVALID_PACKED, {"2^40"}));
  EXPECT_TRUE(refused(damaged(48, 9, 8), QMM_INVALID_PACKED, {"group is 9"}));
  EXPECT_TRUE(refused(damaged(72, 1 << 20, 8), QMM_INVALID_PACKED, {"panels of 1048576"}));
  EXPECT_TRUE(refused(damaged(80, 64, 8), QMM_INVALID_PACKED, {"says 64 bytes"}));
  EXPECT_TRUE(refused(damaged(96, 256, 8), QMM_INVALID_PACKED, {"no other field set"}));  // a permutation: act-order
  EXPECT_TRUE(refused(damaged(104, 16, 4), QMM_INVALID_PACKED, {"no other field set"}));  // a codebook
  EXPECT_TRUE(refused(damaged(255, 1, 1), QMM_INVALID_PACKED, {"no other field set"}));
}

// All of it consistent, but for the bytes that are there.
TEST(Open, RefusesAHeaderOfLargerWeights) {
  Weights weights(make_desc(64, 24, 8, 4, QMM_ZEROS));
  Bytes blob = pack(weights);
  const std::string size = std::to_string(blob.size());
  blob.resize(blob.size() / 2);
  qmm_rhs rhs;
  EXPECT_TRUE(refused(try_open(blob, &rhs), QMM_INVALID_PACKED,
                      {("says " + size).c_str(), ("only " + std::to_string(blob.size())).c_str()}));
}

TEST(Verify, FindsEveryFlippedBit) {
  Bytes blob = example();
  const qmm_rhs rhs = open(blob);
  for (size_t i = 0; i < (blob.size() - 256) * 8; ++i) {
    uint8_t& byte = blob[256 + i / 8];
    const auto bit = static_cast<uint8_t>(1 << i % 8);
    byte ^= bit;
    ASSERT_EQ(qmm_rhs_verify(&rhs), QMM_INVALID_PACKED) << i;
    byte ^= bit;
  }
  EXPECT_EQ(qmm_rhs_verify(&rhs), QMM_OK);
}

// Damage of the same bit in two words, as a stuck line of a bus does it.
TEST(Verify, FindsTwoFlippedBits) {
  Bytes blob = example();
  const qmm_rhs rhs = open(blob);
  for (size_t bit = 0; bit < 64; ++bit)
    for (size_t distance = 8; distance <= 64; distance += 8) {
      for (const size_t at : {size_t(256), 256 + distance}) blob[at + bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      ASSERT_EQ(qmm_rhs_verify(&rhs), QMM_INVALID_PACKED) << bit << " " << distance;
      for (const size_t at : {size_t(256), 256 + distance}) blob[at + bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    }
}

// ---- a hostile payload ---------------------------------------------------------------------------------------------

// Any codes, scales, zeros and mins: the results mean nothing, but every access stays within the blob.
TEST(Open, KeepsAnyPayloadWithinItsBytes) {
  std::mt19937 random(2);
  for_each_format([&](int bits, int offset, int scale_dtype) {
    for (const auto& [n, k, group] : {std::array<int64_t, 3>{1, 1, 1}, {19, 23, 8}, {70, 72, 24}, {33, 40, 40}})
      for (const Flush flush : {Flush::Begin, Flush::End}) {
        Weights weights(make_desc(n, k, group, bits, offset, scale_dtype));
        Bytes bytes = pack(weights);
        for (size_t i = 256; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(random() >> 13);
        Guarded<uint8_t> blob(static_cast<int64_t>(bytes.size()), flush);
        std::copy(bytes.begin(), bytes.end(), blob.begin());
        blob.freeze();
        auto rhs = sized<qmm_rhs>();
        ASSERT_EQ(qmm_rhs_open(blob.data(), blob.bytes(), &rhs), QMM_OK) << qmm_last_error();
        EXPECT_EQ(qmm_rhs_verify(&rhs), QMM_INVALID_PACKED);

        const std::vector<float> x = integers(7, k, 3);
        Guarded<float> y(7 * n, flush), row(k, flush);
        for (const Kernel& kernel : kernels()) {
          if (kernel.bits != bits || (kernel.need & ~qmm_cpu_features()) != 0) continue;
          for (const int lhs_kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
            if ((kernel.lhs == Lhs::F32) != (lhs_kind == QMM_LHS_F32)) continue;
            for (const int64_t m : {1, 7}) {
              const qmm_matmul_args args = make_args(lhs_kind, m, x.data(), &rhs, y.data());
              ASSERT_EQ(matmul(&args, &kernel), QMM_OK) << qmm_last_error();
            }
          }
        }
        for (int64_t id = 0; id < n; ++id)
          ASSERT_EQ(qmm_dequantize_rows(&rhs, &id, 1, row.data(), k), QMM_OK) << qmm_last_error();
        Weights out(weights.desc);
        const qmm_weights view = out.view();
        ASSERT_EQ(qmm_unpack(&rhs, &view), QMM_OK) << qmm_last_error();
      }
  });
}

}  // namespace
}  // namespace qmm::test
