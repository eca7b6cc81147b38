// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel alone, on one block that stays in a cache.
#pragma once

#include "../runtime/choose.h"
#include "weights.h"

namespace bench {

// A tile of columns as wide as the kernel's, of symmetric weights with f16 scales. The arrays lie as in a call of the
// library: the weights packed, all else side by side.
class KernelBlock {
 public:
  // A group of 0: one that began before the block and goes on after it, as where the weights have a scale a channel.
  KernelBlock(const qmm::Kernel& kernel, int64_t rows, int64_t k, int64_t group);

  void run() const { kernel_.run(block_); }
  double products() const { return double(block_.rows) * double(kernel_.nr) * double(block_.k); }

 private:
  const qmm::Kernel& kernel_;
  Buffer<std::byte> packed_, arena_;
  qmm::Block block_ = {};
};

}  // namespace bench
