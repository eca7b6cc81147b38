// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensor types of torch-mlir and StableHLO, read as builtin ones; and what passes tell each other by names.
#pragma once

#include <string>

#include "mlir/IR/BuiltinTypes.h"

namespace qmm {

/// How the names of the wrappers end that qmm-lower-ops makes of entry points.
constexpr llvm::StringLiteral kWrapper = ".tensors";

/// A tensor type as a form of IR states it.
struct TensorType {
  mlir::RankedTensorType builtin;  // signless; null where the type is no tensor of known rank and of a known dtype
  std::string dtype;               // "f32", "u8", ...; "8" for an i8 that does not tell whether it has a sign
};

/// Reads !torch.vtensor<[?,64],f32>, of a dialect that is not registered, and builtin tensors of any signedness.
TensorType read_tensor_type(mlir::Type type);

/// Returns whether `type` is of the torch dialect, which is not registered.
bool is_torch_type(mlir::Type type);

/// Returns whether `op` only says between builtin tensors and those of torch what a value is.
bool is_cast(mlir::Operation* op);

/// Returns whether `op` is a constant tensor, of any dialect; its attribute `value` holds the elements.
bool is_literal(mlir::Operation* op);

}  // namespace qmm
