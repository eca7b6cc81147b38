// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A module that is lowered by the passes and run by MLIR's ExecutionEngine, with libqmm's entry points behind a
// counter.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "abi/mlir/registry.h"
#include "llvm/ExecutionEngine/Orc/Shared/ExecutorSymbolDef.h"
#include "llvm/Support/TargetSelect.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "qmm/qmm.h"

namespace qmm::test {

inline const mlir::DialectRegistry& registry() {
  static const mlir::DialectRegistry* const made = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto* dialects = new mlir::DialectRegistry;
    register_mlir(*dialects);
    return dialects;
  }();
  return *made;
}

/// The calls that programs made since this was cleared, by the names of the symbols.
inline std::vector<std::string> calls;

/// A function for programs to call.
struct Symbol {
  const char* name;
  void* address;
};

template <auto function>
struct Counted;
template <class... Arguments, void (*function)(Arguments...)>
struct Counted<function> {
  static inline const char* name = nullptr;
  static void call(Arguments... arguments) {
    calls.emplace_back(name);
    function(arguments...);
  }
};

/// Puts a counter before an entry point.
template <auto function>
Symbol counted(const char* name) {
  Counted<function>::name = name;
  return {name, reinterpret_cast<void*>(&Counted<function>::call)};
}

class Program {
 public:
  explicit Program(const std::string& text, std::vector<Symbol> symbols = {}) {
    mlir::MLIRContext context(registry(), mlir::MLIRContext::Threading::DISABLED);
    context.allowUnregisteredDialects();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    mlir::PassManager manager(&context);
    if (!module || mlir::failed(mlir::parsePassPipeline("qmm-lower-to-llvm", manager)) ||
        mlir::failed(manager.run(*module))) {
      ADD_FAILURE() << "can not be lowered:\n" << text;
      return;
    }
    auto engine = mlir::ExecutionEngine::create(*module);
    if (!engine) {
      ADD_FAILURE() << llvm::toString(engine.takeError());
      return;
    }
    engine_ = std::move(*engine);
#define QMM_ENTRY(name) counted<&name>(#name)
    symbols.insert(symbols.end(),
                   {QMM_ENTRY(_mlir_ciface_qmm_matmul_packed), QMM_ENTRY(_mlir_ciface_qmm_matmul_packed_external),
                    QMM_ENTRY(_mlir_ciface_qmm_matmul_grouped_f32), QMM_ENTRY(_mlir_ciface_qmm_matmul_grouped_f16),
                    QMM_ENTRY(_mlir_ciface_qmm_matmul_grouped_bf16), QMM_ENTRY(_mlir_ciface_qmm_rows_packed),
                    QMM_ENTRY(_mlir_ciface_qmm_rows_packed_external)});
#undef QMM_ENTRY
    engine_->registerSymbols([&](llvm::orc::MangleAndInterner interner) {
      llvm::orc::SymbolMap map;
      for (const Symbol& symbol : symbols)
        map[interner(symbol.name)] = {llvm::orc::ExecutorAddr::fromPtr(symbol.address), llvm::JITSymbolFlags::Exported};
      return map;
    });
  }

  /// Calls an entry as a C program would.
  template <class... Arguments>
  void operator()(const char* entry, Arguments... arguments) {
    if (!engine_) return;
    auto address = engine_->lookup(std::string("_mlir_ciface_") + entry);
    if (!address) {
      ADD_FAILURE() << llvm::toString(address.takeError());
      return;
    }
    reinterpret_cast<void (*)(Arguments...)>(*address)(arguments...);
  }

 private:
  std::unique_ptr<mlir::ExecutionEngine> engine_;
};

}  // namespace qmm::test
