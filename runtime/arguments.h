// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arguments of a matmul, checked: what is wrong with them ends here, in a sentence, before anything is written.
#pragma once

#include "choose.h"
#include "lhs.h"

namespace qmm {

// A call whose arguments are right.
struct Problem {
  LhsLayout lhs_layout;
  LhsSource source;  // where lhs is not given
  PackedLhs given;   // where it is
  bool lhs_given;
  int64_t batch, m, rows;  // batches, rows of one (at least 1), rows of all

  qmm_rhs_desc desc;
  Layout layout;
  const uint8_t* panels;       // packed, or nullptr:
  const qmm_weights* weights;  // canonical

  const float* bias;
  float* y;
  int64_t y_row_stride, y_col_stride, y_batch_stride;

  const Kernel* kernel;
  const Quantizer* quantizer;  // for an 8-bit lhs
  qmm_threads threads;
};

// Begins an lhs of qmm_quantize_lhs.
struct LhsHeader {
  uint64_t mark;
  int64_t kind, rows, k, group;
  uint64_t misaligned;  // of its address; the arrays are aligned behind it
};
LhsHeader make_lhs_header(const Problem& problem, const void* lhs);
size_t lhs_bytes(const Problem& problem);  // of such an lhs

// Whether the arrays exist yet, or only their shapes count.
enum class Arrays { Given, Ignored };

// Checks the arguments of a matmul. `forced` is the kernel to run, with the quantizer of its ISA, or
// nullptr for the chooser's.
qmm_status check_matmul(const char* function, const qmm_matmul_args* args, const Kernel* forced, Arrays arrays,
                        Problem* problem);

// Checks those that say how X is quantized: lhs_kind, x, and the rhs or desc that it is for; and, unless arrays are
// ignored, where it is to go.
qmm_status check_quantize_lhs(const char* function, const qmm_matmul_args* args, Arrays arrays, const void* lhs,
                              size_t lhs_size, Problem* problem);

qmm_status check_lhs_kind(const char* function, int32_t kind);
inline Lhs lhs_of(int32_t kind) { return kind == QMM_LHS_F32 ? Lhs::F32 : Lhs::S8; }

}  // namespace qmm
