// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel_block.h"

#include <algorithm>
#include <cstring>

#include "../runtime/layout.h"

namespace bench {

KernelBlock::KernelBlock(const qmm::Kernel& kernel, int64_t rows, int64_t k, int64_t group) : kernel_(kernel) {
  const bool open = group == 0;
  const auto desc = describe({kernel.nr, k}, {"", kernel.bits, group, QMM_SYMMETRIC, QMM_F16});
  qmm::Layout layout;
  require(qmm::make_layout("KernelBlock", &desc, &layout));
  packed_ = allocate<std::byte>(static_cast<size_t>(layout.size));
  // The time does not depend on the numbers, but for subnormal ones: codes of 5, scales of 2^-9, and an lhs of 1.
  std::memset(packed_.get(), 0x55, packed_.size);
  auto* panels = reinterpret_cast<uint8_t*>(packed_.get()) + sizeof(qmm::Header);
  const int64_t groups = qmm::ceil_div(k, desc.group);
  for (int64_t p = 0; p < layout.panels; ++p) {
    auto* scales = reinterpret_cast<uint16_t*>(panels + p * layout.panel_stride + layout.scales_at);
    std::fill_n(scales, groups * qmm::kPanel, uint16_t(0x1800));
  }

  const int64_t element = kernel.lhs == qmm::Lhs::F32 ? 4 : 1;
  const int64_t acc_size = qmm::round_up(rows, 2) * kernel.nr * 4;  // as carry's, which has rows in pairs
  const int64_t lhs_stride = k + qmm::kLine / element;
  arena_ = allocate<std::byte>(
      static_cast<size_t>(rows * (lhs_stride * element + groups * 8) + 2 * acc_size + qmm::kScratch + 4 * qmm::kLine));
  auto* next = arena_.get();
  const auto take = [&](int64_t bytes, float value) {
    auto* array = reinterpret_cast<float*>(next);
    std::fill_n(array, bytes / 4, value);
    next += qmm::round_up(bytes, qmm::kLine);
    return array;
  };
  block_.rows = rows;
  block_.panels = layout.panels;
  block_.k = k;
  block_.group = open ? kernel.block_k + 8 : group;
  block_.resume = block_.suspend = open;
  auto* lhs = take(rows * lhs_stride * element, 1);
  if (element == 1) std::memset(lhs, 1, static_cast<size_t>(rows * lhs_stride));
  block_.lhs = lhs;
  block_.lhs_stride = lhs_stride;
  block_.lhs_scales = take(rows * groups * 4, 1);
  block_.lhs_sums = take(rows * groups * 4, 0);
  block_.lhs_group_stride = groups;
  block_.codes = block_.next_codes = panels;
  block_.scales = block_.next_scales = panels + layout.scales_at;
  block_.panel_stride = layout.panel_stride;
  block_.scale = qmm::Scale::F16;
  block_.offset = qmm::Offset::Symmetric;
  block_.acc = take(acc_size, 0);
  block_.carry = take(acc_size, 0);
  block_.scratch = take(qmm::kScratch, 0);
}

}  // namespace bench
