// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "weights.h"

#include <cstring>

#include "llvm/ADT/APFloat.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Operation.h"
#include "types.h"

namespace qmm {

std::vector<float> Literal::floats() const {
  auto type = llvm::cast<mlir::FloatType>(element);
  const size_t size = type.getWidth() / 8;
  std::vector<float> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i * size], size);
    values[i] = llvm::APFloat(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits)).convertToFloat();
  }
  return values;
}

std::optional<Literal> read_literal(mlir::Value value) {
  mlir::Operation* op = value.getDefiningOp();
  while (op != nullptr && is_cast(op)) op = op->getOperand(0).getDefiningOp();
  if (op == nullptr || !is_literal(op)) return std::nullopt;
  const auto type = read_tensor_type(value.getType()).builtin;
  const auto attribute = llvm::dyn_cast_or_null<mlir::ElementsAttr>(op->getAttr("value"));
  if (!type || !type.hasStaticShape() || !attribute || attribute.getNumElements() != type.getNumElements() ||
      !attribute.getElementType().isIntOrFloat() ||
      attribute.getElementType().getIntOrFloatBitWidth() != type.getElementTypeBitWidth() ||
      llvm::isa<mlir::FloatType>(attribute.getElementType()) != llvm::isa<mlir::FloatType>(type.getElementType()) ||
      type.getElementTypeBitWidth() % 8 != 0)
    return std::nullopt;
  Literal literal = {type.getShape(), type.getElementType(), {}};
  const size_t size = static_cast<size_t>(type.getNumElements()) * type.getElementTypeBitWidth() / 8;
  if (const auto dense = llvm::dyn_cast<mlir::DenseIntOrFPElementsAttr>(attribute)) {
    const llvm::ArrayRef<char> raw = dense.getRawData();
    while (literal.bytes.size() < size) literal.bytes.insert(literal.bytes.end(), raw.begin(), raw.end());  // or splat
  } else if (const auto resource = llvm::dyn_cast<mlir::DenseResourceElementsAttr>(attribute)) {
    if (mlir::AsmResourceBlob* const blob = resource.getRawHandle().getBlob())
      literal.bytes.assign(blob->getData().begin(), blob->getData().end());
  }
  return literal.bytes.size() == size ? std::optional(std::move(literal)) : std::nullopt;
}

std::string pack(Weights& weights, std::vector<char>& packed) {
  const qmm_rhs_desc& desc = weights.desc;
  size_t size;
  if (qmm_packed_size(&desc, &size) != QMM_OK) return qmm_last_error();
  auto arrays = sized<qmm_weights>();
  arrays.codes = weights.codes.data();
  arrays.codes_stride = (desc.k * desc.bits + 7) / 8;
  arrays.scales = weights.scales.data();
  arrays.scales_stride = desc.group == 0 ? 0 : (desc.k + desc.group - 1) / desc.group;
  if (desc.offset != QMM_SYMMETRIC) {
    arrays.offsets = weights.offsets.data();
    arrays.offsets_stride = arrays.scales_stride;
  }
  packed.resize(size);
  return qmm_pack(&desc, &arrays, packed.data(), size) == QMM_OK ? "" : qmm_last_error();
}

}  // namespace qmm
