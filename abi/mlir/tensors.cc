// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tensors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "types.h"

namespace qmm {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::ShapedType;
using mlir::Type;
using mlir::Value;

namespace {

int64_t product(ArrayRef<int64_t> extents) {
  int64_t result = 1;
  for (const int64_t extent : extents)
    if (ShapedType::isDynamic(extent) || __builtin_mul_overflow(result, extent, &result)) return ShapedType::kDynamic;
  return result;
}

}  // namespace

Value cast(OpBuilder& builder, mlir::Location at, Value value, Type type) {
  if (value.getType() == type) return value;
  if (llvm::isa<RankedTensorType>(type) && llvm::isa<RankedTensorType>(value.getType()) &&
      llvm::cast<RankedTensorType>(type).getElementType() ==
          llvm::cast<RankedTensorType>(value.getType()).getElementType())
    return builder.create<mlir::tensor::CastOp>(at, type, value);
  if (!is_torch_type(value.getType()) && !is_torch_type(type))
    return builder.create<mlir::UnrealizedConversionCastOp>(at, type, value).getResult(0);
  mlir::OperationState state(at, is_torch_type(type) ? "torch_c.from_builtin_tensor" : "torch_c.to_builtin_tensor",
                             value, type);
  return builder.create(state)->getResult(0);
}

Value map(OpBuilder& builder, mlir::Location at, mlir::ValueRange tensors, Type element,
          llvm::function_ref<Value(OpBuilder&, mlir::ValueRange)> compute) {
  const auto rank = llvm::cast<RankedTensorType>(tensors[0].getType()).getRank();
  const Value empty =
      builder.create<mlir::tensor::EmptyOp>(at, mlir::tensor::getMixedSizes(builder, at, tensors[0]), element);
  const SmallVector<mlir::AffineMap> maps(tensors.size() + 1,
                                          builder.getMultiDimIdentityMap(static_cast<unsigned>(rank)));
  const SmallVector<mlir::utils::IteratorType> loops(static_cast<size_t>(rank), mlir::utils::IteratorType::parallel);
  return builder
      .create<mlir::linalg::GenericOp>(at, empty.getType(), tensors, empty, maps, loops,
                                       [&](OpBuilder& body, mlir::Location, mlir::ValueRange in) {
                                         body.create<mlir::linalg::YieldOp>(at, compute(body, in.drop_back()));
                                       })
      .getResult(0);
}

Value convert(OpBuilder& builder, mlir::Location at, Value value, Type element) {
  const Type from = llvm::cast<RankedTensorType>(value.getType()).getElementType();
  if (from == element) return value;
  return map(builder, at, value, element, [&](OpBuilder& body, mlir::ValueRange in) -> Value {
    if (element.isInteger()) return body.create<mlir::arith::ExtSIOp>(at, element, in[0]);
    if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
      return body.create<mlir::arith::ExtFOp>(at, element, in[0]);
    return body.create<mlir::arith::TruncFOp>(at, element, in[0]);
  });
}

Value fold(OpBuilder& builder, mlir::Location at, Value value, size_t leading) {
  if (leading == 1) return value;
  const auto type = llvm::cast<RankedTensorType>(value.getType());
  const ArrayRef<int64_t> rest = type.getShape().drop_front(leading);
  SmallVector<int64_t> shape = {product(type.getShape().take_front(leading))};
  llvm::append_range(shape, rest);
  SmallVector<mlir::ReassociationIndices> groups;
  if (leading > 0) {
    groups.push_back(llvm::to_vector<2>(llvm::seq<int64_t>(0, static_cast<int64_t>(leading))));
    for (int64_t i = static_cast<int64_t>(leading); i < type.getRank(); ++i) groups.push_back({i});
    return builder.create<mlir::tensor::CollapseShapeOp>(at, RankedTensorType::get(shape, type.getElementType()), value,
                                                         groups);
  }
  for (int64_t i = 0; i < type.getRank(); ++i) groups.push_back({i + 1});
  if (!groups.empty()) groups[0].insert(groups[0].begin(), 0);
  SmallVector<mlir::OpFoldResult> extents = mlir::tensor::getMixedSizes(builder, at, value);
  extents.insert(extents.begin(), builder.getIndexAttr(1));
  return builder.create<mlir::tensor::ExpandShapeOp>(at, RankedTensorType::get(shape, type.getElementType()), value,
                                                     groups, extents);
}

Value unfold(OpBuilder& builder, mlir::Location at, Value value, Value rows, size_t leading, int64_t columns) {
  const auto rows_type = llvm::cast<RankedTensorType>(rows.getType());
  const Type element = llvm::cast<RankedTensorType>(value.getType()).getElementType();
  SmallVector<int64_t> shape(rows_type.getShape().take_front(leading));
  value = cast(builder, at, value, RankedTensorType::get({product(shape), columns}, element));
  if (leading == 1) return value;
  shape.push_back(columns);
  const auto type = RankedTensorType::get(shape, element);
  if (leading == 0)
    return builder.create<mlir::tensor::CollapseShapeOp>(at, type, value, ArrayRef<mlir::ReassociationIndices>{{0, 1}});
  SmallVector<mlir::OpFoldResult> extents = mlir::tensor::getMixedSizes(builder, at, rows);
  extents.truncate(leading);
  extents.push_back(mlir::tensor::getMixedSize(builder, at, value, 1));
  if (llvm::count_if(rows_type.getShape().take_front(leading), ShapedType::isDynamic) > 1) {
    // Bufferization in MLIR 19 crashes on a tensor.expand_shape to more than one extent that is not known.
    const SmallVector<Value> sizes = mlir::getValueOrCreateConstantIndexOp(builder, at, extents);
    return builder.create<mlir::tensor::ReshapeOp>(at, type, value,
                                                   builder.create<mlir::tensor::FromElementsOp>(at, sizes));
  }
  const SmallVector<mlir::ReassociationIndices> groups = {
      llvm::to_vector<2>(llvm::seq<int64_t>(0, static_cast<int64_t>(leading))), {static_cast<int64_t>(leading)}};
  return builder.create<mlir::tensor::ExpandShapeOp>(at, type, value, groups, extents);
}

}  // namespace qmm
