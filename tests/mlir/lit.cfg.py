# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: F821 (lit defines what this file fills in)
import lit.formats

config.name = "qmm-opt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_exec_root = lit_config.params["output"]
for tool in ("qmm-opt", "mlir-opt", "mlir-translate", "FileCheck"):
    config.substitutions.append((rf"(?<![\w./-]){tool}\b", lit_config.params[tool]))
config.substitutions.append(("%plugin", lit_config.params["plugin"]))
