// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes.h"

#include "llvm/Support/ErrorHandling.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace qmm {
namespace {

// Arguments of entries are dense: no offset, no strides. Wrappers are inlined after bufferization, which takes their
// results for memory of their own as long as they are calls. Weights that arithmetic on constants gives are constants
// by then (sccp).
constexpr llvm::StringLiteral kToLlvm = R"(
    sccp, qmm-lower-ops, qmm-convert-types,
    func.func(qmm-keep-arguments, canonicalize, cse, convert-elementwise-to-linalg),
    eliminate-empty-tensors, func.func(empty-tensor-to-alloc-tensor),
    one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map
                       allow-return-allocs-from-loops},
    qmm-dense-operands, inline, func.func(canonicalize, cse, qmm-own-results),
    qmm-verify-calls,
    buffer-deallocation-pipeline, convert-bufferization-to-memref,
    func.func(qmm-convert-copies, convert-linalg-to-loops, arith-expand{include-bf16=true}, lower-affine,
              convert-scf-to-cf),
    expand-strided-metadata, lower-affine,
    finalize-memref-to-llvm,
    func.func(convert-math-to-llvm), convert-math-to-libm, func.func(convert-arith-to-llvm), convert-index-to-llvm,
    convert-func-to-llvm, convert-cf-to-llvm, convert-ub-to-llvm, reconcile-unrealized-casts,
    qmm-close-module, symbol-dce)";

void build_pipeline(mlir::OpPassManager& manager) {
  if (mlir::failed(mlir::parsePassPipeline(kToLlvm, manager)))
    llvm::report_fatal_error("qmm-lower-to-llvm needs MLIR's own passes to be registered");
}

}  // namespace

void register_passes() {
  mlir::registerPass(create_lower_ops_pass);
  mlir::registerPass(create_convert_types_pass);
  mlir::registerPass(create_verify_calls_pass);
  mlir::registerPass(create_convert_copies_pass);
  mlir::registerPass(create_keep_arguments_pass);
  mlir::registerPass(create_own_results_pass);
  mlir::registerPass(create_dense_operands_pass);
  mlir::registerPass(create_close_module_pass);
  static const mlir::PassPipelineRegistration<> to_llvm(
      "qmm-lower-to-llvm", "Lower ops of libqmm, and what surrounds them, to the LLVM dialect", build_pipeline);
}

}  // namespace qmm
