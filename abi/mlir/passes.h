// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes from ops of the table (ops.inc) to calls of libqmm's memref entry points, for MLIR 19.
#pragma once

#include <memory>

#include "mlir/Pass/Pass.h"

namespace qmm {

/// qmm-lower-ops: replaces ops of the table, and stablehlo.custom_call of any target, by calls.
std::unique_ptr<mlir::Pass> create_lower_ops_pass();

/// qmm-convert-types: makes tensors of builtin, signless types of what torch-mlir and StableHLO call them.
std::unique_ptr<mlir::Pass> create_convert_types_pass();

/// qmm-verify-calls: between bufferization and deallocation, refuses pointers taken out of memrefs.
std::unique_ptr<mlir::Pass> create_verify_calls_pass();

/// qmm-convert-copies: makes loops of copies between memrefs with strides, which would call MLIR's runtime library.
std::unique_ptr<mlir::Pass> create_convert_copies_pass();

/// qmm-keep-arguments: has bufferization write to no argument of a public function.
std::unique_ptr<mlir::Pass> create_keep_arguments_pass();

/// qmm-own-results: between bufferization and deallocation, clones results that may share memory with earlier ones.
std::unique_ptr<mlir::Pass> create_own_results_pass();

/// qmm-dense-operands: right after bufferization, copies operands of calls whose rows may not be dense.
std::unique_ptr<mlir::Pass> create_dense_operands_pass();

/// qmm-close-module: last, refuses what is not lowered to the LLVM dialect; what is private gets internal linkage.
std::unique_ptr<mlir::Pass> create_close_module_pass();

/// Registers the passes, and the pipeline qmm-lower-to-llvm that ends in the LLVM dialect.
void register_passes();

}  // namespace qmm
