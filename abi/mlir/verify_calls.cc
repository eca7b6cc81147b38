// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm-verify-calls. Deallocation is placed after the last use of a buffer that MLIR can see. A pointer that was taken
// out of a memref is none: the buffer may be freed before the call that reads it. So until deallocation is placed,
// nothing may turn a memref into something else, and calls of libqmm take memrefs.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes.h"

namespace qmm {
namespace {

bool is_memref(mlir::Type type) { return llvm::isa<mlir::BaseMemRefType>(type); }

// What LLVM's types and those of dialects that are not registered hold can not be told.
bool may_be_pointer(mlir::Type type) {
  return llvm::isa<mlir::OpaqueType>(type) || type.getDialect().getNamespace() == "llvm";
}

struct VerifyCalls : mlir::PassWrapper<VerifyCalls, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyCalls)

  llvm::StringRef getArgument() const final { return "qmm-verify-calls"; }
  llvm::StringRef getDescription() const final {
    return "Refuse pointers taken out of memrefs; to run after bufferization and before deallocation is placed";
  }

  void runOnOperation() override {
    bool failed = false;
    getOperation().walk([&](mlir::Operation* op) {
      if (auto call = llvm::dyn_cast<mlir::func::CallOp>(op)) failed |= mlir::failed(check_call(call));
      if (llvm::any_of(op->getOperandTypes(), is_memref)) failed |= mlir::failed(check_results(op));
    });
    if (failed) signalPassFailure();
  }

  static mlir::LogicalResult check_call(mlir::func::CallOp call) {
    for (const auto [i, operand] : llvm::enumerate(call.getOperands())) {
      if (llvm::isa<mlir::TensorType>(operand.getType()))
        return call.emitError() << "operand " << i << " of @" << call.getCallee() << " is " << operand.getType()
                                << "; bufferize before this pass";
      const auto argument = llvm::dyn_cast<mlir::BlockArgument>(operand);
      const bool is_given = argument && llvm::isa<mlir::func::FuncOp>(argument.getOwner()->getParentOp()) &&
                            argument.getOwner()->isEntryBlock();
      if (call.getCallee().starts_with("qmm_") && llvm::isa<mlir::LLVM::LLVMPointerType>(operand.getType()) &&
          !is_given)
        return call.emitError() << "operand " << i << " of @" << call.getCallee()
                                << " is a pointer; only an argument of the function can be one";
    }
    return mlir::success();
  }

  // Sizes and values may leave a memref, its address may not.
  static mlir::LogicalResult check_results(mlir::Operation* op) {
    const bool is_cast =
        llvm::isa<mlir::UnrealizedConversionCastOp>(op) && !llvm::all_of(op->getResultTypes(), is_memref);
    if (!is_cast && !llvm::isa<mlir::memref::ExtractAlignedPointerAsIndexOp>(op) &&
        llvm::none_of(op->getResultTypes(), may_be_pointer))
      return mlir::success();
    return op->emitError() << "takes a pointer out of a memref before deallocation is placed: the memory may be freed "
                              "before the pointer is used; pass the memref, or run buffer-deallocation-pipeline first";
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> create_verify_calls_pass() { return std::make_unique<VerifyCalls>(); }

}  // namespace qmm
