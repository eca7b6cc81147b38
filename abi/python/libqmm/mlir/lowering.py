# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lowering: `torch.operator "torch.quantized..."` becomes a call of libqmm's memref entry point.

A call on tensors has to stay one operation until bufferization has decided which tensors share memory. So each entry
point gets a private wrapper from tensors to a tensor, which allocates the result and passes memrefs on:

    func.func private @qmm_matmul_packed.tensors(%x: tensor<?x?xf32>, %packed: tensor<?xi8>, %lhs: i64, %columns: index)
        -> tensor<?x?xf32>

The entry point sees the offset and strides of its arguments: views of x are passed on, not copied.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from torch_mlir.dialects import arith, bufferization, func, tensor
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.ir import (
    BlockArgument,
    FlatSymbolRefAttr,
    IndexType,
    InsertionPoint,
    IntegerType,
    Module,
    Operation,
    RankedTensorType,
    ShapedType,
    StringAttr,
    Type,
    Value,
)
from torch_mlir.passmanager import PassManager

from ..ops import LHS_KINDS, OPS, Op
from .entries import VIEWS
from .pipelines import walk

_OPS = {name: op for op in OPS for name in op.mlir_names}
_WRAPPER = ".tensors"  # how the names of wrappers end
_ROWS = "?x?xf32"  # the result of every entry point
_SCALAR_TYPES = {"f16": 5, "f32": 6, "bf16": 15}  # of torch, by number


def lower_ops(module: Module) -> None:
    """Replaces the ops of the table, in place. ValueError, with the op and its shapes, where arguments do not fit."""
    with module.context, module.operation.location:
        _load_torch_conversion_dialect()
        wrappers = {}
        for operation in list(walk(module.operation)):
            if operation.name == "torch.operator":
                op = _OPS.get(StringAttr(operation.attributes["name"]).value)
                if op is not None:
                    _lower(operation, op, wrappers)
        for text in wrappers.values():
            wrapper = Module.parse(text)
            for function in list(wrapper.body.operations):
                function.operation.detach_from_parent()
                module.body.append(function)


def copy_strided_weights(module: Module) -> None:
    """Before bufferization: copies arguments whose rows are not dense, x aside; entry points do not take them."""
    with module.context, module.operation.location:
        for operation in walk(module.operation):
            if operation.name != "func.call":
                continue
            callee = FlatSymbolRefAttr(operation.attributes["callee"]).value
            for i, value in enumerate(operation.operands if callee.endswith(_WRAPPER) else ()):
                is_x = i == 0 and str(value.type) == f"tensor<{_ROWS}>"
                if isinstance(value.type, RankedTensorType) and not is_x and not _has_dense_rows(value):
                    with InsertionPoint(operation):
                        operation.operands[i] = bufferization.alloc_tensor(value.type, [], copy=value)


def _has_dense_rows(value: Value) -> bool:
    """Tells whether consecutive elements of a row will lie side by side: no slice leaves elements out between them."""
    while not isinstance(value, BlockArgument) and value.owner.name in VIEWS:
        if value.owner.name == "tensor.extract_slice":
            source = RankedTensorType(value.owner.operands[0].type)
            size, stride = (list(value.owner.attributes[f"static_{name}"])[-1] for name in ("sizes", "strides"))
            if stride != 1 or (size == 1 and source.shape[-1] != 1 and source.rank > 1):
                return False
        value = value.owner.operands[0]
    return True


def _load_torch_conversion_dialect() -> None:
    # The bindings can not load `torch_c` by name; a pass that depends on it does.
    PassManager.parse("builtin.module(torch-func-backend-type-conversion)").run(Module.parse("module {}").operation)


@dataclass(frozen=True)
class _VTensor:
    """What a `!torch.vtensor` type says."""

    shape: tuple  # None where an extent is not known
    dtype: str  # as the table of ops spells it

    @classmethod
    def parse(cls, type: Type) -> _VTensor | None:
        match = re.fullmatch(r"!torch\.vtensor<\[([?\d,]*)\],(\w+)>", str(type))
        if match is None:
            return None
        extents = filter(None, match[1].split(","))
        dtype = re.sub("^s(?=i)|(?<=^u)i", "", match[2])  # "si8" is "i8", "ui8" is "u8"
        return cls(tuple(None if extent == "?" else int(extent) for extent in extents), dtype)

    @property
    def torch_type(self) -> Type:
        dtype = re.sub("^i", "si", self.dtype).replace("u", "ui")
        extents = ",".join("?" if extent is None else str(extent) for extent in self.shape)
        return Type.parse(f"!torch.vtensor<[{extents}],{dtype}>")


def _lower(operation: Operation, op: Op, wrappers: dict[str, str]) -> None:
    if len(operation.operands) != len(op.arguments):
        raise ValueError(f"{op.torch_name}: {len(operation.operands)} operands; it takes {len(op.arguments)}")
    operands = dict(zip(op.arguments, operation.operands, strict=True))
    types = {name: _VTensor.parse(value.type) for name, value in operands.items()}
    known = {name: types[name].shape if types[name] else _constant(op, name, operands[name]) for name in operands}
    shape = op.shape(**known)
    dtypes = {name: type.dtype for name, type in types.items() if type}
    op.check_dtypes(known, dtypes)

    with InsertionPoint(operation), operation.location:
        specs = {name: _spec(op, name, known, dtypes) for name in op.memrefs}
        tensors = {
            name: _to_builtin(operands[name], types[name], op.memrefs[name].passed_as)
            if types[name]
            else tensor.empty([0, 0], Type.parse(_dtype(spec)))
            for name, spec in specs.items()
        }
        first, second = list(tensors)[:2]
        rows = tensors[first]  # its leading extents are those of the result
        leading = rows.type.shape[: len(shape) - 1]
        tensors[first] = _fold(rows, len(leading))
        # Only canonical weights leave this extent unknown: the rows of their codes.
        columns = _dim(tensors[second], 0) if shape[-1] is None else arith.constant(IndexType.get(), shape[-1])

        callee = op.callee.format(**dtypes)
        wrappers[callee] = _wrapper(callee, list(specs.values()), len(op.scalars))
        call = func.CallOp(
            [Type.parse(f"tensor<{_ROWS}>")],
            FlatSymbolRefAttr.get(callee + _WRAPPER),
            [
                *(tensor.cast(Type.parse(f"tensor<{specs[name]}>"), value) for name, value in tensors.items()),
                *(_int64(LHS_KINDS.get(known[name], known[name])) for name in op.scalars),
                columns,
            ],
        )
        result = _unfold(call.result, rows, len(leading), shape[-1])
        result = _from_builtin(op, result, dtypes.get(op.result_dtype, op.result_dtype), operation.results[0].type)
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _spec(op: Op, name: str, arguments: dict, dtypes: dict[str, str]) -> str:
    """Returns how MLIR spells what the entry point takes for a tensor: "?x?xf32"."""
    dtype = op.memrefs[name].passed_as or dtypes.get(name) or op.allowed_dtypes(name, arguments, dtypes)[0]
    return "?x" * op.memrefs[name].rank + dtype.replace("u", "i")


def _dtype(spec: str) -> str:
    return spec.rsplit("x", 1)[1]


def _spec(op: Op, name: str, arguments: dict, dtypes: dict[str, str]) -> str:
    """Returns how MLIR spells what the entry point takes for a tensor: "?x?xf32"."""
    dtype = op.memrefs[name].passed_as or dtypes.get(name) or op.allowed_dtypes(name, arguments, dtypes)[0]
    return "?x" * op.memrefs[name].rank + dtype.replace("u", "i")


def _element(spec: str) -> Type:
    return Type.parse(spec.rsplit("x", 1)[1])


def _constant(op: Op, name: str, value: Value):
    """Returns the Python value of a torch constant."""
    owner = value.owner if isinstance(value.owner, Operation) else getattr(value.owner, "operation", None)
    if owner is not None and owner.name == "torch.constant.none":
        return None
    if owner is None or not owner.name.startswith("torch.constant."):
        raise ValueError(f"{op.torch_name}: {name} is computed by the model; it must be a constant")
    return owner.attributes["value"].value


def _int64(value: int) -> Value:
    return arith.constant(IntegerType.get_signless(64), value)


def _dim(value: Value, index: int) -> Value:
    return tensor.dim(value, arith.constant(IndexType.get(), index))


def _ranked(shape, element: Type) -> RankedTensorType:
    return RankedTensorType.get([ShapedType.get_dynamic_size() if d is None else d for d in shape], element)


def _to_builtin(value: Value, type: _VTensor, passed_as: str) -> Value:
    """Returns the builtin tensor, of the dtype in which it is passed if that is another."""
    if passed_as and passed_as != type.dtype:
        type = _VTensor(type.shape, passed_as)
        value = _convert(value, type)
    builtin = _ranked(type.shape, Type.parse(type.dtype.replace("u", "i")))
    return Operation.create("torch_c.to_builtin_tensor", results=[builtin], operands=[value]).result


def _from_builtin(op: Op, value: Value, dtype: str, type: Type) -> Value:
    """Returns the torch tensor of `dtype` as a value of `type`."""
    extents = [None if value.type.is_dynamic_dim(i) else extent for i, extent in enumerate(value.type.shape)]
    passed, returned = _VTensor(tuple(extents), str(value.type.element_type)), _VTensor(tuple(extents), dtype)
    value = Operation.create("torch_c.from_builtin_tensor", results=[passed.torch_type], operands=[value]).result
    if dtype != passed.dtype:
        value = _convert(value, returned)
    if type == returned.torch_type:
        return value
    declared = _VTensor.parse(type)
    if (
        declared is None
        or declared.dtype != dtype
        or len(declared.shape) != len(extents)
        or any(None not in pair and pair[0] != pair[1] for pair in zip(declared.shape, extents, strict=True))
    ):
        raise ValueError(f"{op.torch_name}: the result is {returned.torch_type}; the module says {type}")
    return torch_dialect.tensor_static_info_cast(type, value)


def _convert(value: Value, type: _VTensor) -> Value:
    """Converts a torch tensor of floats to the dtype of `type`."""
    no = torch_dialect.constant_bool(False)
    dtype = torch_dialect.constant_int(_SCALAR_TYPES[type.dtype])
    return torch_dialect.aten_to_dtype(type.torch_type, value, dtype, no, no, torch_dialect.constant_none())


def _fold(value: Value, leading: int) -> Value:
    """Makes one extent of the `leading` first ones."""
    if leading == 1:
        return value
    type = RankedTensorType(value.type)
    rest = type.shape[leading:]
    if leading == 0:
        groups = [[0, 1], *([i] for i in range(2, len(rest) + 1))] if rest else []
        return tensor.expand_shape(_ranked([1, *rest], type.element_type), value, groups, [], [1, *rest])
    groups = [list(range(leading)), *([i] for i in range(leading, type.rank))]
    return tensor.collapse_shape(_ranked([_product(type.shape[:leading]), *rest], type.element_type), value, groups)


def _unfold(value: Value, rows: Value, leading: int, columns: int | None) -> Value:
    """Gives `value` [m, columns] the `leading` first extents of `rows` instead of m."""
    type = RankedTensorType(value.type)
    shape = RankedTensorType(rows.type).shape[:leading]
    value = tensor.cast(_ranked([_product(shape), columns], type.element_type), value)
    if leading == 1:
        return value
    if leading == 0:
        return tensor.collapse_shape(_ranked([columns], type.element_type), value, [[0, 1]])
    result = _ranked([*shape, columns], type.element_type)
    extents = [_dim(rows, i) for i in range(leading) if result.is_dynamic_dim(i)]
    if columns is None:
        extents.append(_dim(value, 1))
    return tensor.expand_shape(result, value, [list(range(leading)), [leading]], extents, result.shape)


def _product(shape) -> int | None:
    dynamic = ShapedType.get_dynamic_size()
    return None if dynamic in shape else math.prod(shape)


def _wrapper(callee: str, specs: list[str], scalars: int) -> str:
    """Returns the declaration of an entry point and its wrapper, as MLIR text."""
    # x, and what is computed of it, may have any strides; all else has dense rows.
    strides = [
        "?, ?" if i == 0 and spec == _ROWS else {1: "1", 2: "?, 1"}[spec.count("?")] for i, spec in enumerate(specs)
    ]
    layouts = [f"strided<[{stride}], offset: ?>" for stride in strides]
    memrefs = [f"memref<{spec}, {layout}>" for spec, layout in zip(specs, layouts, strict=True)]
    result = f"memref<{_ROWS}, strided<[{'?, ?' if specs[0] == _ROWS else '?, 1'}], offset: ?>>"
    numbers = [f"%s{i}" for i in range(scalars)]
    parameters = [
        *(
            f"%t{i}: tensor<{spec}> {{bufferization.buffer_layout = {layout}}}"
            for i, (spec, layout) in enumerate(zip(specs, layouts, strict=True))
        ),
        *(f"{number}: i64" for number in numbers),
        "%columns: index",
    ]
    buffers = "\n".join(
        f"  %m{i} = bufferization.to_buffer %t{i} read_only : tensor<{spec}> to {memref}"
        for i, (spec, memref) in enumerate(zip(specs, memrefs, strict=True))
    )
    signature = ", ".join([*memrefs, *["i64"] * scalars, result])
    arguments = ", ".join([*(f"%m{i}" for i in range(len(specs))), *numbers, "%m"])
    return f"""\
func.func private @{callee}({signature}) attributes {{llvm.emit_c_interface}}
func.func private @{callee}{_WRAPPER}({", ".join(parameters)}) -> tensor<{_ROWS}> {{
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %t0, %c0 : tensor<{specs[0]}>
{buffers}
  %y = memref.alloc(%rows, %columns) {{alignment = 64 : i64}} : memref<{_ROWS}>
  %m = memref.cast %y : memref<{_ROWS}> to {result}
  call @{callee}({arguments}) : ({signature}) -> ()
  %result = bufferization.to_tensor %y restrict writable : memref<{_ROWS}> to tensor<{_ROWS}>
  return %result : tensor<{_ROWS}>
}}
"""
