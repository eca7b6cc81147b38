// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of quant.matmul_rhs_group_quant as those of quantized.matmul.grouped; abi/python/libqmm/mlir/group_quant.py
// says how.
#pragma once

#include "mlir/IR/Builders.h"
#include "weights.h"

namespace qmm::group_quant {

/// Of constants, codes of `bits` (4 or 8) bits. n, k and group are left to the caller.
Weights of_constants(Literal codes, const Literal& scales, const Literal& zps, int64_t bits, bool is_signed);

struct Values {
  mlir::Value codes, scales, zeros, mins;  // i8, f32, i8, f32; null where there are none
};

/// The same as operations on builtin tensors; constant_zps are the elements of zps, if they are known.
Values of_values(mlir::OpBuilder& builder, mlir::Location at, mlir::Value codes, mlir::Value scales, mlir::Value zps,
                 const std::optional<Literal>& constant_zps, int64_t bits, bool is_signed);

}  // namespace qmm::group_quant
