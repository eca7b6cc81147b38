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
DTYPES = ("f32", "f16", "bf16", "u8", "i8", "i32", "i64")  # as the table spells them
REQUIRED = object()


@dataclass(frozen=True)
class Tensor:
    """A tensor among the arguments of an op."""

    # Names of extents, or numbers; "..." is any number of leading ones. A name stands for the first extent that bears
    # it, unless it is an argument, or one of the names that the op computes.
    shape: str
    # An expression: a dtype, or a tuple of them, by integers of the op if need be; or another tensor, for its dtype.
    dtype: str
    optional: bool = False
    default: object = REQUIRED
    passed_as: str = ""  # the dtype in which the entry point takes it, if not its own

    @cached_property
    def extents(self) -> list[str]:
        """The extents without the leading ones."""
        return self.shape.removeprefix("...").split()

    @cached_property
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


@dataclass(frozen=True)
class Op:
    """One op: `<namespace>::<name>.<overload>`."""

    name: str
    overload: str
    arguments: Mapping[str, Tensor | Int | Choice]  # in the order of the schema
    result: str  # its shape, as that of a Tensor: leading extents are those of the first argument
    result_dtype: str  # a dtype, or a tensor among the arguments, for its dtype
    # The memref entry point, without _mlir_ciface_; {tensor} stands for the dtype of that tensor. "": the lowering
    # makes another op of it.
    callee: str
    call: str  # the arguments that it takes, tensors first; after them the result
    named: Mapping[str, str] = field(default_factory=dict)  # more names for conditions, shapes and sentences
    requires: tuple[Require, ...] = ()
    # Where it takes packed weights: compares their shape `rhs`, [n, k], with the arguments.
    requires_of_packed: Require | None = None
    aliases: tuple[str, ...] = ()  # further names in torch-mlir's IR
    namespace: str = "quantized"

    @cached_property
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
                if not extent.isdigit() and extent not in {*found, *self.named, *self.arguments}:
                    found[extent] = name, i - len(extents) if tensor.has_leading else i
        return found

    @cached_property
    def _named(self) -> list[tuple[str, CodeType]]:
        return [(name, _compile(expression)) for name, expression in self.named.items()]

    @cached_property
    def _checks(self) -> list[tuple[CodeType, str]]:
        return [(_compile(check.condition), check.sentence) for check in self.checks]

    @cached_property
    def _check_of_packed(self) -> CodeType:
        return _compile(self.requires_of_packed.condition)

    @cached_property
    def _result(self) -> Tensor:
        return Tensor(self.result, "")

    @cached_property
    def _dtypes(self) -> dict[str, CodeType]:
        return {name: _compile(tensor.dtype) for name, tensor in self.tensors.items()}

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
        for condition, sentence in self._checks:
            if not _evaluate(condition, env):
                self._refuse(sentence, env)
        result, (first, tensor) = self._result, next(iter(self.tensors.items()))
        leading = env[first][: len(env[first]) - len(tensor.extents)] if result.has_leading else ()
        return tuple(None if extent is _UNKNOWN else extent for extent in (*leading, *map(env.get, result.extents)))

    def check_packed(self, rhs: tuple[int, int], *args, **kwargs) -> None:
        """Compares packed weights of shape rhs, [n, k], with the arguments, given as to `shape`."""
        env = {**self._names(self.bind(*args, **kwargs)), "rhs": rhs}
        if not _evaluate(self._check_of_packed, env):
            self._refuse(self.requires_of_packed.sentence, env)

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
        dtype = _evaluate(self._dtypes[name], {**arguments, **dtypes})
        return dtype if isinstance(dtype, tuple) else (dtype,)

    def _names(self, env: dict) -> dict:
        """Adds to the arguments what else conditions may name, after checking what has to fit before that."""
        for name, argument in self.arguments.items():
            if isinstance(argument, Choice):
                argument.number(self.torch_name, name, env[name])
            elif env[name] is None and isinstance(argument, Int):
                env[name] = _UNKNOWN
            if env[name] is None or not isinstance(argument, Tensor):
                continue
            shape, rank, has_leading = env[name], len(argument.extents), argument.has_leading
            if any(extent is None for extent in shape):
                shape = env[name] = tuple(_UNKNOWN if extent is None else extent for extent in shape)
            if has_leading and len(shape) < rank:
                self._refuse(f"{name} has rank {len(shape)}; it must have at least rank {rank}", env)
            if not has_leading and len(shape) != rank:
                self._refuse(f"{name} has rank {len(shape)}, shape {{{name}}}; it must have rank {rank}", env)
        for extent, (name, i) in self.extents.items():
            env[extent] = env[name][i]
        for name, code in self._named:
            env[name] = _evaluate(code, env)
        return env

    def _refuse(self, sentence: str, env: dict) -> None:
        shown = {n: f"[{', '.join(map(str, v))}]" if isinstance(v, tuple) else v for n, v in env.items()}
        raise ValueError(f"{self.torch_name}: {sentence.format_map(shown)}")


def _compile(expression: str) -> CodeType:
    return compile(expression, expression, "eval")


def _evaluate(code: CodeType, env: dict):
    return eval(code, _GLOBALS, env)


def _max(a, b):
    return _UNKNOWN if _UNKNOWN is a or _UNKNOWN is b else max(a, b)


_GLOBALS = {"__builtins__": {}, "max": _max, **{name: name for name in DTYPES}}
_LHS = Choice(LHS_KINDS, default="f32")


def lhs_kind(function: str, lhs: str) -> int:
    """Returns the QMM_LHS_* that `lhs` names."""
    return _LHS.number(function, "lhs", lhs)


_X = Tensor("... k", "f32, f16, bf16", passed_as="f32")
_PACKED = Tensor("size", "u8")


# Of canonical weights [n, k].
_GROUPS = {"row_bytes": "(k * bits + 7) // 8", "groups": "-(-k // max(group, 1))"}
_BITS = Require("bits == 4 or bits == 8", "bits is {bits}; it must be 4 or 8")
_CODES = Require("codes", "codes {codes} do not fit x {x}: k = {k} at {bits} bits takes {row_bytes} bytes a row")
_GROUP = (
    Require(
        "group == k or group > 0 and group % 8 == 0 and group <= k",
        "group is {group}; it must be a multiple of 8 up to k, or k = {k}",
    ),
    Require("group >= 0", "group is {group}; it must not be negative"),
)


def _per_group(shape: str, *tensors: str) -> tuple[Require, ...]:
    return tuple(
        Require(name, f"{name} {{{name}}} must be {shape} for codes {{codes}}, group {{group}}") for name in tensors
    )


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
        # Without an overload, in IR that is written by hand. PyTorch's own op of that name takes other operands, which
        # are refused.
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
        named=_GROUPS,
        requires=(
            _BITS,
            Require("zeros is None or mins is None", "give zeros or mins, not both"),
            _CODES,
            *_GROUP,
            *_per_group("[{n}, {groups}]", "scales", "zeros", "mins"),
        ),
    ),
    Op(
        name="embedding",
        overload="packed",
        arguments={"ids": Tensor("...", "i64, i32", passed_as="i64"), "packed": _PACKED, "k": Int()},
        result="... k",
        result_dtype="f32",
        callee="qmm_rows_packed",
        call="ids packed",
        requires=(Require("k >= 0", "k is {k}; it must not be negative"),),
        requires_of_packed=Require("k == rhs[1]", "k is {k}; the packed weights are {rhs}"),
    ),
    # The op that torch-mlir and its users emit: w = (code - zp) * scale, codes unsigned in a u8 tensor, signed in an i8
    # one, at 4 bits two a byte, the even k low.
    Op(
        namespace="quant",
        name="matmul_rhs_group_quant",
        overload="",
        arguments={
            "x": _X,
            "codes": Tensor("n row_bytes", "u8, i8"),
            "scales": Tensor("n groups 1", "f32, f16, bf16"),
            "zps": Tensor("n groups 1", "f32, f16, bf16"),
            "bits": Int(),
            "group": Int(),
        },
        result="... n",
        result_dtype="x",
        callee="",
        call="",
        named=_GROUPS,
        requires=(_BITS, _CODES, *_GROUP, *_per_group("[{n}, {groups}, 1]", "scales", "zps")),
    ),
)
