// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "group_quant.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tensors.h"

namespace qmm::group_quant {
namespace {

using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;

// Our codes are unsigned at 4 bits and signed at 8: what flips the highest bit of each code of a byte of others, and
// what the flip adds to a code, negated.
struct Flip {
  int8_t mask;
  int moved;
};

Flip flip_of(int64_t bits, bool is_signed) {
  if (bits == 4) return is_signed ? Flip{static_cast<int8_t>(0x88), -8} : Flip{0, 0};
  return is_signed ? Flip{0, 0} : Flip{static_cast<int8_t>(0x80), 128};
}

// Zero points that ours can be, unless they are the symmetric ones; nullopt where one is no such integer.
std::optional<std::vector<char>> integer_zeros(const Literal& zps, int64_t bits, int moved) {
  const float low = bits == 4 ? 0 : -128, high = bits == 4 ? 16 : 127, symmetric = bits == 4 ? 8 : 0;
  std::vector<char> zeros;
  bool is_symmetric = true;
  for (const float zp : zps.floats()) {
    const float zero = zp - static_cast<float>(moved);
    if (!(zero == std::rint(zero) && zero >= low && zero <= high)) return std::nullopt;
    is_symmetric = is_symmetric && zero == symmetric;
    zeros.push_back(static_cast<char>(zero));
  }
  if (is_symmetric) zeros.clear();
  return zeros;
}

std::vector<char> bytes_of(const std::vector<float>& values) {
  std::vector<char> bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// [n, groups, 1] as f32 [n, groups].
Value floats(OpBuilder& builder, mlir::Location at, Value value) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  if (type.isDynamicDim(2)) {
    type = RankedTensorType::get({type.getDimSize(0), type.getDimSize(1), 1}, type.getElementType());
    value = builder.create<mlir::tensor::CastOp>(at, type, value);
  }
  const auto matrix = RankedTensorType::get(type.getShape().drop_back(), type.getElementType());
  value = builder.create<mlir::tensor::CollapseShapeOp>(at, matrix, value,
                                                        llvm::ArrayRef<mlir::ReassociationIndices>{{0}, {1, 2}});
  return convert(builder, at, value, builder.getF32Type());
}

}  // namespace

Weights of_constants(Literal codes, const Literal& scales, const Literal& zps, int64_t bits, bool is_signed) {
  const Flip flip = flip_of(bits, is_signed);
  for (char& byte : codes.bytes) byte = static_cast<char>(byte ^ flip.mask);
  Weights weights;
  weights.desc.bits = static_cast<int32_t>(bits);
  weights.desc.scale_dtype = QMM_F32;
  weights.codes = std::move(codes.bytes);
  const std::vector<float> widened = scales.floats();
  weights.scales = bytes_of(widened);
  if (const auto zeros = integer_zeros(zps, bits, flip.moved)) {
    weights.desc.offset = zeros->empty() ? QMM_SYMMETRIC : QMM_ZEROS;
    weights.offsets = *zeros;
    return weights;
  }
  std::vector<float> mins = zps.floats();
  for (size_t i = 0; i < mins.size(); ++i) mins[i] = (static_cast<float>(flip.moved) - mins[i]) * widened[i];
  weights.desc.offset = QMM_MINS;
  weights.offsets = bytes_of(mins);
  return weights;
}

namespace {

// What is computed of both reads zps at the places of scales. The rules compare what is known of their shapes.
void assert_same_shape(OpBuilder& builder, mlir::Location at, Value scales, Value zps) {
  const auto of_scales = llvm::cast<RankedTensorType>(scales.getType());
  const auto of_zps = llvm::cast<RankedTensorType>(zps.getType());
  for (unsigned i = 0; i < 2; ++i) {
    if (!of_scales.isDynamicDim(i) && !of_zps.isDynamicDim(i)) continue;
    const Value a = builder.create<mlir::tensor::DimOp>(at, scales, i);
    const Value b = builder.create<mlir::tensor::DimOp>(at, zps, i);
    const Value same = builder.create<mlir::arith::CmpIOp>(at, mlir::arith::CmpIPredicate::eq, a, b);
    builder.create<mlir::cf::AssertOp>(at, same, "quant.matmul_rhs_group_quant: scales and zps must have one shape");
  }
}

}  // namespace

Values of_values(OpBuilder& builder, mlir::Location at, Value codes, Value scales, Value zps,
                 const std::optional<Literal>& constant_zps, int64_t bits, bool is_signed) {
  const Flip flip = flip_of(bits, is_signed);
  Values values;
  values.codes = flip.mask == 0
                     ? codes
                     : map(builder, at, codes, builder.getI8Type(), [&](OpBuilder& body, mlir::ValueRange in) -> Value {
                         const Value mask = body.create<mlir::arith::ConstantIntOp>(at, flip.mask, body.getI8Type());
                         return body.create<mlir::arith::XOrIOp>(at, in[0], mask);
                       });
  values.scales = floats(builder, at, scales);
  if (constant_zps) {
    if (const auto zeros = integer_zeros(*constant_zps, bits, flip.moved)) {
      const auto type = RankedTensorType::get(constant_zps->shape.drop_back(), builder.getI8Type());
      if (!zeros->empty())
        values.zeros =
            builder.create<mlir::arith::ConstantOp>(at, mlir::DenseElementsAttr::getFromRawBuffer(type, *zeros));
      return values;
    }
  }
  const Value points = floats(builder, at, zps);
  assert_same_shape(builder, at, values.scales, points);
  values.mins = map(
      builder, at, {values.scales, points}, builder.getF32Type(), [&](OpBuilder& body, mlir::ValueRange in) -> Value {
        const Value moved =
            body.create<mlir::arith::ConstantOp>(at, body.getF32FloatAttr(static_cast<float>(flip.moved)));
        const Value zero = body.create<mlir::arith::SubFOp>(at, moved, in[1]);
        return body.create<mlir::arith::MulFOp>(at, in[0], zero);
      });
  return values;
}

}  // namespace qmm::group_quant
