# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constant weights: packed when a program is compiled, and run in place.

A constant blob of packed weights is embedded, aligned to 64 bytes; the same weights are one blob, however often they
are used. Blobs above a size go to a file beside the binary instead. Such a blob is an argument of the function that
uses it, after those of the program, and the entry that is called from outside maps the file and adds it.

The file is a header of 64 bytes (a mark, the size of the file, a digest of the blobs) and the blobs, each at a multiple
of 64. The binary holds the header and takes no file that starts with another one, or has another size; the blobs
themselves are not read for that. Whoever doubts them has their checksums compared (qmm_set_verify_packed_files).
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch_mlir.extras.fx_importer import FxImporterHooks
from torch_mlir.ir import (
    Attribute,
    Block,
    DenseElementsAttr,
    DenseResourceElementsAttr,
    FunctionType,
    InsertionPoint,
    IntegerType,
    Module,
    Operation,
    RankedTensorType,
    StringAttr,
    Type,
    TypeAttr,
    Value,
)
from torch_mlir.passmanager import PassManager

from .. import Weights, pack
from .types import VTensor

_MARK = b"libqmm packed 1\n"
_ALIGNMENT = 64
_DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "ui8": torch.uint8,
    "si8": torch.int8,
    "si32": torch.int32,
    "si64": torch.int64,
}


class Literals(FxImporterHooks):
    """Writes tensors that a program holds as literals: tensors of the same memory as the same one."""

    def __init__(self):
        self._known: dict[tuple, tuple[torch.Tensor, Attribute]] = {}

    def resolve_literal(self, gni, literal, info) -> Value | None:
        """Called by the importer, which does what it can itself where this returns None."""
        if not isinstance(literal, torch.Tensor) or literal.dtype not in _DTYPES.values() or literal.numel() < 2:
            return None
        (element,) = (name for name, dtype in _DTYPES.items() if dtype == literal.dtype)
        shape = "x".join([*map(str, literal.shape), element])
        key = literal.data_ptr(), literal.stride(), shape
        if key not in self._known:
            data = literal.detach().contiguous().view(-1).view(torch.uint8).numpy()
            type = RankedTensorType(Type.parse(f"tensor<{shape}>"))
            name = f"literal_{len(self._known)}"
            self._known[key] = literal, DenseResourceElementsAttr.get_from_buffer(data, name, type, literal.itemsize)
        type = Type.parse(f"!torch.vtensor<[{','.join(map(str, literal.shape))}],{element}>")
        return _literal(type, self._known[key][1])


def read_constant(value: Value) -> torch.Tensor | None:
    """Returns the tensor, if it is a literal of the module, or computed of such by ops that PyTorch can run."""
    try:
        constant, dtype = _evaluate(value, {}), _DTYPES[_element(value)]
    except (LookupError, AttributeError, RuntimeError, TypeError):  # the last three where PyTorch has no such op
        return None
    type = VTensor.parse(value.type)
    if not isinstance(constant, torch.Tensor) or type is None or constant.dtype != dtype:
        return None
    if constant.dim() != len(type.shape) or any(
        extent not in (None, known) for extent, known in zip(type.shape, constant.shape, strict=True)
    ):
        return None
    return constant.contiguous()


def _evaluate(value: Value, known: dict[Value, object]):
    """Returns what is known of a value: a tensor, a number, a list of such. LookupError where it is not known."""
    if value not in known:
        known[value] = _evaluate_once(value, known)
    return known[value]


def _evaluate_once(value: Value, known: dict[Value, object]):
    if isinstance(value.owner, Block):
        raise LookupError("an argument")
    operation = value.owner.operation
    match operation.name.split("."):
        case ["torch", "vtensor", "literal"]:
            return _elements(operation)
        case ["torch", "constant", "none"]:
            return None
        case ["torch", "constant", _]:
            return operation.attributes["value"].value
        case ["torch", "prim", "ListConstruct"]:
            return [_evaluate(operand, known) for operand in operation.operands]
        case ["torch", "aten", name, *overload] if len(operation.results) == 1:
            op = getattr(getattr(torch.ops.aten, name), *overload or ["default"])
            if torch.Tag.nondeterministic_seeded not in op.tags:
                return op(*(_evaluate(operand, known) for operand in operation.operands))
    raise LookupError(operation.name)


def _elements(literal: Operation) -> torch.Tensor:
    attribute, (result,) = literal.attributes["value"], literal.results
    # The bindings do not read resources. But they print those of a module as bytes, after the alignment.
    if str(attribute).startswith("dense_resource<"):
        alone = Module.create()
        with InsertionPoint(alone.body):
            literal.clone()
        data = bytes.fromhex(re.search(r': "0x([0-9A-Fa-f]*)"', alone.operation.get_asm())[1][8:])
    else:
        data = np.array(DenseElementsAttr(_readable(attribute))).tobytes()
    dtype = _DTYPES[_element(result)]  # the literal itself may lack a sign
    return torch.from_numpy(np.frombuffer(bytearray(data), np.uint8)).view(dtype).reshape(attribute.type.shape)


def _element(value: Value) -> str:
    """The element type of a tensor, as torch-mlir spells it."""
    return re.search(r"(\w+)>$", str(value.type))[1]


def _readable(attribute: Attribute) -> Attribute:
    """Returns the elements of a literal; the bits of bf16, which the bindings do not read, as integers."""
    if str(attribute.type.element_type) != "bf16":
        return attribute
    bits = RankedTensorType.get(attribute.type.shape, IntegerType.get_signless(16))
    module = Module.parse(
        f"""
func.func @bits() -> {bits} {{
  %0 = arith.constant {attribute}
  %1 = arith.bitcast %0 : {attribute.type} to {bits}
  return %1 : {bits}
}}"""
    )
    PassManager.parse("builtin.module(canonicalize)").run(module.operation)
    return module.body.operations[0].regions[0].blocks[0].operations[0].attributes["value"]


def pack_tensors(
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None = None,
    mins: torch.Tensor | None = None,
    *,
    bits: int,
    group: int,
    k: int,
) -> torch.Tensor:
    """Packs canonical weights [n, k]."""

    def array(tensor: torch.Tensor | None) -> np.ndarray | None:
        if tensor is None:
            return None
        return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()

    weights = Weights(array(codes), array(scales), array(zeros), array(mins), bits=bits, group=group, k=k)
    return torch.from_numpy(pack(weights))


class Blobs:
    """The constant blobs of a module: literals, or parts of a file where they have more than `limit` bytes."""

    def __init__(self, limit: int | None = None):
        self._limit = limit
        self._literals: dict[bytes, Attribute] = {}
        self._offsets: dict[bytes, int] = {}
        self._file: list[bytes] = []
        self._size = _ALIGNMENT
        self._arguments: dict[str, dict[int, tuple[Value, int]]] = {}  # by function and offset: the value, its bytes

    def value(self, packed: torch.Tensor, operation: Operation) -> Value:
        """Returns `packed` as an operand for `operation`, where the insertion point is."""
        type = Type.parse(f"!torch.vtensor<[{len(packed)}],ui8>")
        data = packed.numpy()
        digest = hashlib.blake2b(data).digest()
        if self._limit is None or len(packed) <= self._limit:
            if digest not in self._literals:
                tensor = RankedTensorType.get(packed.shape, IntegerType.get_unsigned(8))
                name = f"packed_{len(self._literals)}"
                self._literals[digest] = DenseResourceElementsAttr.get_from_buffer(data, name, tensor, _ALIGNMENT)
            return _literal(type, self._literals[digest])

        if digest not in self._offsets:
            self._offsets[digest] = self._size
            self._file.append(data.tobytes().ljust(-(-len(data) // _ALIGNMENT) * _ALIGNMENT, b"\0"))
            self._size += len(self._file[-1])
        function = operation.parent.operation
        while function.name != "func.func":
            function = function.parent.operation
        arguments = self._arguments.setdefault(StringAttr(function.attributes["sym_name"]).value, {})
        offset = self._offsets[digest]
        if offset not in arguments:
            signature = FunctionType(TypeAttr(function.attributes["function_type"]).value)
            signature = FunctionType.get([*signature.inputs, type], signature.results)
            function.attributes["function_type"] = TypeAttr.get(signature)
            arguments[offset] = function.regions[0].blocks[0].add_argument(type, operation.location), len(data)
        return arguments[offset][0]

    def write(self, path: Path) -> None:
        """Writes the file."""
        with path.open("wb") as file:
            for part in (self._header(), *self._file):
                file.write(part)

    @property
    def has_file(self) -> bool:
        return bool(self._file)

    def _header(self) -> bytes:
        digest = hashlib.blake2b(digest_size=32)
        for blob in self._file:
            digest.update(blob)
        return struct.pack("<16sQ8x32s", _MARK, self._size, digest.digest())

    def bind(self, module: Module, symbols: Iterable[tuple[str, str]], file: str) -> None:
        """In the LLVM dialect: adds functions that map the file and call those that have blobs as arguments.

        symbols  of the functions to add, and of those they call
        file     the name of the file
        """
        name = file.encode() + b"\0"
        texts = [_FILE.format(name=_escape(name), length=len(name), header=_escape(self._header()))]
        called = {StringAttr(op.attributes["sym_name"]).value: op.operation for op in module.body.operations}
        for symbol, callee in symbols:
            entry = callee.removeprefix("_mlir_ciface_")
            blobs = [(offset, size) for offset, (_, size) in self._arguments.get(entry, {}).items()]
            if blobs:
                texts.append(_caller(symbol, callee, called[callee], blobs))
        with module.context:
            added = Module.parse("".join(texts))
            for operation in list(added.body.operations):
                if StringAttr(operation.attributes["sym_name"]).value not in called:
                    operation.operation.detach_from_parent()
                    module.body.append(operation)


def _literal(type: Type, value: Attribute) -> Value:
    return Operation.create("torch.vtensor.literal", results=[type], attributes={"value": value}).result


_FILE = """
llvm.mlir.global internal constant @packed_file.name("{name}") : !llvm.array<{length} x i8>
llvm.mlir.global internal constant @packed_file.header("{header}") : !llvm.array<64 x i8>
llvm.mlir.global internal @packed_file() : !llvm.struct<(i64, ptr, ptr, ptr)> {{
  %size = llvm.mlir.constant(32 : i64) : i64
  %name = llvm.mlir.addressof @packed_file.name : !llvm.ptr
  %header = llvm.mlir.addressof @packed_file.header : !llvm.ptr
  %none = llvm.mlir.zero : !llvm.ptr
  %0 = llvm.mlir.undef : !llvm.struct<(i64, ptr, ptr, ptr)>
  %1 = llvm.insertvalue %size, %0[0] : !llvm.struct<(i64, ptr, ptr, ptr)>
  %2 = llvm.insertvalue %name, %1[1] : !llvm.struct<(i64, ptr, ptr, ptr)>
  %3 = llvm.insertvalue %header, %2[2] : !llvm.struct<(i64, ptr, ptr, ptr)>
  %4 = llvm.insertvalue %none, %3[3] : !llvm.struct<(i64, ptr, ptr, ptr)>
  llvm.return %4 : !llvm.struct<(i64, ptr, ptr, ptr)>
}}
llvm.func @qmm_map_packed_file(!llvm.ptr) -> !llvm.ptr
"""

_CALLER = """
llvm.func @{callee}({types}){returned}
llvm.func @{symbol}({parameters}){returned} {{
  %file = llvm.mlir.addressof @packed_file : !llvm.ptr
  %data = llvm.call @qmm_map_packed_file(%file) : (!llvm.ptr) -> !llvm.ptr
  %none = llvm.mlir.zero : !llvm.ptr
  %missing = llvm.icmp "eq" %data, %none : !llvm.ptr
  llvm.cond_br %missing, ^missing, ^run
^missing:
  {nothing}
^run:
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
{descriptors}
  {call}
}}
"""

_DESCRIPTOR = """\
  %o{i} = llvm.mlir.constant({offset} : i64) : i64
  %b{i} = llvm.getelementptr %data[%o{i}] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %n{i} = llvm.mlir.constant({size} : i64) : i64
  %s{i}_0 = llvm.mlir.undef : {struct}
  %s{i}_1 = llvm.insertvalue %b{i}, %s{i}_0[0] : {struct}
  %s{i}_2 = llvm.insertvalue %b{i}, %s{i}_1[1] : {struct}
  %s{i}_3 = llvm.insertvalue %zero, %s{i}_2[2] : {struct}
  %s{i}_4 = llvm.insertvalue %n{i}, %s{i}_3[3, 0] : {struct}
  %s{i}_5 = llvm.insertvalue %one, %s{i}_4[4, 0] : {struct}
  %d{i} = llvm.alloca %one x {struct} : (i64) -> !llvm.ptr
  llvm.store %s{i}_5, %d{i} : {struct}, !llvm.ptr
"""
_STRUCT = "!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>"


def _caller(symbol: str, callee: str, function: Operation, blobs: list[tuple[int, int]]) -> str:
    """Returns a function that calls `callee` with its own arguments and descriptors of the blobs."""
    match = re.fullmatch(r"!llvm\.func<(\S+) \((.*)\)>", str(TypeAttr(function.attributes["function_type"]).value))
    result, inputs = match[1], match[2].split(", ")
    types = [type if type.startswith("!") or type[0] in "if" else f"!llvm.{type}" for type in inputs]
    names = [f"%a{i}" for i in range(len(types) - len(blobs))]
    descriptors = "".join(
        _DESCRIPTOR.format(i=i, offset=offset, size=size, struct=_STRUCT) for i, (offset, size) in enumerate(blobs)
    )
    operands = ", ".join([*names, *(f"%d{i}" for i in range(len(blobs)))])
    call = f"llvm.call @{callee}({operands}) : ({', '.join(types)}) -> "
    if result == "void":
        returned, nothing, call = "", "llvm.return", f"{call}()\n  llvm.return"
    else:
        returned = f" -> {result}"
        nothing = f"%nothing = llvm.mlir.zero : {result}\n  llvm.return %nothing : {result}"
        call = f"%result = {call}{result}\n  llvm.return %result : {result}"
    parameters = ", ".join(f"{name}: {type}" for name, type in zip(names, types, strict=False))
    return _CALLER.format(
        symbol=symbol,
        callee=callee,
        types=", ".join(types),
        parameters=parameters,
        returned=returned,
        nothing=nothing,
        descriptors=descriptors,
        call=call,
    )


def _escape(data: bytes) -> str:
    return "".join(f"\\{byte:02X}" for byte in data)
