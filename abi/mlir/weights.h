// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights that a program holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mlir/IR/Value.h"
#include "qmm/qmm.h"
#include "runtime/error.h"

namespace qmm {

/// The elements of a tensor, dense and row-major.
struct Literal {
  llvm::ArrayRef<int64_t> shape;
  mlir::Type element;  // signless
  std::vector<char> bytes;

  std::vector<float> floats() const;  // of f32, f16 or bf16
};

/// Reads a constant, in whatever dialect. nullopt for a value that the program computes.
std::optional<Literal> read_literal(mlir::Value value);

/// Canonical weights with dense rows; offsets are empty where there are none.
struct Weights {
  qmm_rhs_desc desc = sized<qmm_rhs_desc>();
  std::vector<char> codes, scales, offsets;
};

/// Packs weights: qmm_pack. Returns "", or what does not fit.
std::string pack(Weights& weights, std::vector<char>& packed);

}  // namespace qmm
