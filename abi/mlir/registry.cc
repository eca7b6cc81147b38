// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "registry.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "passes.h"

void qmm::register_mlir(mlir::DialectRegistry& registry) {
  mlir::registerAllPasses();
  register_passes();
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllToLLVMIRTranslations(registry);
}
