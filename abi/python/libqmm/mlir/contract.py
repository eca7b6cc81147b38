# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch-mlir's backend contract: ops on value tensors of known rank and dtype, decomposed to what is converted next.

torch-mlir learns what our ops do from the extra library, a file of this package.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from torch_mlir.ir import (
    ArrayAttr,
    BlockArgument,
    DictAttr,
    FlatSymbolRefAttr,
    Module,
    StringAttr,
    Type,
    TypeAttr,
    Value,
)

from ..ops import OPS, Int, Op, Tensor
from . import pipelines
from .entries import visibility
from .lowering import MLIR_NAMES, constant, operands_of
from .types import VTensor

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
    if is_torch_script:
        _check_methods(module)
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
                _check_typed(MLIR_NAMES[name], operands_of(operation, MLIR_NAMES[name]))
    passes = f"inline, symbol-dce, {pipeline}{{{options} extra-library='{EXTRA_LIBRARY}'}}"
    try:
        pipelines.run(module, passes, "decomposing the program")
    except NotImplementedError as error:
        reasons = [reason for name in sorted(names) if (reason := _reason(name, kinds))]
        if reasons:
            raise NotImplementedError("; ".join(reasons)) from error
        raise


def _check_methods(module: Module) -> None:
    """Refuses entries beside the methods of a TorchScript module: torch-mlir makes new names for them."""
    operations = list(pipelines.walk(module.operation))
    methods = {
        FlatSymbolRefAttr(op.attributes["function"]).value
        for op in operations
        if op.name == "torch.method" and "function" in op.attributes
    }
    for op in operations:
        name = op.name == "func.func" and StringAttr(op.attributes["sym_name"]).value
        if name and name not in methods and visibility(op) == "public":
            raise ValueError(
                f"@{name} is no method of the TorchScript module, whose methods are the entries; make it private"
            )


def _check_typed(op: Op, operands: dict[str, Value]) -> None:
    """Checks what is known before the passes: some crash where shapes do not fit."""
    arguments, dtypes = {}, {}
    for name, argument in op.arguments.items():
        value = operands[name]
        if not isinstance(argument, Tensor):
            try:
                arguments[name] = constant(op, name, value)
            except ValueError:  # the passes may find it; until then an integer is unknown, and any string will do
                if isinstance(argument, Int):
                    arguments[name] = None
        elif type := VTensor.parse(_bound(value)):
            arguments[name], dtypes[name] = type.shape, type.dtype
        elif argument.optional and not str(value.type).startswith(("!torch.tensor", "!torch.vtensor")):
            arguments[name] = None
        else:
            arguments[name] = (None,) * len(argument.extents)
    op.shape(**arguments)
    if all(name in dtypes or arguments[name] is None for name in op.tensors):
        op.check_dtypes(arguments, dtypes)


def _bound(value: Value) -> Type:
    """Returns the type of a value, or the narrower one that an argument of a TorchScript method is bound to."""
    if isinstance(value, BlockArgument):
        function = value.owner.owner
        if "arg_attrs" in function.attributes:
            attributes = DictAttr(ArrayAttr(function.attributes["arg_attrs"])[value.arg_number])
            if "torch.type_bound" in attributes:
                return TypeAttr(attributes["torch.type_bound"]).value
    return value.type


def _reason(name: str, kinds: tuple[str, ...]) -> str:
    """Says what an op lacks; "" if nothing."""
    if name.removeprefix("torch.").partition(".")[0] not in {op.namespace for op in OPS}:
        return f"{name} is not an op of libqmm"
    missing = [f for f in (f"__torch_mlir_{kind}_fn.{name}" for kind in kinds) if f not in _functions()]
    return f"{name}: the extra library has no @{', @'.join(missing)}" if missing else ""


@functools.cache
def _functions() -> frozenset[str]:
    return frozenset(re.findall(r'func\.func private @"([^"]+)"', EXTRA_LIBRARY.read_text()))
