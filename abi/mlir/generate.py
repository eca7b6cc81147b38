# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes files of the table of ops (abi/python/libqmm/ops.py): `./dev generate`.

    abi/mlir/ops.inc                    rows for ops.h, the table in C++
    abi/python/libqmm/mlir/libqmm.mlir  torch-mlir's extra library: shape, dtype and value semantics functions

With --check nothing is written, and a file that is not as it would be written is an error.
"""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from string import Formatter

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "abi" / "python" / "libqmm"))  # not the package, which loads the shared library

from ops import DTYPES, OPS, REQUIRED, Choice, Int, Op, Require, Tensor  # noqa: E402

_HEADER = "{comment} SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n{comment}\n{comment} {text}\n"
_WRITTEN = "Written by `./dev generate` from abi/python/libqmm/ops.py."
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_SCALAR_TYPES = {"u8": 0, "i8": 1, "i32": 3, "i64": 4, "f16": 5, "f32": 6, "bf16": 15}  # torch.ScalarType


def _parse(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _dtypes(node: ast.expr) -> list[str]:
    """The names in a dtype, or a tuple of them."""
    return [name.id for name in (node.elts if isinstance(node, ast.Tuple) else [node])]


def _names(op: Op, *expressions: str, sentence: str = "") -> set[str]:
    """Returns the names in expressions and a sentence, and the tensors whose extents are among them."""
    nodes = [node for text in expressions for node in ast.walk(_parse(text))]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {name for _, name, _, _ in Formatter().parse(sentence) if name}
    return names | {tensor for extent, (tensor, _) in op.extents.items() if extent in names}


def _used(op: Op) -> set[str]:
    """Returns the arguments and extents of which something is computed."""
    expressions = [*op.named.values(), *(t.dtype for t in op.tensors.values()), *Tensor(op.result, "").extents]
    return _names(op, *expressions).union(
        *(_names(op, check.condition, sentence=check.sentence) for check in op.checks)
    )


# ---- C++ ------------------------------------------------------------------------------------------------------------


def _cpp(node: ast.expr) -> str:
    """Returns an expression of the table in C++, over Extents and Givens."""
    match node:
        case ast.Constant(value=int(value)):
            return str(value)
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=index)):
            return f"{name}[{index}]"
        case ast.BoolOp(op=op, values=values):
            return f"({(' && ' if isinstance(op, ast.And) else ' || ').join(map(_cpp, values))})"
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return f"!{name}.given()"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"{_cpp(left)} {_COMPARISONS[type(op)]} {_cpp(right)}"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{_cpp(operand)}"
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return f"floordiv({_cpp(left)}, {_cpp(right)})"
        case ast.BinOp(left=left, op=op, right=right):
            return (
                f"({_cpp(left)} {({ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.Mod: '%'})[type(op)]} {_cpp(right)})"
            )
        case ast.Call(func=ast.Name(id="max"), args=[left, right]):
            return f"max({_cpp(left)}, {_cpp(right)})"
    raise NotImplementedError(ast.unparse(node))


def _cpp_dtype(node: ast.expr) -> str:
    if isinstance(node, ast.IfExp):
        return f"{_cpp(node.test)} ? {_cpp_dtype(node.body)} : {_cpp_dtype(node.orelse)}"
    names = _dtypes(node)
    return f'"{" ".join(names)}"' if set(names) <= set(DTYPES) else f"{names[0]}.dtype"


def _cpp_sentence(sentence: str) -> str:
    parts = []
    for text, name, _, _ in Formatter().parse(sentence):
        parts += [f'"{text}"'] * bool(text) + [name] * bool(name)
    return f"say({', '.join(parts)})"


def _cpp_argument(name: str, argument: Tensor | Int | Choice) -> str:
    match argument:
        case Int():
            return f'{{.name = "{name}", .kind = Argument::kInt}}'
        case Choice(numbers=numbers, default=default):
            choices = ", ".join(f'{{"{string}", {number}}}' for string, number in numbers.items())
            default = "" if default is REQUIRED else f', .default_choice = "{default}"'
            return f'{{.name = "{name}", .kind = Argument::kChoice, .choices = {{{choices}}}{default}}}'
    fields = [f'.name = "{name}"', ".kind = Argument::kTensor"]
    fields += [".optional = true"] * argument.optional + [".has_leading = true"] * argument.has_leading
    fields += [f".extents = {len(argument.extents)}"]
    fields += [f'.passed_as = "{argument.passed_as}"'] * bool(argument.passed_as)
    return f"{{{', '.join(fields)}}}"


def _cpp_arguments(op: Op, used: set[str]) -> list[str]:
    return [
        f"const Given& {name} = given[{i}];"
        if isinstance(argument, Tensor)
        else f"const Extent {name} = given[{i}].integer;"
        for i, (name, argument) in enumerate(op.arguments.items())
        if name in used
    ]


def _cpp_extents(op: Op, used: set[str]) -> list[str]:
    lines = []
    for extent, (tensor, index) in op.extents.items():
        if extent in used:
            at = str(index) if index >= 0 else f"{tensor}.shape.size() - {-index}"
            lines.append(f"const Extent {extent} = {tensor}[{at}];")
    return lines


def _cpp_check(check: Require) -> list[str]:
    return [f"if (!({_cpp(_parse(check.condition))}))", f"  return {_cpp_sentence(check.sentence)};"]


def _cpp_function(name: str, parameter: str, lines: list[str]) -> str:
    body = "".join(f"   {line}\n" for line in lines)
    return f" .{name} = [](const std::vector<Given>& given, {parameter}) -> std::string {{\n{body} }},\n"


def _cpp_row(op: Op) -> str:
    names = list(op.arguments)
    lines = _cpp_arguments(op, _used(op)) + _cpp_extents(op, _used(op))
    for name, expression in op.named.items():
        lines.append(f"const Extent {name} = {_cpp(_parse(expression))};")
    lines.append(f"fit.result = {{{', '.join(Tensor(op.result, '').extents)}}};")
    allowed = [_cpp_dtype(_parse(a.dtype)) if isinstance(a, Tensor) else '""' for a in op.arguments.values()]
    lines.append(f"fit.allowed = {{{', '.join(allowed)}}};")
    for check in op.checks:
        lines += _cpp_check(check)
    lines.append('return "";')

    callee, dtype, *_ = next(Formatter().parse(op.callee), ("", None))
    fields = {
        "name": f'"{op.torch_name}"',
        "names": f"{{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in op.mlir_names)}}}",
        "arguments": "{" + ",\n               ".join(_cpp_argument(*item) for item in op.arguments.items()) + "}",
        "callee": f'"{callee.removesuffix("_") if dtype else callee}"',
        "callee_dtype": str(names.index(dtype)) if dtype else "-1",
        "call": f"{{{', '.join(str(names.index(name)) for name in op.call.split())}}}",
        "columns": str(names.index(last)) if (last := op.result.split()[-1]) in names else "-1",
        "has_leading": "true" if Tensor(op.result, "").has_leading else "false",
        "dtype": '""' if op.result_dtype in names else f'"{op.result_dtype}"',
        "dtype_of": str(names.index(op.result_dtype)) if op.result_dtype in names else "-1",
    }
    row = "".join(f" .{name} = {value},\n" for name, value in fields.items())
    row += _cpp_function("fit", "Fit& fit", lines)
    if check := op.requires_of_packed:
        named = _names(op, check.condition, sentence=check.sentence)
        lines = _cpp_arguments(op, named) + _cpp_extents(op, named) + _cpp_check(check) + ['return "";']
        row += _cpp_function("fit_packed", "const Given& rhs", lines)
    else:
        row += " .fit_packed = nullptr,\n"
    return f"{{{row[1:-2]}}},\n"


def cpp() -> str:
    """Returns ops.inc."""
    text = f"{_WRITTEN} Included by ops.h, within the table."
    return _HEADER.format(comment="//", text=text) + "".join(map(_cpp_row, OPS))


# ---- MLIR -----------------------------------------------------------------------------------------------------------

_INT, _BOOL, _STR, _NONE, _SHAPE, _DTYPE = (
    f"!torch.{name}" for name in ("int", "bool", "str", "none", "list<int>", "tuple<int, int>")
)
_ARITHMETIC = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "remainder",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}


class _Function:
    """The body of a function on what shapes and dtypes torch-mlir knows."""

    def __init__(self, op: Op, kind: str, tensor: str, result: str):
        self.op, self.kind, self.tensor, self.result = op, kind, tensor, result
        self.constants: dict[tuple[str, str], str] = {}
        self.lines: list[str] = []
        self.values = {name: f"%{name}" for name in op.arguments}  # of names in expressions
        self.count = self.depth = 0

    def text(self, name: str, returned: str) -> str:
        types = {_INT: "int", _BOOL: "bool", _STR: "str", _NONE: "none"}
        parameters = ", ".join(f"%{name}: {self.type(name)}" for name in self.op.arguments)
        lines = [f"{value} = torch.constant.{types[t]} {v}".rstrip() for (t, v), value in self.constants.items()]
        body = "".join(f"    {line}\n" for line in [*lines, *self.lines, f"return {returned} : {self.result}"])
        return (
            f'  func.func private @"__torch_mlir_{self.kind}_fn.{name}"({parameters}) -> {self.result} {{\n{body}  }}\n'
        )

    def type(self, name: str) -> str:
        argument = self.op.arguments[name]
        if isinstance(argument, Tensor):
            return f"!torch.optional<{self.tensor.removeprefix('!torch.')}>" if argument.optional else self.tensor
        return _INT if isinstance(argument, Int) else _STR

    def constant(self, type: str, value: str = "") -> str:
        return self.constants.setdefault((type, value), f"%c{len(self.constants)}")

    def add(self, op: str, operands: list[str], types: list[str], result: str, count: int = 0) -> str:
        """Adds an operation and returns its value."""
        value = f"%{self.count}"
        self.count += 1
        values = f"{value}:{count}" if count else value
        result = ", ".join([result] * (count or 1))
        arguments = f"({', '.join(operands)})" if op == "aten.format" else " " + ", ".join(operands)
        types = f"({', '.join(types)})" if op == "prim.ListConstruct" else ", ".join(types)
        self.line(f"{values} = torch.{op}{arguments} : {types} -> {result}")
        return value

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def choose(self, condition: str, then, otherwise, result: str | None) -> str:
        """Adds a branch; `then` and `otherwise` add the sides and return their values."""
        value = f"%{self.count}" if result else ""
        self.count += 1
        self.line(f"{f'{value} = ' * bool(result)}torch.prim.If {condition} -> ({result or ''}) {{")
        for side in (then, otherwise):
            self.depth += 1
            yielded = side()
            self.line(f"torch.prim.If.yield{f' {yielded} : {result}' * bool(result)}")
            self.depth -= 1
            self.line("} else {" if side is then else "}")
        return value

    def given(self, name: str) -> str:
        """Returns a tensor that is known to be given."""
        if not self.op.arguments[name].optional:
            return self.values[name]
        return self.add("prim.unchecked_cast", [f"%{name}"], [self.type(name)], self.tensor)

    def expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(value)):
                return self.constant(_INT, str(value))
            case ast.Name(id=name):
                return self.values[name]
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=index)):
                return self.extent(name, index)
            case ast.BoolOp(op=op, values=[first, *rest]):
                if not rest:
                    return self.expression(first)
                decided = self.constant(_BOOL, "true" if isinstance(op, ast.Or) else "false")
                sides = [lambda: decided, lambda: self.expression(ast.BoolOp(op, rest))]
                return self.choose(self.expression(first), *sides[:: 1 if isinstance(op, ast.Or) else -1], _BOOL)
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                return self.add("aten.__is__", [f"%{name}", self.constant(_NONE)], [self.type(name), _NONE], _BOOL)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.integers(f"aten.{_ARITHMETIC[type(op)]}.int", left, right, result=_BOOL)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.integers("aten.neg.int", operand)
            case ast.BinOp(left=left, op=op, right=right):
                return self.integers(f"aten.{_ARITHMETIC[type(op)]}.int", left, right)
            case ast.Call(func=ast.Name(id="max"), args=[left, right]):
                return self.integers("prim.max.int", left, right)
        raise NotImplementedError(ast.unparse(node))

    def integers(self, op: str, *nodes: ast.expr, result: str = _INT) -> str:
        return self.add(op, [self.expression(node) for node in nodes], [_INT] * len(nodes), result)

    def extent(self, name: str, index: int) -> str:
        operands = [self.given(name), self.constant(_INT, str(index))]
        return self.add("aten.__getitem__.t", operands, [self.tensor, _INT], _INT)

    def require(self, condition: str, sentence: str, values: list[tuple[str, str]]) -> None:
        """Raises a sentence with {} for each of the values, which have types, unless the condition holds."""
        text = self.constant(_STR, f'"{self.op.torch_name}: {sentence}"')

        def fail():
            operands, types = zip((text, _STR), *values, strict=True)
            message = self.add("aten.format", list(operands), list(types), _STR)
            self.line(f"torch.prim.RaiseException {message}, {self.constant(_NONE)} : {_STR}, {_NONE}")

        self.choose(condition, lambda: None, fail, None)

    def any_equal(self, value: str, type: str, others: list[str]) -> str:
        first, *rest = others
        name = "str" if type == _STR else "int"
        equal = self.add(f"aten.eq.{name}", [value, first], [type, type], _BOOL)
        yes = self.constant(_BOOL, "true")
        return self.choose(equal, lambda: yes, lambda: self.any_equal(value, type, rest), _BOOL) if rest else equal

    def if_given(self, name: str, add) -> None:
        if not self.op.arguments[name].optional:
            add()
            return
        absent = self.expression(_parse(f"{name} is None"))
        self.choose(absent, lambda: None, add, None)


def _check_choice(function: _Function, name: str, choice: Choice) -> None:
    strings = [function.constant(_STR, f'"{string}"') for string in choice.numbers]
    shown = ", ".join(f"'{string}'" for string in choice.numbers)
    sentence = f"{name} is '{{}}'; it must be one of {shown}"
    function.require(function.any_equal(f"%{name}", _STR, strings), sentence, [(f"%{name}", _STR)])


def _check_rank(function: _Function, name: str, tensor: Tensor) -> None:
    wanted = function.constant(_INT, str(len(tensor.extents)))
    shape = function.given(name)
    rank = function.add("aten.len.t", [shape], [_SHAPE], _INT)
    compare = "aten.ge.int" if tensor.has_leading else "aten.eq.int"
    fits = function.add(compare, [rank, wanted], [_INT, _INT], _BOOL)
    if tensor.has_leading:
        sentence = f"{name} has rank {{}}; it must have at least rank {{}}"
        function.require(fits, sentence, [(rank, _INT), (wanted, _INT)])
    else:
        sentence = f"{name} has rank {{}}, shape {{}}; it must have rank {{}}"
        function.require(fits, sentence, [(rank, _INT), (shape, _SHAPE), (wanted, _INT)])


def _shape_function(op: Op) -> tuple[_Function, str]:
    function = _Function(op, "shape", _SHAPE, _SHAPE)
    for name, argument in op.arguments.items():
        if isinstance(argument, Choice):
            _check_choice(function, name, argument)
        elif isinstance(argument, Tensor):
            function.if_given(name, functools.partial(_check_rank, function, name, argument))
    for extent, (tensor, index) in op.extents.items():
        if extent in _used(op):
            function.values[extent] = function.extent(tensor, index)
    for name, expression in op.named.items():
        function.values[name] = function.expression(_parse(expression))
    for check in op.checks:
        names = [name for _, name, _, _ in Formatter().parse(check.sentence) if name]
        values = [(function.values[name], function.type(name) if name in op.arguments else _INT) for name in names]
        sentence = "".join(text + "{}" * bool(name) for text, name, _, _ in Formatter().parse(check.sentence))
        function.require(function.expression(_parse(check.condition)), sentence, values)

    result, first = Tensor(op.result, ""), next(iter(op.tensors))
    values = [function.values[extent] for extent in result.extents]
    shape = function.add("prim.ListConstruct", values, [_INT] * len(values), _SHAPE)
    if result.has_leading:
        leading = f"%{first}"
        if op.tensors[first].extents:
            end = function.constant(_INT, str(-len(op.tensors[first].extents)))
            slice_of = [leading, function.constant(_INT, "0"), end, function.constant(_INT, "1")]
            leading = function.add("aten.slice.t", slice_of, [_SHAPE, _INT, _INT, _INT], _SHAPE)
        shape = function.add("aten.add.t", [leading, shape], [_SHAPE, _SHAPE], _SHAPE)
    return function, shape


def _dtype_function(op: Op) -> tuple[_Function, str]:
    function = _Function(op, "dtype", _DTYPE, _INT)
    dtypes = {}

    def check(name: str, node: ast.expr, dtype: str) -> None:
        if isinstance(node, ast.IfExp):
            sides = [lambda side=side: check(name, side, dtype) for side in (node.body, node.orelse)]
            function.choose(function.expression(node.test), *sides, None)
            return
        names = _dtypes(node)
        known = set(names) <= set(DTYPES)
        allowed = [function.constant(_INT, str(_SCALAR_TYPES[n])) if known else dtypes[n] for n in names]
        wanted = " or ".join(names) if known else f"that of {names[0]}"
        sentence = f"{name} is of torch's ScalarType {{}}; it must be {wanted}"
        function.require(function.any_equal(dtype, _INT, allowed), sentence, [(dtype, _INT)])

    for name, tensor in op.tensors.items():

        def check_dtype(name=name, tensor=tensor):
            dtypes[name] = function.add("prim.TupleUnpack", [function.given(name)], [_DTYPE], _INT, 2) + "#1"
            check(name, _parse(tensor.dtype), dtypes[name])

        function.if_given(name, check_dtype)
    if op.result_dtype in dtypes:
        return function, dtypes[op.result_dtype]
    return function, function.constant(_INT, str(_SCALAR_TYPES[op.result_dtype]))


def mlir() -> str:
    """Returns libqmm.mlir."""
    functions = []
    for op in OPS:
        for name in op.mlir_names:
            functions += [function.text(name, value) for function, value in (_shape_function(op), _dtype_function(op))]
            functions.append(
                f'  func.func private @"__torch_mlir_has_value_semantics_fn.{name}"() -> {_NONE} {{\n'
                f"    %none = torch.constant.none\n    return %none : {_NONE}\n  }}\n"
            )
    return _HEADER.format(comment="//", text=_WRITTEN) + "module {\n" + "".join(functions) + "}\n"


def main() -> int:
    files = {ROOT / "abi/mlir/ops.inc": cpp(), ROOT / "abi/python/libqmm/mlir/libqmm.mlir": mlir()}
    if "--check" not in sys.argv:
        for path, text in files.items():
            path.write_text(text)
        return 0
    stale = [str(path.relative_to(ROOT)) for path, text in files.items() if path.read_text() != text]
    if stale:
        print(f"{', '.join(stale)}: not what ops.py says; run ./dev generate", file=sys.stderr)
    return len(stale)


if __name__ == "__main__":
    sys.exit(main())
