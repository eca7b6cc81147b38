// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace qmm {

/// Registers the passes of MLIR and of libqmm, and adds the dialects of MLIR, with their interfaces and their
/// translations to LLVM IR, to `registry`.
void register_mlir(mlir::DialectRegistry& registry);

}  // namespace qmm
