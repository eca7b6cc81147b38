// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm-convert-copies. MLIR lowers a memref.copy between layouts with strides to a call of its own runtime library,
// which a compiled program does without: here, such a copy becomes linalg.copy, and loops.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes.h"

namespace qmm {
namespace {

bool has_strides(mlir::Value value) {
  const auto type = llvm::dyn_cast<mlir::MemRefType>(value.getType());
  return type && !type.getLayout().isIdentity();
}

struct ConvertCopies : mlir::PassWrapper<ConvertCopies, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ConvertCopies)

  llvm::StringRef getArgument() const final { return "qmm-convert-copies"; }
  llvm::StringRef getDescription() const final { return "Convert copies of memrefs with strides to linalg.copy"; }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::linalg::LinalgDialect>();
  }

  void runOnOperation() override {
    getOperation().walk([](mlir::memref::CopyOp copy) {
      if (!has_strides(copy.getSource()) && !has_strides(copy.getTarget())) return;
      mlir::OpBuilder(copy).create<mlir::linalg::CopyOp>(copy.getLoc(), copy.getSource(), copy.getTarget());
      copy.erase();
    });
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> create_convert_copies_pass() { return std::make_unique<ConvertCopies>(); }

}  // namespace qmm
