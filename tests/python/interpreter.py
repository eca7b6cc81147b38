# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs functions of torch-mlir's extra library on Python's values."""

import operator
from pathlib import Path

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect


class Raised(Exception):
    """What torch.prim.RaiseException raises."""


_FUNCTIONS = {
    **{
        f"torch.aten.{name}.{type}": getattr(operator, name)
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "floordiv", "neg")
        for type in ("int", "str", "t")
    },
    "torch.aten.remainder.int": operator.mod,
    "torch.prim.max.int": max,
    "torch.aten.len.t": len,
    "torch.aten.__getitem__.t": operator.getitem,
    "torch.aten.slice.t": lambda values, start, end, step: values[start:end:step],
    "torch.aten.__is__": operator.is_,
    "torch.aten.format": lambda text, *values: text.format(*values),
    "torch.prim.ListConstruct": lambda *values: list(values),
    "torch.prim.unchecked_cast": lambda value: value,
    "torch.constant.none": lambda: None,
}


class Library:
    def __init__(self, path: Path):
        context = ir.Context()
        torch_dialect.register_dialect(context)
        self._module = ir.Module.parse(path.read_text(), context)
        self._functions = {ir.StringAttr(f.attributes["sym_name"]).value: f for f in self._module.body.operations}

    def names(self) -> set[str]:
        return set(self._functions)

    def call(self, name: str, *arguments):
        """Returns what a function returns. Raised, with the sentence, where it raises."""
        block = self._functions[name].regions[0].blocks[0]
        values = dict(zip(block.arguments, arguments, strict=True))
        return _run(block, values)[0]


def _run(block: ir.Block, values: dict) -> list:
    """Returns the operands of the block's terminator."""
    for op in block.operations:
        operation = op.operation
        operands = [values[value] for value in operation.operands]
        name = operation.name
        if name in ("func.return", "torch.prim.If.yield"):
            return operands
        if name == "torch.prim.RaiseException":
            raise Raised(operands[0])
        if name == "torch.prim.If":
            results = _run(operation.regions[0 if operands[0] else 1].blocks[0], values)
        elif name == "torch.prim.TupleUnpack":
            results = operands[0]
        elif "value" in operation.attributes:
            results = [operation.attributes["value"].value]
        else:
            results = [_FUNCTIONS[name](*operands)]
        values.update(zip(operation.results, results, strict=True))
    raise AssertionError("a block without an end")
