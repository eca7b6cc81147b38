// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensor types of torch-mlir and StableHLO, read as builtin ones.
#pragma once

#include <string>

#include "mlir/IR/BuiltinTypes.h"

namespace qmm {

/// A tensor type as a form of IR states it.
struct TensorType {
  mlir::RankedTensorType builtin;  // signless; null where the type is no tensor of known rank and of a known dtype
  std::string dtype;               // "f32", "u8", ...; "8" for an i8 that does not tell whether it has a sign
};

/// Reads !torch.vtensor<[?,64],f32>, of a dialect that is not registered, and builtin tensors of any signedness.
TensorType read_tensor_type(mlir::Type type);

/// Returns whether `type` is of the torch dialect, which is not registered.
bool is_torch_type(mlir::Type type);

}  // namespace qmm
