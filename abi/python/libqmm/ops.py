# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of ops: a row drives the torch schema, the fake implementation, torch-mlir's extra library, the lowering.

A shape rule takes shapes as tuples of ints (or torch.SymInt; or None where a compiler does not know an extent), checks
them, and returns the shape of the result. It raises ValueError with a sentence that holds the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LHS_KINDS = {"f32": 0, "s8": 1, "s8_token": 2}  # QMM_LHS_* of qmm.h


@dataclass(frozen=True)
class Op:
    """One op: `quantized::<name>.<overload>`."""

    name: str
    overload: str
    schema: str  # of the arguments and the result, in torch's schema language
    shape: Callable[..., tuple]  # the arguments of the schema, tensors as their shapes (None where not given)
    callee: str  # the memref entry point, without _mlir_ciface_; with T below: + _f32, _f16 or _bf16
    memrefs: dict[str, str]  # its tensors, in its order, as MLIR spells them (T: the dtype of the scales)
    scalars: tuple[str, ...] = ()  # then these integers (lhs as its number); then y, ?x?xf32
    # Where it takes packed weights: checks their shape (n, k), given before the arguments of `shape`, against those.
    check_packed: Callable[..., None] | None = None

    @property
    def torch_name(self) -> str:
        return f"quantized::{self.name}.{self.overload}"

    @property
    def mlir_name(self) -> str:
        """The name that torch-mlir's FX importer gives to the op."""
        return f"torch.quantized.{self.name}.{self.overload}"


def _differ(a, b) -> bool:
    """Whether two extents are known and not the same."""
    return a is not None and b is not None and bool(a != b)


def lhs_kind(op: str, lhs: str) -> int:
    """Returns the QMM_LHS_* that `lhs` names."""
    if lhs not in LHS_KINDS:
        raise ValueError(f"{op}: lhs is {lhs!r}; it must be one of {', '.join(map(repr, LHS_KINDS))}")
    return LHS_KINDS[lhs]


def _check_rank(op: str, name: str, shape: tuple, rank: int) -> None:
    if len(shape) != rank:
        raise ValueError(f"{op}: {name} has rank {len(shape)}, shape {_show(shape)}; it must have rank {rank}")


def _show(shape: tuple) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"


def _matmul_packed(x: tuple, packed: tuple, n: int, lhs: str = "f32") -> tuple:
    op = "quantized::matmul.packed"
    lhs_kind(op, lhs)
    if len(x) < 1:
        raise ValueError(f"{op}: x has rank 0; it must have at least rank 1")
    _check_rank(op, "packed", packed, 1)
    if n < 0:
        raise ValueError(f"{op}: n is {n}; it must not be negative")
    return (*x[:-1], n)


def _check_matmul_packed(rhs: tuple, x: tuple, packed: tuple, n: int, lhs: str = "f32") -> None:
    if _differ(n, rhs[0]) or _differ(x[-1], rhs[1]):
        raise ValueError(
            f"quantized::matmul.packed: the packed weights are {_show(rhs)}; "
            f"x {_show(x)} and n = {n} need {_show((n, x[-1]))}"
        )


def _matmul_grouped(x, codes, scales, zeros, bits: int, group: int, mins=None, lhs: str = "f32") -> tuple:
    op = "quantized::matmul.grouped"
    lhs_kind(op, lhs)
    if len(x) < 1:
        raise ValueError(f"{op}: x has rank 0; it must have at least rank 1")
    if bits not in (4, 8):
        raise ValueError(f"{op}: bits is {bits}; it must be 4 or 8")
    _check_rank(op, "codes", codes, 2)
    _check_rank(op, "scales", scales, 2)
    if zeros is not None and mins is not None:
        raise ValueError(f"{op}: give zeros or mins, not both")
    n, k = codes[0], x[-1]
    if k is not None:
        row_bytes = (k * bits + 7) // 8
        if _differ(codes[1], row_bytes):
            raise ValueError(
                f"{op}: codes {_show(codes)} do not fit x {_show(x)}: "
                f"k = {k} at {bits} bits takes {row_bytes} bytes a row"
            )
        if group != k and (group <= 0 or group % 8 != 0 or bool(group > k)):
            raise ValueError(f"{op}: group is {group}; it must be a multiple of 8 up to k, or k = {k}")
        groups = (k + group - 1) // group if group else 0
    else:
        if group < 0:
            raise ValueError(f"{op}: group is {group}; it must not be negative")
        groups = None
    for name, shape in (("scales", scales), ("zeros", zeros), ("mins", mins)):
        if shape is None:
            continue
        _check_rank(op, name, shape, 2)
        if _differ(shape[0], n) or _differ(shape[1], groups):
            raise ValueError(
                f"{op}: {name} {_show(shape)} must be {_show((n, groups))} for codes {_show(codes)}, group {group}"
            )
    return (*x[:-1], n)


def _embedding_packed(ids: tuple, packed: tuple, k: int) -> tuple:
    op = "quantized::embedding.packed"
    _check_rank(op, "packed", packed, 1)
    if k < 0:
        raise ValueError(f"{op}: k is {k}; it must not be negative")
    return (*ids, k)


def _check_embedding_packed(rhs: tuple, ids: tuple, packed: tuple, k: int) -> None:
    if k != rhs[1]:
        raise ValueError(f"quantized::embedding.packed: k is {k}; the packed weights are {_show(rhs)}")


OPS = (
    Op(
        name="matmul",
        overload="packed",
        schema="(Tensor x, Tensor packed, int n, str lhs='f32') -> Tensor",
        shape=_matmul_packed,
        callee="qmm_matmul_packed",
        memrefs={"x": "?x?xf32", "packed": "?xi8"},
        scalars=("lhs",),
        check_packed=_check_matmul_packed,
    ),
    Op(
        name="matmul",
        overload="grouped",
        schema="(Tensor x, Tensor codes, Tensor scales, Tensor? zeros, int bits, int group, Tensor? mins=None, "
        "str lhs='f32') -> Tensor",
        shape=_matmul_grouped,
        callee="qmm_matmul_grouped",
        memrefs={"x": "?x?xf32", "codes": "?x?xi8", "scales": "?x?xT", "zeros": "?x?xi8", "mins": "?x?xT"},
        scalars=("bits", "group", "lhs"),
    ),
    Op(
        name="embedding",
        overload="packed",
        schema="(Tensor ids, Tensor packed, int k) -> Tensor",
        shape=_embedding_packed,
        callee="qmm_rows_packed",
        memrefs={"ids": "?xi64", "packed": "?xi8"},
        check_packed=_check_embedding_packed,
    ),
)
