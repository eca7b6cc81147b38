// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm-dense-operands. Entry points take x with any strides, all else with dense rows. What a value is in memory,
// bufferization alone decides: the wrappers that qmm-lower-ops makes take memrefs of any strides. Where rows may not be
// dense then, the callers of the wrappers pass copies.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes.h"
#include "types.h"

namespace qmm {
namespace {

bool has_dense_rows(mlir::MemRefType type) {
  llvm::SmallVector<int64_t> strides;
  int64_t offset;
  return mlir::succeeded(mlir::getStridesAndOffset(type, strides, offset)) && (strides.empty() || strides.back() == 1);
}

mlir::Value dense_copy(mlir::OpBuilder& builder, mlir::Location at, mlir::Value source) {
  const auto given = llvm::cast<mlir::MemRefType>(source.getType());
  llvm::SmallVector<mlir::Value> extents;
  for (unsigned i = 0; i < given.getRank(); ++i)
    if (given.isDynamicDim(i)) extents.push_back(builder.create<mlir::memref::DimOp>(at, source, i));
  const auto type = mlir::MemRefType::get(given.getShape(), given.getElementType());
  const mlir::Value copy = builder.create<mlir::memref::AllocOp>(at, type, extents, builder.getI64IntegerAttr(64));
  builder.create<mlir::memref::CopyOp>(at, source, copy);
  return copy;
}

struct DenseOperands : mlir::PassWrapper<DenseOperands, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DenseOperands)

  llvm::StringRef getArgument() const final { return "qmm-dense-operands"; }
  llvm::StringRef getDescription() const final {
    return "Copy operands of libqmm's entry points whose rows may not be dense; to run right after bufferization";
  }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::memref::MemRefDialect>();
  }

  void runOnOperation() override {
    const mlir::SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<mlir::func::FuncOp>()) {
      if (function.getName().ends_with(kWrapper)) continue;  // which passes on what it gets
      function.walk([&](mlir::func::CallOp call) {
        llvm::StringRef name = call.getCallee();
        if (!name.starts_with("qmm_") || !name.consume_back(kWrapper)) return;
        auto entry = symbols.lookup<mlir::func::FuncOp>(name);
        if (!entry) return;
        for (const auto [operand, type] : llvm::zip(call->getOpOperands(), entry.getArgumentTypes())) {
          mlir::Value source = operand.get();
          while (auto cast = source.getDefiningOp<mlir::memref::CastOp>()) source = cast.getSource();
          const auto given = llvm::dyn_cast<mlir::MemRefType>(source.getType());
          const auto taken = llvm::dyn_cast<mlir::MemRefType>(type);
          if (!given || !taken || !has_dense_rows(taken) || has_dense_rows(given)) continue;
          mlir::OpBuilder builder(call);
          const mlir::Value copy = dense_copy(builder, call.getLoc(), source);
          operand.set(builder.create<mlir::memref::CastOp>(call.getLoc(), operand.get().getType(), copy));
        }
      });
    }
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> create_dense_operands_pass() { return std::make_unique<DenseOperands>(); }

}  // namespace qmm
