# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lowering for XLA: `torch.operator "torch.quantized..."` becomes the custom call that qmm/xla.h describes."""

from __future__ import annotations

import torch
from torch_mlir.ir import (
    Attribute,
    BlockArgument,
    BoolAttr,
    DictAttr,
    IntegerAttr,
    IntegerType,
    Module,
    Operation,
    RankedTensorType,
    StringAttr,
    Type,
    Value,
)
from torch_mlir.passmanager import PassManager

from ..ops import Choice, Op
from ..torch import open_packed
from .lowering import check, from_builtin, operands_of, replace_ops
from .types import VTensor, convert, ranked


def lower_to_custom_calls(module: Module, held: list[torch.Tensor]) -> None:
    """Replaces the ops of the table, in place.

    held  the first arguments of @main, which are known: packed weights among them are opened

    ValueError, with the op and its shapes, where arguments do not fit.
    """
    with module.context, module.operation.location:
        # The bindings can not load the dialects by name; passes that depend on them do.
        passes = "torch-func-backend-type-conversion-for-stablehlo,func.func(convert-torch-to-stablehlo)"
        PassManager.parse(f"builtin.module({passes})").run(Module.parse("module {}").operation)
        replace_ops(module, lambda operation, op: _lower(operation, op, held))


def _lower(operation: Operation, op: Op, held: list[torch.Tensor]) -> Value:
    """Adds the custom call. Returns the result."""
    operands = operands_of(operation, op)
    known, dtypes, shape = check(op, operands)
    if not op.callee:
        raise NotImplementedError(f"{op.torch_name}: there is no custom call of it")
    for name in op.tensors:
        if known[name] is not None and None in known[name]:
            extents = ", ".join("?" if extent is None else str(extent) for extent in known[name])
            raise NotImplementedError(
                f"{op.torch_name}: {name} is [{extents}]; XLA's programs have tensors whose extents are known"
            )
    packed = operands.get("packed")
    if packed is not None and isinstance(packed, BlockArgument) and packed.arg_number < len(held):
        open_packed(op, held[packed.arg_number], list(known.values()))
    tensors = [
        _absent(op.allowed_dtypes(name, known, dtypes)[0])
        if known[name] is None
        else _to_tensor(operands[name], tensor.passed_as)
        for name, tensor in op.memrefs.items()
    ]
    call = Operation.create(
        "stablehlo.custom_call",
        results=[_tensor_type(shape, "f32")],
        operands=tensors,
        attributes={
            "call_target_name": StringAttr.get(op.xla_target),
            "api_version": IntegerAttr.get(IntegerType.get_signless(32), 4),
            "has_side_effect": BoolAttr.get(False),
            "backend_config": DictAttr.get({name: _attribute(op, name, known[name]) for name in op.scalars}),
        },
    )
    return from_builtin(op, call.result, dtypes.get(op.result_dtype, op.result_dtype), operation.results[0].type)


def _to_tensor(value: Value, passed_as: str) -> Value:
    """Returns the StableHLO tensor, of the dtype in which it is passed if that is another."""
    type = VTensor.parse(value.type)
    if passed_as and passed_as != type.dtype:
        type = VTensor(type.shape, passed_as)
        value = convert(value, type)
    builtin = _tensor_type(type.shape, type.dtype)
    return Operation.create("torch_c.to_builtin_tensor", results=[builtin], operands=[value]).result


def _absent(dtype: str) -> Value:
    """Returns a tensor of extent 0, which says that there is none."""
    type = _tensor_type((0, 0), dtype)
    value = Attribute.parse(f"dense<> : {type}")
    return Operation.create("stablehlo.constant", results=[type], attributes={"value": value}).result


def _tensor_type(shape: tuple, dtype: str) -> RankedTensorType:
    return ranked(shape, Type.parse(dtype.replace("u", "ui")))  # StableHLO has signs


def _attribute(op: Op, name: str, value: int | str) -> Attribute:
    if isinstance(op.arguments[name], Choice):
        return StringAttr.get(value)
    return IntegerAttr.get(IntegerType.get_signless(64), value)
