// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-opt with the passes of libqmm.
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "registry.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  qmm::register_mlir(registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "libqmm's optimizer driver\n", registry));
}
