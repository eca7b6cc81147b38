# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of ops: a row drives every road from a model to the call.

PyTorch's schema and fake implementation and the lowering on torch-mlir's bindings read it here; abi/mlir/generate.py
makes torch-mlir's extra library and the table of compilers in C++ of it.

What does not fit raises ValueError with a sentence that holds the numbers. A condition is an expression of Python over
the arguments and the extents that their shapes name: integers, + - * // % max(), comparisons, `and`, `or`,
`x is None`, and x[0], an extent of a tensor. The name of a tensor stands for its shape being as declared. There is no
`not`: an extent that a compiler does not know satisfies every comparison, so that a condition holds unless it is known
to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType

LHS_KINDS = {"f32": 0, "s8": 1, "s8_token": 2}  # QMM_LHS_* of qmm.h
DTYPES = ("f32", "f16", "bf16", "u8", "i8", "i64")  # as the table spells them
REQUIRED = object()


@dataclass(frozen=True)
class Tensor:
    """A tensor among the arguments of an op."""

    # Names of extents; "..." is any number of leading ones. A name stands for the first extent that bears it, unless it
    # is an argument, or one of the names that the op computes.
    shape: str
    # An expression: a dtype, or a tuple of them, by integers of the op if need be; or another tensor, for its dtype.
    dtype: str
    optional: bool = False
    default: object = REQUIRED
    passed_as: str = ""  # the dtype in which the entry point takes it, if not its own

    @property
    def extents(self) -> list[str]:
        """The extents without the leading ones."""
        return self.shape.removeprefix("...").split()

    @property
    def has_leading(self) -> bool:
        return self.shape.startswith("...")

    @property
    def rank(self) -> int:
        """Of the memref that the entry point takes: leading extents are folded into one."""
        return self.has_leading + len(self.extents)

    @property
    def schema(self) -> str:
        return "Tensor?" if self.optional else "Tensor"


@dataclass(frozen=True)
class Int:
    default: object = REQUIRED
    schema = "int"


@dataclass(frozen=True)
class Choice:
    """One of some strings, each of which is a number to the entry point."""

    numbers: Mapping[str, int]
    default: object = REQUIRED
    schema = "str"

    def number(self, function: str, name: str, value: str) -> int:
        if value not in self.numbers:
            raise ValueError(f"{function}: {name} is {value!r}; it must be one of {', '.join(map(repr, self.numbers))}")
        return self.numbers[value]


@dataclass(frozen=True)
class Require:
    """A condition, and what to say where it fails: a format string over the arguments and extents."""

    condition: str
    sentence: str


class _Unknown:
    """An extent that a compiler does not know: so is what is computed from it, and comparisons with it hold."""

    def _same(self, *_):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _same
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _same

    def _holds(self, _):
        return True

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _holds
    __hash__ = None

    def __str__(self):
        return "?"


_UNKNOWN = _Unknown()


class _Shape(tuple):
    """A shape that shows unknown extents, None for the caller, as "?"."""

    def __new__(cls, extents):
        return super().__new__(cls, (_UNKNOWN if extent is None else extent for extent in extents))

    def __str__(self):
        return "[" + ", ".join(map(str, self)) + "]"


@dataclass(frozen=True)
class Op:
    """One op: `<namespace>::<name>.<overload>`."""

    name: str
    overload: str
    arguments: Mapping[str, Tensor | Int | Choice]  # in the order of the schema
    result: str  # its shape, as that of a Tensor: leading extents are those of the first argument
    result_dtype: str  # a dtype, or a tensor among the arguments, for its dtype
    callee: str  # the memref entry point, without _mlir_ciface_; {tensor} stands for the dtype of that tensor
    call: str  # the arguments that it takes, tensors first; after them the result
    named: Mapping[str, str] = field(default_factory=dict)  # more names for conditions, shapes and sentences
    requires: tuple[Require, ...] = ()
    # Where it takes packed weights: compares their shape `rhs`, [n, k], with the arguments.
    requires_of_packed: Require | None = None
    aliases: tuple[str, ...] = ()  # further names in torch-mlir's IR
    namespace: str = "quantized"

    @property
    def torch_name(self) -> str:
        return f"{self.namespace}::{self._qualified}"

    @property
    def mlir_names(self) -> tuple[str, ...]:
        """Names of `torch.operator`: of TorchScript's importer, of the FX importer, and aliases."""
        return (f"{self.namespace}.{self._qualified}", f"torch.{self.namespace}.{self._qualified}", *self.aliases)

    @property
    def _qualified(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def schema(self) -> str:
        """Of the arguments and the result, in torch's schema language."""
        defaults = {name: argument.default for name, argument in self.arguments.items()}
        parameters = [
            f"{argument.schema} {name}" + ("" if defaults[name] is REQUIRED else f"={defaults[name]!r}")
            for name, argument in self.arguments.items()
        ]
        return f"({', '.join(parameters)}) -> Tensor"

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        return {name: argument for name, argument in self.arguments.items() if isinstance(argument, Tensor)}

    @property
    def xla_target(self) -> str:
        """The custom call for XLA: the entry point, without the dtypes that XLA tells it of its operands."""
        return self.callee.partition("_{")[0]

    @property
    def memrefs(self) -> dict[str, Tensor]:
        """The tensors that the entry point takes, in its order."""
        return {name: self.tensors[name] for name in self.call.split() if name in self.tensors}

    @property
    def scalars(self) -> list[str]:
        """The integers that it takes after them."""
        return [name for name in self.call.split() if name not in self.tensors]

    @property
    def checks(self) -> tuple[Require, ...]:
        """`requires` with the names of tensors replaced by what their declared shapes say."""
        return tuple(
            Require(self._fits(check.condition), check.sentence) if check.condition in self.tensors else check
            for check in self.requires
        )

    def _fits(self, name: str) -> str:
        tensor = self.tensors[name]
        same = " and ".join(f"{name}[{i}] == {extent}" for i, extent in enumerate(tensor.extents))
        return f"{name} is None or {same}" if tensor.optional else same

    @cached_property
    def extents(self) -> dict[str, tuple[str, int]]:
        """The extents that shapes name: the tensor each is taken from, and its index, from the end where some lead."""
        found = {}
        for name, tensor in self.tensors.items():
            extents = tensor.extents
            for i, extent in enumerate(extents):
                if extent not in {*found, *self.named, *self.arguments}:
                    found[extent] = name, i - len(extents) if tensor.has_leading else i
        return found

    @cached_property
    def _code(self) -> tuple[dict[str, CodeType], list[tuple[CodeType, str]], dict[str, CodeType]]:
        named = {name: _compile(expression) for name, expression in self.named.items()}
        dtypes = {name: _compile(tensor.dtype) for name, tensor in self.tensors.items()}
        return named, [(_compile(check.condition), check.sentence) for check in self.checks], dtypes

    def bind(self, *args, **kwargs) -> dict:
        """Returns the arguments by name, with defaults."""
        given = dict(zip(self.arguments, args, strict=False), **kwargs)
        return {name: given.get(name, argument.default) for name, argument in self.arguments.items()}

    def shape(self, *args, **kwargs) -> tuple:
        """Checks the arguments, and returns the shape of the result.

        They are those of the schema, tensors as their shapes: tuples of ints or torch.SymInts, of None where an extent
        is not known; None for a tensor that is not given.
        """
        env = self._names(self.bind(*args, **kwargs))
        for condition, sentence in self._code[1]:
            if not _evaluate(condition, env):
                raise ValueError(f"{self.torch_name}: {sentence.format_map(env)}")
        result = Tensor(self.result, "")
        first = next(iter(self.tensors))
        leading = env[first][: len(env[first]) - len(self.tensors[first].extents)] if result.has_leading else ()
        extents = (*leading, *(env[extent] for extent in result.extents))
        return tuple(None if extent is _UNKNOWN else extent for extent in extents)

    def check_packed(self, rhs: tuple[int, int], *args, **kwargs) -> None:
        """Compares packed weights of shape rhs, [n, k], with the arguments, given as to `shape`."""
        env = {**self._names(self.bind(*args, **kwargs)), "rhs": _Shape(rhs)}
        if not _evaluate(_compile(self.requires_of_packed.condition), env):
            raise ValueError(f"{self.torch_name}: {self.requires_of_packed.sentence.format_map(env)}")

    def check_dtypes(self, arguments: Mapping, dtypes: Mapping[str, str], spell: Callable[[str], str] = str) -> None:
        """Checks the dtypes of the tensors that are given.

        arguments  the op's, by name; of them only integers are read
        dtypes     as the table spells them, or else in any way, by tensor
        spell      how to show one of the table's
        """
        for name, dtype in dtypes.items():
            allowed = self.allowed_dtypes(name, arguments, dtypes)
            if dtype not in allowed:
                raise ValueError(
                    f"{self.torch_name}: {name} is {spell(dtype)}; it must be {' or '.join(map(spell, allowed))}"
                )

    def allowed_dtypes(self, name: str, arguments: Mapping, dtypes: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the dtypes that a tensor may have beside these arguments and dtypes."""
        dtype = _evaluate(self._code[2][name], {**arguments, **dtypes, **{name: name for name in DTYPES}})
        return dtype if isinstance(dtype, tuple) else (dtype,)

    def _names(self, arguments: dict) -> dict:
        """Returns what conditions and sentences may name, after checking what has to fit before it can be named."""
        env = dict(arguments)
        for name, argument in self.arguments.items():
            if isinstance(argument, Choice):
                argument.number(self.torch_name, name, env[name])
            elif isinstance(argument, Tensor) and env[name] is not None:
                shape = env[name] = _Shape(env[name])
                rank = len(argument.extents)
                if argument.has_leading:
                    if len(shape) < rank:
                        raise ValueError(
                            f"{self.torch_name}: {name} has rank {len(shape)}; it must have at least rank {rank}"
                        )
                elif len(shape) != rank:
                    raise ValueError(
                        f"{self.torch_name}: {name} has rank {len(shape)}, shape {shape}; it must have rank {rank}"
                    )
            elif env[name] is None and isinstance(argument, Int):
                env[name] = _UNKNOWN
        env.update({extent: env[name][i] for extent, (name, i) in self.extents.items()})
        for name, code in self._code[0].items():
            env[name] = _evaluate(code, env)
        return env


def _compile(expression: str) -> CodeType:
    return compile(expression, expression, "eval")


def _evaluate(code: CodeType, env: dict):
    return eval(code, {"__builtins__": {}, "max": _max}, env)


def _max(a, b):
    return _UNKNOWN if _UNKNOWN is a or _UNKNOWN is b else max(a, b)


_LHS = Choice(LHS_KINDS, default="f32")


def lhs_kind(function: str, lhs: str) -> int:
    """Returns the QMM_LHS_* that `lhs` names."""
    return _LHS.number(function, "lhs", lhs)


_X = Tensor("... k", "f32, f16, bf16", passed_as="f32")
_PACKED = Tensor("size", "u8")
_GROUPS = "{0} {{{0}}} must be [{{n}}, {{groups}}] for codes {{codes}}, group {{group}}"

OPS = (
    Op(
        name="matmul",
        overload="packed",
        arguments={"x": _X, "packed": _PACKED, "n": Int(), "lhs": _LHS},
        result="... n",
        result_dtype="x",
        callee="qmm_matmul_packed",
        call="x packed lhs",
        requires=(Require("n >= 0", "n is {n}; it must not be negative"),),
        requires_of_packed=Require(
            "rhs[0] == n and rhs[1] == k", "the packed weights are {rhs}; x {x} and n = {n} need [{n}, {k}]"
        ),
        aliases=("quantized.matmul",),
    ),
    Op(
        name="matmul",
        overload="grouped",
        arguments={
            "x": _X,
            # Codes are bytes, at 8 bits those of signed numbers, in either dtype. 8-bit zeros must say that they are
            # signed: an unsigned 128 would be taken for -128.
            "codes": Tensor("n row_bytes", "u8 if bits == 4 else (i8, u8)"),
            "scales": Tensor("n groups", "f32, f16, bf16"),
            "zeros": Tensor("n groups", "(i8, u8) if bits == 4 else i8", optional=True),
            "bits": Int(),
            "group": Int(),
            "mins": Tensor("n groups", "scales", optional=True, default=None),
            "lhs": _LHS,
        },
        result="... n",
        result_dtype="x",
        callee="qmm_matmul_grouped_{scales}",
        call="x codes scales zeros mins bits group lhs",
        named={"row_bytes": "(k * bits + 7) // 8", "groups": "-(-k // max(group, 1))"},
        requires=(
            Require("bits == 4 or bits == 8", "bits is {bits}; it must be 4 or 8"),
            Require("zeros is None or mins is None", "give zeros or mins, not both"),
            Require("codes", "codes {codes} do not fit x {x}: k = {k} at {bits} bits takes {row_bytes} bytes a row"),
            Require(
                "group == k or group > 0 and group % 8 == 0 and group <= k",
                "group is {group}; it must be a multiple of 8 up to k, or k = {k}",
            ),
            Require("group >= 0", "group is {group}; it must not be negative"),
            *(Require(name, _GROUPS.format(name)) for name in ("scales", "zeros", "mins")),
        ),
    ),
    Op(
        name="embedding",
        overload="packed",
        arguments={"ids": Tensor("...", "i64"), "packed": _PACKED, "k": Int()},
        result="... k",
        result_dtype="f32",
        callee="qmm_rows_packed",
        call="ids packed",
        requires=(Require("k >= 0", "k is {k}; it must not be negative"),),
        requires_of_packed=Require("k == rhs[1]", "k is {k}; the packed weights are {rhs}"),
    ),
)
