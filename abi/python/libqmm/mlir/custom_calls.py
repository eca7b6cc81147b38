# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lowering for XLA: `torch.operator "torch.quantized..."` becomes the custom call that qmm/xla.h describes."""

from __future__ import annotations

from torch_mlir.ir import (
    Attribute,
    BoolAttr,
    DictAttr,
    InsertionPoint,
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
from . import pipelines
from .lowering import _OPS as MLIR_NAMES
from .lowering import _constant, _convert, _from_builtin
from .lowering import _VTensor as VTensor


def lower_to_custom_calls(module: Module) -> None:
    """Replaces the ops of the table, in place. ValueError, with the op and its shapes, where arguments do not fit."""
    with module.context, module.operation.location:
        # The bindings can not load the dialects by name; passes that depend on them do.
        passes = "torch-func-backend-type-conversion-for-stablehlo,func.func(convert-torch-to-stablehlo)"
        PassManager.parse(f"builtin.module({passes})").run(Module.parse("module {}").operation)
        for operation in list(pipelines.walk(module.operation)):
            if operation.name == "torch.operator":
                op = MLIR_NAMES.get(StringAttr(operation.attributes["name"]).value)
                if op is not None:
                    _lower(operation, op)


def _lower(operation: Operation, op: Op) -> None:
    operands = dict(zip(op.arguments, operation.operands, strict=True))
    types = {name: VTensor.parse(value.type) for name, value in operands.items()}
    known = {name: types[name].shape if types[name] else _constant(op, name, operands[name]) for name in operands}
    shape = op.shape(**known)
    dtypes = {name: type.dtype for name, type in types.items() if type}
    op.check_dtypes(known, dtypes)

    with InsertionPoint(operation), operation.location:
        tensors = [
            _to_tensor(operands[name], types[name], spec.passed_as)
            if types[name]
            else _absent(op.allowed_dtypes(name, known, dtypes)[0])
            for name, spec in op.memrefs.items()
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
        dtype = dtypes.get(op.result_dtype, op.result_dtype)
        result = _from_builtin(op, call.result, dtype, operation.results[0].type)
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _to_tensor(value: Value, type: VTensor, passed_as: str) -> Value:
    """Returns the StableHLO tensor, of the dtype in which it is passed if that is another."""
    if passed_as and passed_as != type.dtype:
        type = VTensor(type.shape, passed_as)
        value = _convert(value, type)
    builtin = _tensor_type(type.shape, type.dtype)
    return Operation.create("torch_c.to_builtin_tensor", results=[builtin], operands=[value]).result


def _absent(dtype: str) -> Value:
    """Returns a tensor of extent 0, which says that there is none."""
    type = _tensor_type((0, 0), dtype)
    value = Attribute.parse(f"dense<> : {type}")
    return Operation.create("stablehlo.constant", results=[type], attributes={"value": value}).result


def _tensor_type(shape: tuple, dtype: str) -> RankedTensorType:
    return RankedTensorType.get(shape, Type.parse(dtype.replace("u", "ui")))


def _attribute(op: Op, name: str, value: int | str) -> Attribute:
    if isinstance(op.arguments[name], Choice):
        return StringAttr.get(value)
    return IntegerAttr.get(IntegerType.get_signless(64), value)
