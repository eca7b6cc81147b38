// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-opt-19 --load-pass-plugin=libqmm_mlir.so
#include "llvm/Config/llvm-config.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "passes.h"

extern "C" LLVM_ATTRIBUTE_VISIBILITY_DEFAULT mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "libqmm", LLVM_VERSION_STRING, qmm::register_passes};
}
