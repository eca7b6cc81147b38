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
from collections.abc import Callable

import torch
from torch_mlir.dialects import arith, func, memref, tensor
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.ir import (
    BlockArgument,
    FlatSymbolRefAttr,
    FunctionType,
    IndexType,
    InsertionPoint,
    IntegerType,
    MemRefType,
    Module,
    Operation,
    RankedTensorType,
    ShapedType,
    StringAttr,
    Type,
    TypeAttr,
    Value,
)
from torch_mlir.passmanager import PassManager

from ..ops import LHS_KINDS, OPS, Choice, Int, Op, Tensor
from ..torch import open_packed
from . import group_quant
from .packing import Blobs, pack_tensors, read_constant
from .pipelines import walk
from .types import VTensor, convert, ranked

MLIR_NAMES = {name: op for op in OPS for name in op.mlir_names}  # of torch.operator
# Ops whose result is memory of their first operand.
VIEWS = (
    *("tensor.cast", "tensor.extract_slice", "tensor.collapse_shape", "tensor.expand_shape"),
    *("memref.cast", "memref.subview", "memref.collapse_shape", "memref.expand_shape", "memref.reinterpret_cast"),
)
_WRAPPER = ".tensors"  # how the names of wrappers end
_ROWS = "?x?xf32"  # the result of every entry point
_PACKED, _GROUPED = (MLIR_NAMES[f"quantized.matmul.{overload}"] for overload in ("packed", "grouped"))


def lower_ops(module: Module, blobs: Blobs) -> None:
    """Replaces the ops of the table, in place; constant weights become blobs.

    ValueError, with the op and its shapes, where arguments do not fit.
    """
    with module.context, module.operation.location:
        _load_torch_conversion_dialect()
        wrappers = {}

        def lower(operation: Operation, op: Op) -> Value:
            op, operands = _simplify(op, operands_of(operation, op), operation, blobs)
            return _lower(op, operands, operation.results[0].type, wrappers)

        replace_ops(module, lower)
        for text in wrappers.values():
            wrapper = Module.parse(text)
            for function in list(wrapper.body.operations):
                function.operation.detach_from_parent()
                module.body.append(function)


def replace_ops(module: Module, lower: Callable[[Operation, Op], Value]) -> None:
    """Replaces the ops of the table, in place: `lower` adds in front of one what computes it. It returns the result."""
    for operation in list(walk(module.operation)):
        if operation.name == "torch.operator":
            op = MLIR_NAMES.get(StringAttr(operation.attributes["name"]).value)
            if op is not None:
                with InsertionPoint(operation), operation.location:
                    result = lower(operation, op)
                operation.results[0].replace_all_uses_with(result)
                operation.erase()


def copy_strided_operands(module: Module) -> None:
    """Right after bufferization: copies operands of entry points whose rows may not be dense, x aside.

    What a value is in memory, bufferization alone decides, and the wrappers take memrefs of any strides.
    """
    with module.context, module.operation.location:
        functions = {StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}
        for operation in list(walk(module.operation)):
            if operation.name != "func.call":
                continue
            callee = FlatSymbolRefAttr(operation.attributes["callee"]).value
            if not callee.endswith(_WRAPPER):
                continue
            entry = functions[callee.removesuffix(_WRAPPER)]
            taken = FunctionType(TypeAttr(entry.attributes["function_type"]).value).inputs
            for i, (value, type) in enumerate(zip(list(operation.operands), taken, strict=False)):
                source = value
                while not isinstance(source, BlockArgument) and source.owner.name == "memref.cast":
                    source = source.owner.operands[0]
                if isinstance(source.type, MemRefType) and _has_dense_rows(type) and not _has_dense_rows(source.type):
                    with InsertionPoint(operation):
                        operation.operands[i] = memref.cast(value.type, _dense_copy(source))


def _has_dense_rows(type: Type) -> bool:
    strides, _ = MemRefType(type).get_strides_and_offset()
    return not strides or strides[-1] == 1


def _dense_copy(source: Value) -> Value:
    shape = source.type.shape
    extents = [memref.dim(source, arith.constant(IndexType.get(), i)) for i, e in enumerate(shape) if e < 0]
    copy = memref.alloc(MemRefType.get(shape, source.type.element_type), extents, [], alignment=64)
    memref.copy(source, copy)
    return copy


def _load_torch_conversion_dialect() -> None:
    # The bindings can not load `torch_c` by name; a pass that depends on it does.
    PassManager.parse("builtin.module(torch-func-backend-type-conversion)").run(Module.parse("module {}").operation)


def check(op: Op, operands: dict[str, Value]) -> tuple[dict, dict[str, str], tuple]:
    """Returns the arguments, tensors as their shapes; the dtypes of the tensors; and the shape of the result."""
    types = {name: VTensor.parse(value.type) for name, value in operands.items()}
    known = {name: types[name].shape if types[name] else constant(op, name, operands[name]) for name in operands}
    dtypes = {name: type.dtype for name, type in types.items() if type}
    shape = op.shape(**known)
    op.check_dtypes(known, dtypes)
    return known, dtypes, shape


def _simplify(op: Op, operands: dict[str, Value], operation: Operation, blobs: Blobs) -> tuple[Op, dict[str, Value]]:
    """Returns an op that has an entry point, and its operands: the one on packed weights, where they are constant."""
    known, _, shape = check(op, operands)
    _, *weights = (name for name in op.tensors if known[name] is not None)
    constants = {name: read_constant(operands[name]) for name in weights}
    is_constant = all(tensor is not None for tensor in constants.values())
    if op.requires_of_packed:
        if is_constant:
            packed_size = open_packed(op, constants["packed"], list(known.values())).packed_size
            operands = {**operands, "packed": blobs.value(constants["packed"][:packed_size], operation)}
        return op, operands

    lhs = operands["lhs"] if op is _GROUPED else torch_dialect.constant_str("f32")
    k = _k(known, constants["codes"]) if is_constant else None
    if k is not None:
        if op is not _GROUPED:
            constants = group_quant.of_tensors(**constants, bits=known["bits"])
        try:
            packed = pack_tensors(**constants, bits=known["bits"], group=known["group"], k=k)
        except ValueError as error:
            raise ValueError(f"{op.torch_name}: {error}") from None
        n = torch_dialect.constant_int(shape[-1])
        return _PACKED, {"x": operands["x"], "packed": blobs.value(packed, operation), "n": n, "lhs": lhs}
    if op is not _GROUPED:
        values = [operands[name] for name in weights]
        operands = {**operands, **group_quant.of_values(*values, known["bits"], constants["zps"]), "lhs": lhs}
        operands = {name: operands[name] for name in _GROUPED.arguments}
    return _GROUPED, operands


def _k(known: dict, codes: torch.Tensor) -> int | None:
    """Returns k, if x or the rows of codes tell: the last byte of a row may hold one 4-bit code or two."""
    if known["x"][-1] is not None:
        return known["x"][-1]
    row_bytes, group = codes.shape[-1], known["group"]
    possible = [row_bytes] if known["bits"] == 8 else [2 * row_bytes - 1, 2 * row_bytes]
    return possible[0] if len(possible) == 1 else group if group in possible else None


def _lower(op: Op, operands: dict[str, Value], type: Type, wrappers: dict[str, str]) -> Value:
    """Adds the call of the entry point, and its wrapper. Returns the result, of `type`."""
    known, dtypes, shape = check(op, operands)
    specs = {name: _spec(op, name, known, dtypes) for name in op.memrefs}
    tensors = {
        name: tensor.empty([0, 0], Type.parse(_dtype(spec)))
        if known[name] is None
        else _to_builtin(operands[name], op.memrefs[name].passed_as)
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
    return from_builtin(op, result, dtypes.get(op.result_dtype, op.result_dtype), type)


def operands_of(operation: Operation, op: Op) -> dict[str, Value]:
    """Returns the operands by name. ValueError unless they are as many as the op takes, and of these kinds."""
    if len(operation.operands) != len(op.arguments):
        raise ValueError(f"{op.torch_name}: {len(operation.operands)} operands; it takes {len(op.arguments)}")
    operands = dict(zip(op.arguments, operation.operands, strict=True))
    for name, argument in op.arguments.items():
        kinds = {Int: ["!torch.int"], Choice: ["!torch.str"]}.get(type(argument), ["!torch.tensor", "!torch.vtensor"])
        if isinstance(argument, Tensor) and argument.optional:
            kinds += ["!torch.none", "!torch.optional<"]
        if not str(operands[name].type).startswith(tuple(kinds)):
            raise ValueError(f"{op.torch_name}: {name} is a {operands[name].type}; it must be a {kinds[0]}")
    return operands


def _spec(op: Op, name: str, arguments: dict, dtypes: dict[str, str]) -> str:
    """Returns how MLIR spells what the entry point takes for a tensor: "?x?xf32"."""
    dtype = op.memrefs[name].passed_as or dtypes.get(name) or op.allowed_dtypes(name, arguments, dtypes)[0]
    return "?x" * op.memrefs[name].rank + dtype.replace("u", "i")


def _dtype(spec: str) -> str:
    return spec.rsplit("x", 1)[1]


def constant(op: Op, name: str, value: Value):
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


def _to_builtin(value: Value, passed_as: str) -> Value:
    """Returns the builtin tensor, of the dtype in which it is passed if that is another."""
    type = VTensor.parse(value.type)
    if passed_as and passed_as != type.dtype:
        type = VTensor(type.shape, passed_as)
        value = convert(value, type)
    return Operation.create("torch_c.to_builtin_tensor", results=[type.builtin_type], operands=[value]).result


def from_builtin(op: Op, value: Value, dtype: str, type: Type) -> Value:
    """Returns the torch tensor of `dtype` as a value of `type`."""
    extents = [None if value.type.is_dynamic_dim(i) else extent for i, extent in enumerate(value.type.shape)]
    passed, returned = VTensor(tuple(extents), str(value.type.element_type)), VTensor(tuple(extents), dtype)
    value = Operation.create("torch_c.from_builtin_tensor", results=[passed.torch_type], operands=[value]).result
    if dtype != passed.dtype:
        value = convert(value, returned)
    if type == returned.torch_type:
        return value
    declared = VTensor.parse(type)
    if (
        declared is None
        or declared.dtype != dtype
        or len(declared.shape) != len(extents)
        or any(None not in pair and pair[0] != pair[1] for pair in zip(declared.shape, extents, strict=True))
    ):
        raise ValueError(f"{op.torch_name}: the result is {returned.torch_type}; the module says {type}")
    return torch_dialect.tensor_static_info_cast(type, value)


def _fold(value: Value, leading: int) -> Value:
    """Makes one extent of the `leading` first ones."""
    if leading == 1:
        return value
    type = RankedTensorType(value.type)
    rest = type.shape[leading:]
    if leading == 0:
        result = ranked([1, *rest], type.element_type)
        groups = [[0, 1], *([i] for i in range(2, len(rest) + 1))] if rest else []
        extents = [_dim(value, i) for i in range(len(rest)) if type.is_dynamic_dim(i)]
        return tensor.expand_shape(result, value, groups, extents, result.shape)
    groups = [list(range(leading)), *([i] for i in range(leading, type.rank))]
    return tensor.collapse_shape(ranked([_product(type.shape[:leading]), *rest], type.element_type), value, groups)


def _unfold(value: Value, rows: Value, leading: int, columns: int | None) -> Value:
    """Gives `value` [m, columns] the `leading` first extents of `rows` instead of m."""
    type = RankedTensorType(value.type)
    shape = RankedTensorType(rows.type).shape[:leading]
    value = tensor.cast(ranked([_product(shape), columns], type.element_type), value)
    if leading == 1:
        return value
    if leading == 0:
        return tensor.collapse_shape(ranked([columns], type.element_type), value, [[0, 1]])
    result = ranked([*shape, columns], type.element_type)
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
    free = [f"strided<[{', '.join('?' * spec.count('?'))}], offset: ?>" for spec in specs]
    # x, and what is computed of it, may have any strides; all else has dense rows, once copy_strided_operands has run.
    layouts = [
        layout if i == 0 and spec == _ROWS else re.sub(r"\?(?=\])", "1", layout)
        for i, (spec, layout) in enumerate(zip(specs, free, strict=True))
    ]
    memrefs = [f"memref<{spec}, {layout}>" for spec, layout in zip(specs, layouts, strict=True)]
    result = f"memref<{_ROWS}, strided<[{'?, ?' if specs[0] == _ROWS else '?, 1'}], offset: ?>>"
    numbers = [f"%s{i}" for i in range(scalars)]
    parameters = [
        *(
            f"%t{i}: tensor<{spec}> {{bufferization.buffer_layout = {layout}}}"
            for i, (spec, layout) in enumerate(zip(specs, free, strict=True))
        ),
        *(f"{number}: i64" for number in numbers),
        "%columns: index",
    ]
    buffers = "\n".join(
        f"  %b{i} = bufferization.to_buffer %t{i} read_only : tensor<{spec}> to memref<{spec}, {layout}>\n"
        f"  %m{i} = memref.cast %b{i} : memref<{spec}, {layout}> to {memref}"
        for i, (spec, layout, memref) in enumerate(zip(specs, free, memrefs, strict=True))
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
