// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm-convert-types: functions on !torch.vtensor and on tensors of signed or unsigned integers become functions on
// builtin, signless tensors; casts between the two go, literals become arith.constant. What torch-mlir itself has to
// lower must be lowered by then.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Transforms/DialectConversion.h"
#include "passes.h"
#include "types.h"

namespace qmm {

namespace {

// An element type of torch's or of ours: null where there is no builtin one, or none that is used here.
mlir::Type read_element(llvm::StringRef text, mlir::MLIRContext* context) {
  mlir::Builder builder(context);
  const auto type = llvm::StringSwitch<mlir::Type>(text)
                        .Case("f16", builder.getF16Type())
                        .Case("bf16", builder.getBF16Type())
                        .Case("f32", builder.getF32Type())
                        .Case("f64", builder.getF64Type())
                        .Case("i1", builder.getI1Type())
                        .Default({});
  if (type) return type;
  auto signedness = mlir::IntegerType::Signless;
  if (text.consume_front("s")) signedness = mlir::IntegerType::Signed;
  if (text.consume_front("u")) signedness = mlir::IntegerType::Unsigned;
  return llvm::StringSwitch<mlir::Type>(text)
      .Case("i8", mlir::IntegerType::get(context, 8, signedness))
      .Case("i16", mlir::IntegerType::get(context, 16, signedness))
      .Case("i32", mlir::IntegerType::get(context, 32, signedness))
      .Case("i64", mlir::IntegerType::get(context, 64, signedness))
      .Default({});
}

mlir::Type signless(mlir::Type element) {
  const auto integer = llvm::dyn_cast<mlir::IntegerType>(element);
  return integer && !integer.isSignless() ? mlir::IntegerType::get(element.getContext(), integer.getWidth()) : element;
}

TensorType tensor_type(llvm::ArrayRef<int64_t> shape, mlir::Type element, mlir::Attribute encoding = {}) {
  int64_t elements = 1;
  for (const int64_t extent : shape)
    if (extent > 0 && __builtin_mul_overflow(elements, extent, &elements)) return {};  // no memory holds them
  std::string dtype;
  llvm::raw_string_ostream out(dtype);
  if (const auto integer = llvm::dyn_cast<mlir::IntegerType>(element))
    out << (integer.isUnsigned()                            ? "u"
            : integer.isSigned() || integer.getWidth() != 8 ? "i"
                                                            : "")
        << integer.getWidth();
  else
    out << element;
  return {mlir::RankedTensorType::get(shape, signless(element), encoding), dtype};
}

}  // namespace

bool is_torch_type(mlir::Type type) {
  const auto opaque = llvm::dyn_cast<mlir::OpaqueType>(type);
  return opaque && opaque.getDialectNamespace() == "torch";
}

TensorType read_tensor_type(mlir::Type type) {
  if (const auto builtin = llvm::dyn_cast<mlir::RankedTensorType>(type))
    return tensor_type(builtin.getShape(), builtin.getElementType(), builtin.getEncoding());
  if (!is_torch_type(type)) return {};
  llvm::StringRef text = llvm::cast<mlir::OpaqueType>(type).getTypeData();
  if (!text.consume_front("vtensor<[") || !text.consume_back(">")) return {};
  const auto [extents, element_text] = text.split("],");
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<llvm::StringRef> parts;
  if (!extents.empty()) extents.split(parts, ',');
  for (llvm::StringRef part : parts) {
    part = part.trim();
    int64_t extent = mlir::ShapedType::kDynamic;
    if (part != "?" && (part.getAsInteger(10, extent) || extent < 0)) return {};
    shape.push_back(extent);
  }
  const mlir::Type element = read_element(element_text.trim(), type.getContext());
  return element ? tensor_type(shape, element) : TensorType{};
}

constexpr llvm::StringLiteral kCasts[] = {"torch_c.to_builtin_tensor", "torch_c.from_builtin_tensor",
                                          "builtin.unrealized_conversion_cast"};
constexpr llvm::StringLiteral kLiterals[] = {"torch.vtensor.literal", "stablehlo.constant", "arith.constant"};

bool is_cast(mlir::Operation* op) {
  return op->getNumOperands() == 1 && llvm::is_contained(kCasts, op->getName().getStringRef());
}

bool is_literal(mlir::Operation* op) { return llvm::is_contained(kLiterals, op->getName().getStringRef()); }

namespace {

// A cast between a type and what it is converted to says nothing any more.
struct EraseCast : mlir::ConversionPattern {
  EraseCast(const mlir::TypeConverter& converter, llvm::StringRef name, mlir::MLIRContext* context)
      : ConversionPattern(converter, name, 1, context) {}

  mlir::LogicalResult matchAndRewrite(mlir::Operation* op, llvm::ArrayRef<mlir::Value> operands,
                                      mlir::ConversionPatternRewriter& rewriter) const override {
    if (operands.size() != 1 || op->getNumResults() != 1) return mlir::failure();
    if (operands[0].getType() != getTypeConverter()->convertType(op->getResult(0).getType())) return mlir::failure();
    rewriter.replaceOp(op, operands[0]);
    return mlir::success();
  }
};

struct ConvertLiteral : mlir::ConversionPattern {
  ConvertLiteral(const mlir::TypeConverter& converter, llvm::StringRef name, mlir::MLIRContext* context)
      : ConversionPattern(converter, name, 1, context) {}

  mlir::LogicalResult matchAndRewrite(mlir::Operation* op, llvm::ArrayRef<mlir::Value> operands,
                                      mlir::ConversionPatternRewriter& rewriter) const override {
    if (!operands.empty() || op->getNumResults() != 1) return mlir::failure();
    auto type = getTypeConverter()->convertType<mlir::RankedTensorType>(op->getResult(0).getType());
    const mlir::Attribute value = op->getAttr("value");
    mlir::TypedAttr converted;
    if (auto dense = llvm::dyn_cast_or_null<mlir::DenseIntElementsAttr>(value))
      converted = dense.bitcast(signless(dense.getElementType()));
    else if (const auto floats = llvm::dyn_cast_or_null<mlir::DenseFPElementsAttr>(value))
      converted = floats;
    else if (const auto resource = llvm::dyn_cast_or_null<mlir::DenseResourceElementsAttr>(value))
      converted = mlir::DenseResourceElementsAttr::get(resource.getType().clone(signless(resource.getElementType())),
                                                       resource.getRawHandle());
    if (!converted || converted.getType() != type) return rewriter.notifyMatchFailure(op, "value is of another type");
    rewriter.replaceOpWithNewOp<mlir::arith::ConstantOp>(op, converted);
    return mlir::success();
  }
};

// What moves elements and computes nothing of them, as tensor.extract_slice and arith.select do, takes any: MLIR's own
// arithmetic has no signed or unsigned operands.
struct ConvertElements : mlir::ConversionPattern {
  ConvertElements(const mlir::TypeConverter& converter, mlir::MLIRContext* context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), 0, context) {}  // where no other pattern is

  mlir::LogicalResult matchAndRewrite(mlir::Operation* op, llvm::ArrayRef<mlir::Value> operands,
                                      mlir::ConversionPatternRewriter& rewriter) const override {
    if (!op->isRegistered() || op->getNumRegions() != 0 || op->getNumSuccessors() != 0) return mlir::failure();
    mlir::OperationState state(op->getLoc(), op->getName(), operands, {}, op->getAttrs());
    if (mlir::failed(getTypeConverter()->convertTypes(op->getResultTypes(), state.types))) return mlir::failure();
    rewriter.replaceOp(op, rewriter.create(state));
    return mlir::success();
  }
};

struct ConvertTypes : mlir::PassWrapper<ConvertTypes, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ConvertTypes)

  llvm::StringRef getArgument() const final { return "qmm-convert-types"; }
  llvm::StringRef getDescription() const final {
    return "Convert torch tensors, and tensors of signed or unsigned integers, to builtin, signless tensors";
  }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::arith::ArithDialect, mlir::scf::SCFDialect>();
  }

  void runOnOperation() override {
    mlir::TypeConverter converter;
    converter.addConversion([](mlir::Type type) -> std::optional<mlir::Type> {
      if (const TensorType tensor = read_tensor_type(type); tensor.builtin) return tensor.builtin;
      return is_torch_type(type) ? std::nullopt : std::optional(type);
    });

    // Constants that an op of the table took.
    getOperation().walk([](mlir::Operation* op) {
      const bool may_end_block = op->getNextNode() == nullptr;  // as far as MLIR knows of what is not registered
      if (op->use_empty() && !may_end_block && op->getName().getStringRef().starts_with("torch.constant.")) op->erase();
    });

    // Said here, since the conversion would not say who has to lower it.
    const auto left = getOperation().walk([](mlir::Operation* op) {
      const auto name = op->getName();
      if ((name.getDialectNamespace() != "torch" && name.getDialectNamespace() != "stablehlo") || is_literal(op))
        return mlir::WalkResult::advance();
      op->emitError() << "is left; it has to be lowered, by torch-mlir or StableHLO, before qmm-convert-types";
      return mlir::WalkResult::interrupt();
    });
    if (left.wasInterrupted()) return signalPassFailure();

    mlir::MLIRContext* context = &getContext();
    mlir::RewritePatternSet patterns(context);
    mlir::populateFunctionOpInterfaceTypeConversionPattern<mlir::func::FuncOp>(patterns, converter);
    mlir::populateCallOpTypeConversionPattern(patterns, converter);
    mlir::populateReturnOpTypeConversionPattern(patterns, converter);
    mlir::populateBranchOpInterfaceTypeConversionPattern(patterns, converter);
    patterns.add<ConvertElements>(converter, context);
    for (const llvm::StringRef name : kCasts) patterns.add<EraseCast>(converter, name, context);
    for (const llvm::StringRef name : kLiterals) patterns.add<ConvertLiteral>(converter, name, context);

    mlir::ConversionTarget target(*context);
    mlir::scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
    target.markUnknownOpDynamicallyLegal([&](mlir::Operation* op) {
      if (auto function = llvm::dyn_cast<mlir::func::FuncOp>(op))
        return converter.isSignatureLegal(function.getFunctionType()) && converter.isLegal(&function.getBody());
      return converter.isLegal(op) && (op->isRegistered() || !is_literal(op));
    });
    if (mlir::failed(mlir::applyPartialConversion(getOperation(), target, std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> create_convert_types_pass() { return std::make_unique<ConvertTypes>(); }

}  // namespace qmm
