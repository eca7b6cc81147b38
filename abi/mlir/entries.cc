// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a caller in C may rely on, at three stages of a pipeline: qmm-keep-arguments, qmm-own-results and
// qmm-close-module.
#include "mlir/Analysis/AliasAnalysis.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes.h"

namespace qmm {
namespace {

struct KeepArguments : mlir::PassWrapper<KeepArguments, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KeepArguments)

  llvm::StringRef getArgument() const final { return "qmm-keep-arguments"; }
  llvm::StringRef getDescription() const final {
    return "Have bufferization write to no argument of a public function; to run before it";
  }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::bufferization::BufferizationDialect>();
  }

  void runOnOperation() override {
    mlir::func::FuncOp function = getOperation();
    if (!function.isPublic() || function.isExternal()) return;
    for (const mlir::BlockArgument argument : function.getArguments())
      if (llvm::isa<mlir::TensorType>(argument.getType()))
        function.setArgAttr(argument.getArgNumber(), mlir::bufferization::BufferizationDialect::kWritableAttrName,
                            mlir::BoolAttr::get(&getContext(), false));
  }
};

// Deallocation leaves each result to the caller, which frees it: no two may be the same memory.
struct OwnResults : mlir::PassWrapper<OwnResults, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OwnResults)

  llvm::StringRef getArgument() const final { return "qmm-own-results"; }
  llvm::StringRef getDescription() const final {
    return "Clone results of public functions that may share memory with an earlier result; to run after "
           "bufferization and before deallocation is placed";
  }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::bufferization::BufferizationDialect>();
  }

  void runOnOperation() override {
    if (!getOperation().isPublic()) return;
    auto& aliases = getAnalysis<mlir::AliasAnalysis>();
    getOperation().walk([&](mlir::func::ReturnOp op) {
      mlir::OpBuilder builder(op);
      llvm::SmallVector<mlir::Value> earlier;
      for (mlir::OpOperand& result : op->getOpOperands()) {
        const mlir::Value value = result.get();
        if (!llvm::isa<mlir::BaseMemRefType>(value.getType())) continue;
        if (llvm::any_of(earlier, [&](mlir::Value other) { return !aliases.alias(other, value).isNo(); }))
          result.set(builder.create<mlir::bufferization::CloneOp>(op.getLoc(), value));
        earlier.push_back(value);
      }
    });
  }
};

struct CloseModule : mlir::PassWrapper<CloseModule, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CloseModule)

  llvm::StringRef getArgument() const final { return "qmm-close-module"; }
  llvm::StringRef getDescription() const final {
    return "Refuse what is not lowered to the LLVM dialect, and give internal linkage to what is private";
  }

  void runOnOperation() override {
    getOperation().walk([&](mlir::Operation* op) {
      // Casts are left only where an op that uses them is, and say nothing of their own.
      const llvm::StringRef dialect = op->getName().getDialectNamespace();
      if (dialect == "llvm" || dialect == "builtin") return;
      op->emitError("is left; nothing in qmm-lower-to-llvm lowers it");
      signalPassFailure();
    });
    // MLIR keeps the visibility of a function apart from its linkage, and gives its C interface none of its own.
    for (auto function : getOperation().getOps<mlir::LLVM::LLVMFuncOp>()) {
      if (!function.isPrivate()) continue;
      const std::string c_interface = "_mlir_ciface_" + function.getName().str();
      for (auto symbol : {function, getOperation().lookupSymbol<mlir::LLVM::LLVMFuncOp>(c_interface)})
        if (symbol && !symbol.isExternal()) {
          symbol.setLinkage(mlir::LLVM::Linkage::Internal);
          symbol.setVisibility(mlir::SymbolTable::Visibility::Private);
        }
    }
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> create_keep_arguments_pass() { return std::make_unique<KeepArguments>(); }
std::unique_ptr<mlir::Pass> create_own_results_pass() { return std::make_unique<OwnResults>(); }
std::unique_ptr<mlir::Pass> create_close_module_pass() { return std::make_unique<CloseModule>(); }

}  // namespace qmm
