// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What instructions.py has callgrind count: every row of the table beyond scalar, each alone; then what a call takes
// outside of its kernel, and the quantization of an lhs. A dump of callgrind is a figure, named "<what> / <how many>":
// instructions are to be divided by that. Given a regular expression, count_instructions runs the kernels whose figures
// match, says each name, and leaves the counting to an emulator (bench/model).
#include <callgrind.h>

#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "runtime/choose.h"
#include "runtime/cpu.h"
#include "runtime/matmul.h"

namespace qmm {
namespace {

void require(qmm_status status) {
  if (status == QMM_OK) return;
  std::fprintf(stderr, "count_instructions: %s\n", qmm_last_error());
  std::exit(1);
}

// The kernel that is to run, and the same with the collection switched on, or off, for as long as it runs.
KernelFunction* inner;
Kernel toggle(const Kernel& kernel) {
  inner = kernel.run;
  Kernel toggled = kernel;
  toggled.run = [](const Block& block) {
    CALLGRIND_TOGGLE_COLLECT;
    inner(block);
    CALLGRIND_TOGGLE_COLLECT;
  };
  return toggled;
}

bool says_names = false;

// An emulator knows its address.
__attribute__((noinline)) void dump(const std::string& what, int64_t divisor) {
  const std::string name = what + " / " + std::to_string(divisor);
  if (says_names) std::puts(name.c_str());
  CALLGRIND_DUMP_STATS_AT(name.c_str());
}

// A matmul of any numbers, on one thread. The instructions that run do not depend on them.
class Problem {
 public:
  Problem(int32_t lhs_kind, int32_t bits, int32_t offset, int64_t group, int64_t m, int64_t n, int64_t k)
      : x_(static_cast<size_t>(m * k)), y_(static_cast<size_t>(m * n)) {
    auto desc = sized<qmm_rhs_desc>();
    desc.n = n;
    desc.k = k;
    desc.group = group;
    desc.bits = bits;
    desc.offset = offset;
    desc.scale_dtype = QMM_F16;
    const int64_t groups = (k + group - 1) / group;
    std::vector<uint8_t> codes(static_cast<size_t>(n * k * bits / 8), 0x5a);
    std::vector<uint16_t> scales(static_cast<size_t>(n * groups), 0x3c00);
    std::vector<uint16_t> offsets(static_cast<size_t>(n * groups), 0x0707);  // as zeros, or as mins
    auto weights = sized<qmm_weights>();
    weights.codes = codes.data();
    weights.codes_stride = k * bits / 8;
    weights.scales = scales.data();
    weights.scales_stride = groups;
    weights.offsets = offset == QMM_SYMMETRIC ? nullptr : offsets.data();
    weights.offsets_stride = groups;
    size_t size = 0;
    require(qmm_packed_size(&desc, &size));
    packed_.resize(size);
    require(qmm_pack(&desc, &weights, packed_.data(), size));
    rhs_ = sized<qmm_rhs>();
    require(qmm_rhs_open(packed_.data(), size, &rhs_));
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 97) - 48;
    args = sized<qmm_matmul_args>();
    args.lhs_kind = lhs_kind;
    args.m = m;
    args.x = x_.data();
    args.x_row_stride = k;
    args.rhs = &rhs_;
    args.y = y_.data();
    args.y_row_stride = n;
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  qmm_matmul_args args;

 private:
  std::vector<float> x_, y_;
  std::vector<uint8_t> packed_;
  qmm_rhs rhs_;
};

constexpr const char* kOffsets[] = {"symmetric", "zeros", "mins"};
constexpr const char* kLhsKinds[] = {"f32", "s8", "s8_token"};
static_assert(QMM_SYMMETRIC == 0 && QMM_ZEROS == 1 && QMM_MINS == 2);
static_assert(QMM_LHS_F32 == 0 && QMM_LHS_S8 == 1 && QMM_LHS_S8_TOKEN == 2);

// Instructions a MAC, in one tile of columns: others take the same. A channel is long enough to be cut into blocks.
void count_kernel(const Kernel& kernel, const std::regex& wanted) {
  constexpr int64_t kK = 2048;
  const int32_t kind = kernel.lhs == Lhs::F32 ? QMM_LHS_F32 : QMM_LHS_S8;
  std::vector<int64_t> rows;
  for (const int64_t m : {1, 4, 5, 128})
    if (choose(kernel.need, kernel.lhs, kernel.bits, m)->run == kernel.run) rows.push_back(m);
  if (rows.empty()) rows.push_back(kernel.min_m);
  for (const int32_t offset : {QMM_SYMMETRIC, QMM_ZEROS, QMM_MINS})
    for (const int64_t group : {int64_t(32), int64_t(128), kK})
      for (const int64_t m : rows) {
        const std::string name = std::string(kernel.name) + ", " + kOffsets[offset] + ", " +
                                 (group == kK ? "per channel" : "group " + std::to_string(group)) + ", M " +
                                 std::to_string(m);
        if (!std::regex_search(name, wanted)) continue;
        const Problem problem(kind, kernel.bits, offset, group, m, kernel.nr, kK);
        const Kernel toggled = toggle(kernel);
        require(matmul(&problem.args, &toggled));
        dump(name, m * kernel.nr * kK);
      }
}

// Instructions a row, those of the kernel left out.
void count_call(uint64_t features, int32_t kind, int64_t m, int64_t n, int64_t k) {
  constexpr int32_t kBits = 4;
  const Problem problem(kind, kBits, QMM_SYMMETRIC, 32, m, n, k);
  const Kernel toggled = toggle(*choose(features, kind == QMM_LHS_F32 ? Lhs::F32 : Lhs::S8, kBits, m));
  require(matmul(&problem.args, &toggled));  // the first call allocates
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  require(matmul(&problem.args, &toggled));
  CALLGRIND_TOGGLE_COLLECT;
  dump(std::string("call without kernel, ") + kLhsKinds[kind] + ", M " + std::to_string(m) + ", N " +
           std::to_string(n) + ", K " + std::to_string(k),
       m);
}

// Instructions an element.
void count_quantize_lhs(int32_t kind, int64_t group) {
  constexpr int64_t kM = 16, kK = 4096;
  const Problem problem(kind, 4, QMM_SYMMETRIC, group, kM, 16, kK);
  size_t size = 0;
  require(qmm_lhs_size(&problem.args, &size));
  std::vector<uint8_t> lhs(size);
  CALLGRIND_TOGGLE_COLLECT;
  require(qmm_quantize_lhs(&problem.args, lhs.data(), size));
  CALLGRIND_TOGGLE_COLLECT;
  dump(std::string("qmm_quantize_lhs, ") + kLhsKinds[kind] + ", group " + std::to_string(group), kM * kK);
}

int run(const char* wanted) {
  if (!wanted && !RUNNING_ON_VALGRIND) {
    std::fprintf(stderr, "count_instructions counts nothing by itself: run instructions.py\n");
    return 1;
  }
  says_names = wanted != nullptr;
  const std::regex pattern(wanted ? wanted : "");
  const uint64_t features = decode_cpu(read_cpu_words());
  for (const Kernel& kernel : kernels()) {
    if (kernel.need == 0) continue;
    if ((kernel.need & ~features) == 0)
      count_kernel(kernel, pattern);
    else if (!wanted)
      std::printf("%s: valgrind has no such CPU here\n", kernel.name);
  }
  if (wanted) return 0;
  for (const int32_t kind : {QMM_LHS_F32, QMM_LHS_S8, QMM_LHS_S8_TOKEN}) {
    count_call(features, kind, 1, 16, 32);
    count_call(features, kind, 1, 576, 576);
    count_call(features, kind, 128, 576, 576);
  }
  for (const int64_t group : {32, 128}) count_quantize_lhs(QMM_LHS_S8, group);
  count_quantize_lhs(QMM_LHS_S8_TOKEN, 32);
  return 0;
}

}  // namespace
}  // namespace qmm

int main(int argc, char** argv) {
  // Aligns the stack, which begins where the program's path and environment end: memset takes more where it is not.
  alignas(64) char line[64];
  asm volatile("" : : "r"(line) : "memory");
  return qmm::run(argc > 1 ? argv[1] : nullptr);
}
