# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch-mlir's backend contract: ops on value tensors of known rank and dtype, decomposed to what is converted next.

torch-mlir learns what our ops do from the extra library, a file of this package.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from torch_mlir.ir import Module, StringAttr

from . import pipelines
from .lowering import MLIR_NAMES, operands_of

EXTRA_LIBRARY = Path(__file__).with_name("libqmm.mlir")

# The passes by what a module holds, and the functions of the extra library that they need of an op. In an exported
# program, results have their types already.
_EXPORTED = "torchdynamo-export-to-torch-backend-pipeline", ("has_value_semantics",)
_FUNCTIONS = "torch-function-to-torch-backend-pipeline", ("has_value_semantics", "shape", "dtype")
_TORCH_SCRIPT = "torchscript-module-to-torch-backend-pipeline", ("has_value_semantics", "shape", "dtype")


def legalize_exported(module: Module) -> None:
    """Brings what the FX importer makes to the contract, in place."""
    _legalize(module, *_EXPORTED, "")


def legalize(module: Module) -> None:
    """Brings functions on tensors, or a TorchScript module with its classes, to the contract, in place."""
    is_torch_script = any(op.operation.name == "torch.nn_module" for op in module.body.operations)
    legal = "backend-legal-ops=" + ",".join(MLIR_NAMES)
    _legalize(module, *(_TORCH_SCRIPT if is_torch_script else _FUNCTIONS), legal)


def _legalize(module: Module, pipeline: str, kinds: tuple[str, ...], options: str) -> None:
    """NotImplementedError, with its name, for an op that torch-mlir or the extra library does not know."""
    names = set()
    for operation in pipelines.walk(module.operation):
        if operation.name == "torch.operator":
            name = StringAttr(operation.attributes["name"]).value
            names.add(name)
            if name in MLIR_NAMES:
                operands_of(operation, MLIR_NAMES[name])
    passes = f"inline, symbol-dce, {pipeline}{{{options} extra-library='{EXTRA_LIBRARY}'}}"
    try:
        pipelines.run(module, passes, "decomposing the program")
    except NotImplementedError as error:
        for name in sorted(names):
            missing = [f for f in (f"__torch_mlir_{kind}_fn.{name}" for kind in kinds) if f not in _functions()]
            if missing:
                raise NotImplementedError(f"{name}: the extra library has no @{', @'.join(missing)}") from error
        raise


@functools.cache
def _functions() -> frozenset[str]:
    return frozenset(re.findall(r'func\.func private @"([^"]+)"', EXTRA_LIBRARY.read_text()))
