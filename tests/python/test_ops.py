# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of ops, and what is generated of it, against each other."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import interpreter
import libqmm
import libqmm.torch
from libqmm.mlir import EXTRA_LIBRARY
from libqmm.ops import OPS, Choice, Tensor

ROOT = Path(__file__).parents[2]
PACKED, GROUPED, EMBEDDING, GROUP_QUANT = OPS


def test_generated_files_are_not_stale():
    subprocess.run([sys.executable, ROOT / "abi/mlir/generate.py", "--check"], check=True)


def cases():
    """Arguments of the ops by name, tensors as (dtype, shape): what fits, and what differs from it in one or two."""
    xs = [("f32", (3, 72)), ("f16", (72,)), ("bf16", (2, None, 72)), ("f32", (None, None)), ("f32", (0, 72))]
    xs += [("f64", (3, 72)), ("f32", ()), ("i8", (3, 72)), ("f32", (3, 70)), ("f32", (3, 0))]
    blobs = [("u8", (100,)), ("u8", (None,)), ("i8", (100,)), ("u8", (10, 10)), ("u8", ())]
    for x, packed, n, lhs in itertools.product(xs, blobs, (20, 0, -1), ("f32", "s8", "s8_token", "s4", "")):
        yield PACKED, {"x": x, "packed": packed, "n": n, "lhs": lhs}
    ids = [("i64", ()), ("i64", (3, None)), ("i32", (3,)), ("i8", (3,)), ("f32", (3,))]
    for which, packed, k in itertools.product(ids, blobs, (72, 0, -3)):
        yield EMBEDDING, {"ids": which, "packed": packed, "k": k}

    fits = {
        "x": ("f32", (3, 72)),
        "codes": ("u8", (20, 36)),
        "scales": ("f16", (20, 3)),
        "zeros": ("i8", (20, 3)),
        "bits": 4,
        "group": 32,
        "mins": None,
        "lhs": "s8",
    }
    matrices = [(20, 3), (None, None), (20, 2), (19, 3), (20,), (20, 9)]
    others = {
        "x": xs,
        "codes": [("u8", (20, 36)), ("i8", (20, 72)), ("u8", (20, 35)), ("u8", (None, None)), ("u8", (7,))],
        "scales": [(dtype, shape) for dtype in ("f16", "bf16", "f64") for shape in matrices],
        "zeros": [None, *((dtype, shape) for dtype in ("i8", "u8", "i64") for shape in matrices)],
        "bits": [4, 8, 0, 3, -4],
        "group": [32, 8, 72, 80, 12, 0, -8, 2**62],
        "mins": [None, *((dtype, shape) for dtype in ("f16", "f32") for shape in matrices)],
        "lhs": ["f32", "S8"],
    }
    for first, second in itertools.combinations(fits, 2):
        for a, b in itertools.product(others[first], others[second]):
            yield GROUPED, {**fits, first: a, second: b}

    codes = ("u8", (20, 36))
    fits = {
        "x": xs[0],
        "codes": codes,
        "scales": ("f16", (20, 3, 1)),
        "zps": ("f32", (20, 3, 1)),
        "bits": 4,
        "group": 32,
    }
    matrices = [(20, 3, 1), (20, 3), (20, 3, 2), (19, 3, 1), (20, 2, 1)]
    others |= {
        "scales": [("f16", shape) for shape in matrices],
        "zps": [(d, s) for d in ("bf16", "i8") for s in matrices],
    }
    for first, second in itertools.combinations(fits, 2):
        for a, b in itertools.product(others[first], others[second]):
            yield GROUP_QUANT, {**fits, first: a, second: b}


def call(op, arguments):
    """What the table makes of the arguments: a sentence, or the call as ops_driver.cc prints it."""
    shapes = {name: a[1] if isinstance(a, tuple) else a for name, a in arguments.items()}
    dtypes = {name: a[0] for name, a in arguments.items() if isinstance(a, tuple)}
    try:
        shape = op.shape(**shapes)
        op.check_dtypes(arguments, dtypes)
    except ValueError as error:
        return str(error)
    names = list(op.arguments)
    words = [op.callee.format(**dtypes)]
    for name, tensor in op.memrefs.items():
        passed = tensor.passed_as or dtypes.get(name) or op.allowed_dtypes(name, arguments, dtypes)[0]
        words.append(f"{names.index(name)}:{tensor.rank}{passed.replace('u', 'i')}")
    for name in op.scalars:
        argument = op.arguments[name]
        words.append(str(argument.numbers[arguments[name]] if isinstance(argument, Choice) else arguments[name]))
    extents = ["?" if extent is None else str(extent) for extent in shape]
    return " ".join([*words, "->", *extents, dtypes.get(op.result_dtype, op.result_dtype)])


def spell(argument):
    """An argument as ops_driver.cc reads it."""
    if argument is None:
        return "none"
    if isinstance(argument, str):
        return f"'{argument}'"
    if isinstance(argument, int):
        return str(argument)
    dtype, shape = argument
    return f"{dtype}[{','.join('?' if extent is None else str(extent) for extent in shape)}]"


def test_the_table_in_cpp_says_the_same(tmp_path):
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    subprocess.run(["c++", *flags, ROOT / "tests/ops_driver.cc", "-o", tmp_path / "driver"], check=True)
    given, names = [], {op.torch_name: itertools.cycle(op.mlir_names) for op in OPS}
    for op, arguments in cases():
        given.append((op, arguments, " ".join([next(names[op.torch_name]), *map(spell, arguments.values())])))
    lines = "\n".join(line for *_, line in given)
    printed = subprocess.run([tmp_path / "driver"], input=lines, capture_output=True, text=True, check=True).stdout
    for got, (op, arguments, line) in zip(printed.splitlines(), given, strict=True):
        assert got == call(op, arguments), line


def test_every_name_is_declared():
    """What a row says stands in its arguments."""
    for op in OPS:
        assert set(op.call.split()) <= set(op.arguments)
        assert all(isinstance(op.arguments[name], Tensor) for name in op.memrefs)
        assert op.result_dtype in {*op.arguments, "f32"}


# What torch-mlir is told: the functions of the extra library, run.

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
}
SCALAR_TYPES = {"u8": 0, "i8": 1, "i32": 3, "i64": 4, "f16": 5, "f32": 6, "f64": 7, "bf16": 15}


@pytest.fixture(scope="module")
def library():
    return interpreter.Library(EXTRA_LIBRARY)


def of_library(library, op, name, arguments):
    """The shape and dtype that the library computes, or the sentence with which it refuses the arguments."""
    shapes = [list(a[1]) if isinstance(a, tuple) else a for a in arguments.values()]
    ranks = [(len(a[1]), SCALAR_TYPES[a[0]]) if isinstance(a, tuple) else a for a in arguments.values()]
    try:
        shape = library.call(f"__torch_mlir_shape_fn.{name}", *shapes)
        dtype = library.call(f"__torch_mlir_dtype_fn.{name}", *ranks)
    except interpreter.Raised as error:
        return str(error)
    return shape, dtype


def group_quant(x, codes, scales, zps, bits, group):
    """quant.matmul_rhs_group_quant, which PyTorch does not have, of what it has: w = (code - zp) * scale."""
    assert x.dtype in (torch.float32, torch.float16, torch.bfloat16)
    assert {scales.dtype, zps.dtype} <= {torch.float32, torch.float16, torch.bfloat16}
    assert codes.dtype in (torch.uint8, torch.int8)
    assert bits in (4, 8)
    assert codes.dim() == 2
    (n, row_bytes), k = codes.shape, x.shape[-1]
    assert row_bytes == -(-k * bits // 8)
    assert group == k or group in range(8, k, 8)
    assert scales.shape == zps.shape == (n, -(-k // group), 1)
    if bits == 4:
        codes = torch.stack([codes & 15, codes >> 4 & 15], -1).flatten(1)[:, :k]
    of = torch.arange(k) // group
    return x @ ((codes - zps[:, of, 0].float()) * scales[:, of, 0].float()).to(x.dtype).T


def of_eager(op, arguments):
    """The shape and dtype that the op has in eager PyTorch, or the sentence with which it refuses the arguments."""
    tensors = {name: torch.zeros(a[1], dtype=DTYPES[a[0]]) for name, a in arguments.items() if isinstance(a, tuple)}
    if "packed" in tensors and tensors["packed"].dtype == torch.uint8 and tensors["packed"].dim() == 1:
        k = arguments["k"] if "k" in arguments else (0, *arguments["x"][1])[-1]
        n, k = max(arguments.get("n", 20), 0), max(k, 0)
        tensors["packed"] = torch.from_numpy(libqmm.pack(libqmm.quantize(np.zeros((n, k), np.float32), 8, k)))
    try:
        if op == GROUP_QUANT:
            result = group_quant(**{**arguments, **tensors})
        else:
            result = getattr(getattr(torch.ops.quantized, op.name), op.overload)(**{**arguments, **tensors})
    except ValueError as error:
        return str(error)
    except (AssertionError, IndexError):  # the sentence is the table's
        assert op == GROUP_QUANT
        return call(op, arguments)
    (dtype,) = (SCALAR_TYPES[name] for name, dtype in DTYPES.items() if dtype == result.dtype)
    return list(result.shape), dtype


def spell_dtypes(sentence, arguments):
    """A sentence with dtypes as the table spells them; torch-mlir's functions know their numbers alone."""
    for name, dtype in DTYPES.items():
        sentence = re.sub(rf"{re.escape(str(dtype))}\b|of torch's ScalarType {SCALAR_TYPES[name]}\b", name, sentence)
    return re.sub(r"it must be that of (\w+)", lambda match: f"it must be {arguments[match[1]][0]}", sentence)


def test_the_extra_library_says_what_eager_does(library):
    names = {op.torch_name: itertools.cycle(op.mlir_names) for op in OPS}
    fitting = {op.torch_name: 0 for op in OPS}
    for op, arguments in cases():
        known = {
            name: (a[0], tuple(2 if extent is None else extent for extent in a[1])) if isinstance(a, tuple) else a
            for name, a in arguments.items()
        }
        got, want = of_library(library, op, next(names[op.torch_name]), known), of_eager(op, known)
        if isinstance(want, str) and isinstance(got, str):
            got, want = (spell_dtypes(sentence, known) for sentence in (got, want))
        assert got == want, (op.torch_name, known)
        fitting[op.torch_name] += not isinstance(want, str)
    assert min(fitting.values()) > 10, fitting


def test_the_extra_library_has_all_functions(library):
    names = [name for op in OPS for name in op.mlir_names]
    kinds = ("shape", "dtype", "has_value_semantics")
    assert library.names() == {f"__torch_mlir_{kind}_fn.{name}" for kind in kinds for name in names}
    for name in names:
        assert library.call(f"__torch_mlir_has_value_semantics_fn.{name}") is None
