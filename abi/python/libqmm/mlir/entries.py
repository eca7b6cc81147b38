# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entries of a module: what their arguments and results are, and what may happen to the caller's memory.

An entry writes the arguments that the program assigns to, in place, and no others. Each result is memory of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from torch.export.graph_signature import OutputKind
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges
from torch_mlir.dialects import arith, bufferization, linalg, memref
from torch_mlir.extras.fx_decomp_util import get_decomposition_table
from torch_mlir.extras.fx_importer import FxImporter
from torch_mlir.ir import (
    ArrayAttr,
    BlockArgument,
    BoolAttr,
    DictAttr,
    IndexType,
    InsertionPoint,
    MemRefType,
    Module,
    Operation,
    RankedTensorType,
    StringAttr,
    Type,
    UnitAttr,
)

from .lowering import VIEWS
from .names import parameter_names
from .types import VTensor

_DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
_aten = torch.ops.aten
_PRODUCTS = (_aten.mm, _aten.bmm, _aten.addmm, _aten.baddbmm, _aten.convolution)
_SCALARS = {torch.SymInt: "i64", torch.SymFloat: "f64", torch.SymBool: "bool"}
_TORCH_SCALARS = {"!torch.int": "i64", "!torch.float": "f64", "!torch.bool": "bool"}


@dataclass(frozen=True)
class Value:
    """An argument or result: a tensor, or a scalar, which has no shape."""

    name: str  # of an argument: an identifier in C
    dtype: str  # "f32", "i64", "u8", ...
    shape: tuple[str, ...] | None  # "576", or a name where the extent is known at run time only


@dataclass(frozen=True)
class Entry:
    """One exported program: an entry `name` of the compiled code. Constants are no part of its signature."""

    name: str
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    written: tuple[int, ...]  # arguments that the program assigns to, in the order in which torch returns them
    ranges: tuple[str, ...]  # "2 <= s0 <= 512": of the names in the shapes, and of integer arguments

    @property
    def symbol(self) -> str:
        """Its function in the module: a name that no function of libc has."""
        return f"entry.{self.name}"


def import_entry(importer: FxImporter, name: str, program: torch.export.ExportedProgram) -> Entry:
    """Imports `program` as function `name`. NotImplementedError for a program that changes its own buffers."""
    program = program.run_decompositions(get_decomposition_table())
    program.state_dict.update(program.constants)  # where the importer looks for buffers that are not persistent
    graph, signature = program.graph, program.graph_signature
    _check_products(graph)
    _assign_values(graph)
    for output in signature.output_specs:
        if output.kind == OutputKind.BUFFER_MUTATION:
            raise NotImplementedError(
                f"{name}: forward assigns to its buffer {output.target!r}; give it such state as an argument"
            )

    for node in graph.find_nodes(op="placeholder"):
        if not isinstance(node.meta["val"], (torch.Tensor, *_SCALARS)):
            graph.erase_node(node)  # a constant, which its users hold already
    inputs = [node for node in graph.find_nodes(op="placeholder") if node.name in signature.user_inputs]
    output = graph.output_node()
    outputs = [value for value in output.args[0] if isinstance(value, torch.fx.Node)]
    output.args = (tuple(outputs),)

    mutated = list(signature.user_inputs_to_mutate.values())
    names = [node.name for node in inputs]
    parameters = dict(zip(inputs, parameter_names(names), strict=True))
    symbols = {str(node.meta["val"]): parameters[node] for node in inputs if type(node.meta["val"]) in _SCALARS}
    entry = Entry(
        name,
        tuple(_value(parameters[node], node) for node in inputs),
        tuple(_value("result", node) for node in outputs[len(mutated) :]),
        tuple(names.index(name) for name in mutated),
        tuple(_range(symbols.get(str(s), str(s)), bounds) for s, bounds in program.range_constraints.items()),
    )
    importer.import_frozen_program(program, func_name=entry.symbol)
    return entry


def module_entries(module: Module) -> list[Entry]:
    """Renames the public functions of a module that keeps the backend contract to the symbols of entries."""
    entries = []
    for op in module.body.operations:
        name = op.operation.name == "func.func" and StringAttr(op.attributes["sym_name"]).value
        if not name or not op.regions[0].blocks or visibility(op.operation) != "public":
            continue
        arguments, end = _body(op.operation)
        entry = Entry(
            name,
            tuple(_typed_value(name, f"arg{i}", argument.type) for i, argument in enumerate(arguments)),
            tuple(_typed_value(name, "result", value.type) for value in end.operands),
            (),
            (),
        )
        op.attributes["sym_name"] = StringAttr.get(entry.symbol, module.context)
        entries.append(entry)
    return entries


def visibility(function: Operation) -> str:
    """Returns "public", which may be left out, "private" or "nested"."""
    attribute = "sym_visibility" in function.attributes and function.attributes["sym_visibility"]
    return StringAttr(attribute).value if attribute else "public"


def _typed_value(entry: str, name: str, type: Type) -> Value:
    tensor = VTensor.parse(type)
    dtype = {"i1": "bool"}.get(tensor.dtype, tensor.dtype) if tensor else _TORCH_SCALARS.get(str(type))
    if dtype not in _DTYPES.values():
        raise NotImplementedError(f"{entry}: {name} is {type}; an entry can not pass such values")
    return Value(name, dtype, tensor and tuple("?" if extent is None else str(extent) for extent in tensor.shape))


def _check_products(graph: torch.fx.Graph) -> None:
    """Refuses matmuls and convolutions of 8-bit integers, on which torch-mlir crashes."""
    for node in graph.nodes:
        tensors = [n.meta.get("val") for n in node.args if isinstance(n, torch.fx.Node)]
        dtypes = {tensor.dtype for tensor in tensors if isinstance(tensor, torch.Tensor)}
        if getattr(node.target, "overloadpacket", None) in _PRODUCTS and dtypes & {torch.int8, torch.uint8}:
            raise NotImplementedError(f"{node.target} of {', '.join(map(str, dtypes))} can not be compiled")


def _assign_values(graph: torch.fx.Graph) -> None:
    """Lets assignments take values as they are, unless they broadcast or convert them.

    x[a:b] = value becomes slice, copy of the value to the shape of the slice, and slice_scatter. Where the slice has an
    unknown extent, the copy would become a loop that may broadcast.
    """
    for node in graph.find_nodes(op="call_function", target=_aten.copy.default):
        into, value = (argument.meta["val"] for argument in node.args[:2])
        if into.dtype == value.dtype and into.dim() == value.dim() and all(map(_is_whole, into.shape, value.shape)):
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)


def _is_whole(into, extent) -> bool:
    """Tells whether `extent` can be assigned to the extent `into` only if they are the same."""
    return statically_known_true(extent != 1) or statically_known_true(into == extent)


def _range(name: str, bounds: ValueRanges) -> str:
    return f"{bounds.lower} <= {name}" + ("" if bounds.upper in (int_oo, sympy.oo) else f" <= {bounds.upper}")


def _value(name: str, node: torch.fx.Node) -> Value:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return Value(name, _SCALARS[type(value)], None)
    if value.dtype not in _DTYPES:
        raise NotImplementedError(f"{name} is {value.dtype}; an entry can not pass such tensors")
    return Value(name, _DTYPES[value.dtype], tuple(str(extent) for extent in value.shape))


def keep_memory_apart(module: Module, entries: list[Entry]) -> None:
    """Before bufferization: says which arguments are written, and that what they become goes there."""
    with module.context, module.operation.location:
        for entry in entries:
            function = _function(module, entry)
            arguments, end = _body(function)
            function.attributes["llvm.emit_c_interface"] = UnitAttr.get()
            kept = DictAttr.get({"bufferization.writable": BoolAttr.get(False)})
            function.attributes["arg_attrs"] = ArrayAttr.get(
                [
                    kept if isinstance(argument.type, RankedTensorType) and i not in entry.written else DictAttr.get({})
                    for i, argument in enumerate(arguments)
                ]
            )
            destinations = [arguments[i] for i in entry.written]
            values = list(end.operands)
            sources = values[: len(destinations)]
            with InsertionPoint(end):
                # A result that is, or views, memory which the return is about to write has to leave it first; and one
                # value has to be in two places at the end.
                for i, value in enumerate(values):
                    others = destinations[:i] + destinations[i + 1 :] if i < len(sources) else destinations + sources
                    if _viewed(value) in [*others, *map(_viewed, sources[:i])]:
                        end.operands[i] = bufferization.alloc_tensor(value.type, [], copy=value)
                for i, destination in enumerate(destinations):
                    end.operands[i] = bufferization.materialize_in_destination(
                        destination.type, end.operands[i], destination
                    )


def own_results(module: Module, entries: list[Entry]) -> None:
    """After bufferization: copies each result that is, or views, the memory of an argument or of another result."""
    with module.context, module.operation.location:
        for entry in entries:
            _, end = _body(_function(module, entry))
            values = list(end.operands)
            for i, value in enumerate(values):
                is_argument = isinstance(_viewed(value), BlockArgument)
                if i < len(entry.written):
                    assert is_argument, f"{entry.name}: an argument that is assigned to is not written in place"
                elif isinstance(value.type, MemRefType) and (is_argument or _viewed(value) in map(_viewed, values[:i])):
                    with InsertionPoint(end):
                        end.operands[i] = _copy(value)


def _viewed(value):
    """Returns the tensor or memref that `value` is a view of."""
    while not isinstance(value, BlockArgument) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def _copy(source):
    type = MemRefType(source.type)
    sizes = [memref.dim(source, arith.constant(IndexType.get(), i)) for i in range(type.rank) if type.is_dynamic_dim(i)]
    copy = memref.alloc(type, sizes, [])
    linalg.copy(source, outs=[copy])
    return copy


def _function(module: Module, entry: Entry) -> Operation:
    for op in module.body.operations:
        if op.operation.name == "func.func" and StringAttr(op.attributes["sym_name"]).value == entry.symbol:
            return op.operation
    raise AssertionError(f"{entry.name} is missing")


def _body(function: Operation):
    """Returns the arguments of a function and its return."""
    block = function.regions[0].blocks[0]
    return block.arguments, list(block.operations)[-1].operation
