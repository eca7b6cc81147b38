// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on tensors, added where a builder is.
#pragma once

#include "mlir/IR/Builders.h"

namespace qmm {

/// Returns `value` as of `type`: a cast between extents that are known or not, or between builtin and other tensors.
mlir::Value cast(mlir::OpBuilder& builder, mlir::Location at, mlir::Value value, mlir::Type type);

/// Computes a tensor of `element` by `compute`, element by element, of tensors of one shape.
mlir::Value map(mlir::OpBuilder& builder, mlir::Location at, mlir::ValueRange tensors, mlir::Type element,
                llvm::function_ref<mlir::Value(mlir::OpBuilder&, mlir::ValueRange)> compute);

/// Converts floats, or widens integers.
mlir::Value convert(mlir::OpBuilder& builder, mlir::Location at, mlir::Value value, mlir::Type element);

/// Makes one extent of the `leading` first ones.
mlir::Value fold(mlir::OpBuilder& builder, mlir::Location at, mlir::Value value, size_t leading);

/// Gives `value` [m, columns] the `leading` first extents of `rows` instead of m.
mlir::Value unfold(mlir::OpBuilder& builder, mlir::Location at, mlir::Value value, mlir::Value rows, size_t leading,
                   int64_t columns);

}  // namespace qmm
