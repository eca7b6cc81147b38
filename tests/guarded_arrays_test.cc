// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every kernel of the table, called directly, with each array of its Block between pages that may not be touched: it
// reads and writes what kernel.h says, to the byte. In a call of the library some of them lie side by side in one
// arena, and sanitizers do not see into vector kernels.
#include <gtest/gtest.h>

#include <numeric>
#include <sstream>
#include <vector>

#include "problem.h"
#include "runtime/choose.h"
#include "runtime/cpu.h"

namespace qmm {

// What GoogleTest prints for a kernel.
void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

namespace test {
namespace {

// One group or more in one block, or one group that goes on from block to block.
struct Case {
  int64_t rows, panels, group;
  std::vector<int64_t> blocks;  // k of each
  Scale scale;
  Offset offset;
  int64_t lhs_gap, group_gap, panel_gap;  // what lies between rows, elements; and between panels, bytes
  int64_t shift;                          // bytes before packed weights, which need no alignment
  Flush flush;

  int64_t k() const { return std::accumulate(blocks.begin(), blocks.end(), int64_t(0)); }
  int64_t groups() const { return ceil_div(k(), group); }
  int64_t scale_size() const { return scale == Scale::F32 ? 4 : 2; }
  int64_t offset_size() const { return offset == Offset::Zeros ? 1 : scale_size(); }
  std::string describe() const {
    std::ostringstream s;
    s << "rows " << rows << ", panels " << panels << ", group " << group << ", k";
    for (const int64_t block : blocks) s << " " << block;
    s << ", scales " << static_cast<int>(scale) << ", offset " << static_cast<int>(offset) << ", gaps " << lhs_gap
      << " " << group_gap << " " << panel_gap << ", shift " << shift << ", flush " << static_cast<int>(flush);
    return s.str();
  }
};

int64_t make_length(const Kernel& kernel, Random& random) {
  return std::min(8 * random.integer(1, 17), kernel.block_k);
}

// A case whose first block is so long.
Case make_case(const Kernel& kernel, int64_t length, Random& random) {
  Case c = {};
  c.panels = random.integer(1, kernel.nr / kPanel);
  c.scale = random.one_of({Scale::F32, Scale::F16, Scale::BF16});
  c.blocks = {length};
  c.group = random.one_of(
      {int64_t(8), int64_t(16), int64_t(24), int64_t(32), int64_t(40), int64_t(64), int64_t(128), c.k(), c.k() + 8});
  if (random.integer(0, 2) == 0) {
    while (c.blocks.size() < 2 || random.integer(0, 1) == 0) c.blocks.push_back(make_length(kernel, random));
    c.group = std::max(c.k(), kernel.block_k + 8);
  }
  c.lhs_gap = random.one_of({0, 0, 8, 24});
  c.group_gap = random.one_of({0, 0, 1, 3});
  c.panel_gap = random.one_of({0, 64});
  c.shift = random.one_of({0, 0, 1, 2, 31});
  return c;
}

// The numbers of a case: those of a group are the same in all of its blocks.
struct Numbers {
  std::vector<std::vector<int8_t>> s8;  // [rows][k]
  std::vector<std::vector<float>> f32;
  std::vector<std::vector<float>> lhs_scales;   // [rows][groups]
  std::vector<std::vector<uint32_t>> lhs_sums;  // the bits of int32 or float
  std::vector<uint32_t> scales, offsets;        // [panels][groups][16], their bits
  std::vector<float> acc;
};

Numbers make_numbers(const Kernel& kernel, const Case& c, Random& random) {
  Numbers n;
  for (int64_t r = 0; r < c.rows; ++r) {
    auto& s8 = n.s8.emplace_back();
    auto& f32 = n.f32.emplace_back();
    for (int64_t k = 0; k < c.k(); ++k) {
      s8.push_back(static_cast<int8_t>(random.integer(-127, 127)));
      f32.push_back(random.real(-4, 1));
    }
    auto& scales = n.lhs_scales.emplace_back();
    auto& sums = n.lhs_sums.emplace_back();
    for (int64_t k = 0; k < c.k(); k += c.group) {
      const auto begin = s8.begin() + k, end = s8.begin() + std::min(k + c.group, c.k());
      scales.push_back(random.real(-8, -5));
      sums.push_back(kernel.lhs == Lhs::S8 ? bit_copy<uint32_t>(std::accumulate(begin, end, int32_t(0)))
                                           : random.real(QMM_F32, -2, 4));
    }
  }
  const auto dtype = static_cast<int32_t>(c.scale);
  for (int64_t i = 0; i < c.panels * c.groups() * kPanel; ++i) {
    n.scales.push_back(random.scale(Values::Ordinary, dtype));
    const int64_t zero = kernel.bits == 4 ? random.integer(0, 16) : random.integer(-128, 127);
    n.offsets.push_back(c.offset == Offset::Zeros ? static_cast<uint32_t>(zero)
                                                  : random.scale(Values::Ordinary, dtype));
  }
  for (int64_t i = 0; i < c.rows * c.panels * kPanel; ++i) n.acc.push_back(random.real(-4, 1));
  return n;
}

// What one block reads.
class Input {
 public:
  Input(const Kernel& kernel, const Case& c, size_t index, const Numbers& numbers, Random& random)
      : k_(c.blocks[index]),
        groups_(ceil_div(k_, c.group)),
        lhs_stride_(k_ + c.lhs_gap),
        group_stride_(groups_ + c.group_gap),
        panel_stride_(round_up(std::max(k_ * kPanel * kernel.bits / 8, groups_ * kPanel * 4), kLine) + c.panel_gap),
        lhs_(((c.rows - 1) * lhs_stride_ + k_) * (kernel.lhs == Lhs::S8 ? 1 : 4), c.flush),
        lhs_scales_(kernel.lhs == Lhs::S8 ? (c.rows - 1) * group_stride_ + groups_ : 0, c.flush),
        lhs_sums_(kernel.lhs == Lhs::S8 || c.offset == Offset::Mins ? (c.rows - 1) * group_stride_ + groups_ : 0,
                  c.flush),
        codes_(panels(c, k_ * kPanel * kernel.bits / 8 + kPastCodes), c.flush),
        scales_(panels(c, groups_ * kPanel * c.scale_size()), c.flush),
        offsets_(c.offset == Offset::Symmetric ? 0 : panels(c, groups_ * kPanel * c.offset_size()), c.flush),
        next_(0) {
    const int64_t before =
        std::accumulate(c.blocks.begin(), c.blocks.begin() + static_cast<int64_t>(index), int64_t(0));
    for (int64_t i = 0; i < c.rows; ++i) {
      const auto r = static_cast<size_t>(i);
      if (kernel.lhs == Lhs::S8)
        std::memcpy(lhs_.data() + i * lhs_stride_, numbers.s8[r].data() + before, static_cast<size_t>(k_));
      else
        std::memcpy(lhs_.data() + i * lhs_stride_ * 4, numbers.f32[r].data() + before, static_cast<size_t>(k_) * 4);
      if (lhs_scales_.size() > 0)
        std::copy_n(numbers.lhs_scales[r].begin(), groups_, lhs_scales_.begin() + i * group_stride_);
      if (lhs_sums_.size() > 0)
        std::copy_n(numbers.lhs_sums[r].begin(), groups_, lhs_sums_.begin() + i * group_stride_);
    }
    for (uint8_t& byte : codes_) byte = static_cast<uint8_t>(random.integer(0, 255));
    const auto fill = [&](uint8_t* to, const std::vector<uint32_t>& bits, int64_t size) {
      for (int64_t p = 0; p < c.panels; ++p)
        for (int64_t i = 0; i < groups_ * kPanel; ++i)
          std::memcpy(to + p * panel_stride_ + i * size, &bits[static_cast<size_t>(p * groups_ * kPanel + i)],
                      static_cast<size_t>(size));
    };
    fill(scales_.data() + c.shift, numbers.scales, c.scale_size());
    if (c.offset != Offset::Symmetric) fill(offsets_.data() + c.shift, numbers.offsets, c.offset_size());
    lhs_.freeze(), lhs_scales_.freeze(), lhs_sums_.freeze(), codes_.freeze(), scales_.freeze(), offsets_.freeze();

    block.rows = c.rows;
    block.panels = c.panels;
    block.k = k_;
    block.group = c.group;
    block.resume = index > 0;
    block.suspend = index + 1 < c.blocks.size();
    block.lhs = lhs_.data();
    block.lhs_stride = lhs_stride_;
    block.lhs_scales = lhs_scales_.data();
    block.lhs_sums = lhs_sums_.data();
    block.lhs_group_stride = group_stride_;
    block.codes = codes_.data() + c.shift;
    block.scales = scales_.data() + c.shift;
    block.offsets = offsets_.data() + (offsets_.size() > 0 ? c.shift : 0);
    block.panel_stride = panel_stride_;
    block.scale = c.scale;
    block.offset = c.offset;
    block.next_codes = block.next_scales = block.next_offsets = next_.data();
  }

  Block block = {};

 private:
  static constexpr int64_t kPastCodes = 3;  // what may be read past the codes: these bytes mean nothing

  // Bytes of an array of every panel that has so many of one.
  int64_t panels(const Case& c, int64_t size) const { return c.shift + (c.panels - 1) * panel_stride_ + size; }

  int64_t k_, groups_, lhs_stride_, group_stride_, panel_stride_;
  Guarded<uint8_t> lhs_;
  Guarded<float> lhs_scales_;
  Guarded<uint32_t> lhs_sums_;
  Guarded<uint8_t> codes_, scales_, offsets_, next_;
};

// What the blocks of a case write.
class Output {
 public:
  Output(const Case& c, const std::vector<float>& acc)
      : acc_(c.rows * c.panels * kPanel, c.flush),
        carry_((c.rows + c.rows % 2) * c.panels * kPanel, c.flush),
        scratch_(kScratch) {
    std::copy(acc.begin(), acc.end(), acc_.begin());
    std::fill(carry_.begin(), carry_.end(), 0x7fa5a5a5u);
    std::fill(scratch_.begin(), scratch_.end(), uint8_t(0xff));
  }

  void run(const Kernel& kernel, Block block) {
    block.acc = acc_.data();
    block.carry = carry_.data();
    block.scratch = scratch_.data();
    kernel.run(block);
  }
  std::vector<uint32_t> bits() const {
    std::vector<uint32_t> bits;
    for (const float value : acc_) bits.push_back(bit_copy<uint32_t>(value));
    return bits;
  }

 private:
  Guarded<float> acc_;
  Guarded<uint32_t> carry_;
  Guarded<uint8_t> scratch_;
};

void check(const Kernel& kernel, const Case& c, Random& random) {
  SCOPED_TRACE(c.describe());
  const Numbers numbers = make_numbers(kernel, c, random);
  Output got(c, numbers.acc), want(c, numbers.acc);
  for (size_t i = 0; i < c.blocks.size(); ++i) {
    const Input input(kernel, c, i, numbers, random);
    got.run(kernel, input.block);
    want.run(*choose(0, kernel.lhs, kernel.bits, 1), input.block);
  }
  EXPECT_EQ(got.bits(), want.bits());
}

class GuardedArrays : public testing::TestWithParam<Kernel> {};

INSTANTIATE_TEST_SUITE_P(Kernels, GuardedArrays, testing::ValuesIn(kernels().begin(), kernels().end()),
                         [](const auto& info) { return info.param.name; });

TEST_P(GuardedArrays, AreAllThatIsTouched) {
  const Kernel& kernel = GetParam();
  if ((kernel.need & ~decode_cpu(read_cpu_words())) != 0) GTEST_SKIP() << "this CPU can not run " << kernel.name;
  Random random(1);
  const auto check_all = [&](int64_t rows, const auto& length) {
    for (const Offset offset : {Offset::Symmetric, Offset::Zeros, Offset::Mins})
      for (const Flush flush : {Flush::Begin, Flush::End}) {
        if (HasFailure()) return;
        Case c = make_case(kernel, length(), random);
        c.rows = rows;
        c.offset = offset;
        c.flush = flush;
        check(kernel, c, random);
      }
  };
  // So that each number of rows that a tile may have ends at a guard, and begins at one. The fewer they are, the more
  // turns they get, for other groups and scales.
  for (int64_t turn = 0; turn < ceil_div(16, kernel.mr + 1); ++turn)
    for (int64_t rows = 1; rows <= kernel.mr + 1; ++rows) check_all(rows, [&] { return make_length(kernel, random); });
  check_all(random.integer(1, kernel.mr + 1), [&] { return kernel.block_k; });
}

}  // namespace
}  // namespace test
}  // namespace qmm
