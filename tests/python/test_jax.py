# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops in JAX and in StableHLO on XLA's CPU client: the bits of the contract, errors through XLA's own channel."""

import itertools
import re
import struct
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.extend import backend
from jaxlib import xla_client

import contract
import libqmm
import libqmm.jax
import libqmm.mlir
from compiled import compile_by_qmm_opt
from contract import assert_same_bits, random_weights
from libqmm.jax import quantized_embedding, quantized_matmul, quantized_matmul_grouped
from libqmm.ops import OPS
from libqmm.torch import QuantizedLinear

ROOT = Path(__file__).parents[2]
LHS_KINDS = ("f32", "s8", "s8_token")
OFFSETS = ("symmetric", "zeros", "mins")
N, K, GROUP = 20, 72, 32


def rng(seed=0):
    return np.random.default_rng(seed)


def random_x(*shape):
    return rng().standard_normal(shape).astype(np.float32)


def packed_and_weights(bits=4, offset="zeros", scale_dtype="f16", n=N, k=K, group=GROUP):
    weights = random_weights(rng(), n, k, bits, group, offset, scale_dtype)
    return libqmm.pack(weights), weights


def canonical(weights):
    """The arguments of quantized_matmul_grouped after x."""

    def side(array):
        return array.view(jnp.bfloat16) if array is not None and array.dtype == np.uint16 else array

    sides = {"scales": side(weights.scales), "zeros": weights.zeros, "mins": side(weights.mins)}
    return {"codes": weights.codes, **sides, "bits": weights.bits, "group": weights.group}


def put(array):
    with jax.enable_x64(True):
        return jax.device_put(array)


def run_hlo(text, *arguments):
    """Compiles StableHLO by XLA's CPU client, and runs it."""
    client = backend.get_backend("cpu")
    devices = xla_client.DeviceList((client.local_devices()[0],))
    results = client.compile_and_load(text, devices, xla_client.CompileOptions()).execute_sharded(
        [put(argument) for argument in arguments]
    )
    return [np.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()]


# ---- libqmm.jax ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale_dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("bits", "offset"), list(itertools.product((4, 8), OFFSETS)))
def test_the_bits_of_the_contract(bits, offset, scale_dtype):
    packed, weights = packed_and_weights(bits, offset, scale_dtype)
    x = random_x(3, K)
    for lhs in LHS_KINDS:
        want = contract.matmul(x, weights, lhs)
        assert_same_bits(np.asarray(quantized_matmul(x, packed, N, lhs)), want)
        assert_same_bits(np.asarray(quantized_matmul_grouped(x, **canonical(weights), lhs=lhs)), want)
    ids = np.array([[0, N - 1], [7, 7]], np.int32)
    assert_same_bits(np.asarray(quantized_embedding(ids, packed, K)), contract.dequantize(weights)[ids])


def test_eager_calls_are_traced_once():
    packed, _ = packed_and_weights()
    call = libqmm.jax._custom_call("quantized::matmul.packed", N, (("lhs", "s8"),))
    call.clear_cache()
    for _ in range(3):
        quantized_matmul(random_x(2, K), packed, N, "s8")
    assert call._cache_size() == 1


def test_jit_of_a_model():
    table, table_weights = packed_and_weights(8, "symmetric", n=30)
    packed, weights = packed_and_weights()

    @jax.jit
    def model(ids, table, packed, codes, scales, zeros):
        x = quantized_embedding(ids, table, K)
        y = jax.nn.relu(quantized_matmul(x * 2, packed, N, "s8"))
        return y + quantized_matmul_grouped(x, codes, scales, zeros, bits=4, group=GROUP)

    ids = np.array([[3, 4, 29]])
    x = contract.dequantize(table_weights)[ids[0]]
    want = np.maximum(contract.matmul(x * 2, weights, "s8"), 0) + contract.matmul(x, weights, "f32")
    got = model(ids, table, packed, weights.codes, weights.scales, weights.zeros)
    assert_same_bits(np.asarray(got), want[None])


def test_vmap():
    packed, weights = packed_and_weights()
    other_weights = random_weights(rng(1), N, K, 4, GROUP, "zeros")
    other = libqmm.pack(other_weights)
    x = random_x(2, 3, K)
    want = contract.matmul(x.reshape(6, K), weights, "s8").reshape(2, 3, N)

    def matmul(x, packed):
        return quantized_matmul(x, packed, N, "s8")

    folded = jax.jit(jax.vmap(jax.vmap(matmul, (0, None)), (0, None)))
    assert "while" not in folded.lower(x, packed).as_text()
    assert_same_bits(np.asarray(folded(x, packed)), want)
    assert_same_bits(np.asarray(jax.vmap(matmul, (2, None), 1)(x.transpose(1, 2, 0), packed)), want.transpose(1, 0, 2))

    both = np.stack((packed, other))
    want = np.stack([contract.matmul(x[i], w, "s8") for i, w in enumerate((weights, other_weights))])
    assert_same_bits(np.asarray(jax.jit(jax.vmap(matmul))(x, both)), want)
    want = np.stack([contract.matmul(x[0], w, "s8") for w in (weights, other_weights)])
    assert_same_bits(np.asarray(jax.vmap(matmul, (None, 0))(x[0], both)), want)

    ids = np.array([[0, 19], [7, 7]])
    rows = jax.vmap(lambda i: quantized_embedding(i, packed, K))(ids)
    assert_same_bits(np.asarray(rows), contract.dequantize(weights)[ids])
    grouped = canonical(weights)
    codes = np.stack((grouped.pop("codes"), other_weights.codes))
    got = jax.vmap(lambda codes: quantized_matmul_grouped(x[0], codes, **grouped))(codes)
    assert_same_bits(np.asarray(got[0]), contract.matmul(x[0], weights, "f32"))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_half_precision_is_widened_and_rounded_once(dtype):
    packed, weights = packed_and_weights()
    x = random_x(5, K).astype(dtype)
    x[0] = np.float32(1e-7)  # subnormal in f16
    want = contract.matmul(x.astype(np.float32), weights, "f32").astype(dtype)
    for got in (
        quantized_matmul(x, packed, N),
        jax.jit(quantized_matmul_grouped, static_argnames=("bits", "group"))(x, **canonical(weights)),
    ):
        assert got.dtype == dtype
        assert np.array_equal(np.asarray(got).view(np.uint16), want.view(np.uint16))


def test_denormals_count_though_xla_flushes_them():
    packed, weights = packed_and_weights(scale_dtype="f32")
    x = random_x(3, K) * np.float32(1e-38)
    assert (np.abs(x) < 1.17e-38).any()
    want = contract.matmul(x, weights, "f32")
    assert (np.abs(want[want != 0]) < 1.17e-38).any()

    @jax.jit
    def f(x, packed):
        return quantized_matmul(x, packed, N), x * np.float32(0.5)

    y, flushed = f(x, packed)
    assert_same_bits(np.asarray(y), want)
    assert not np.array_equal(np.asarray(flushed), x * np.float32(0.5))  # or else this tests nothing


def test_threads_change_nothing():
    packed, _ = packed_and_weights(n=200, k=256)
    x = random_x(64, 256)
    try:
        libqmm.set_num_threads(2)
        calls = [jax.jit(lambda x: quantized_matmul(x, packed, 200, "s8"))(x) for _ in range(8)]
    finally:
        libqmm.set_num_threads(1)
    for got in calls:
        assert_same_bits(np.asarray(got), libqmm.matmul(x, packed, "s8"))


def test_no_rows():
    packed, weights = packed_and_weights()
    assert quantized_matmul(np.empty((0, K), np.float32), packed, N).shape == (0, N)
    assert quantized_matmul_grouped(np.empty((2, 0, K), np.float32), **canonical(weights)).shape == (2, 0, N)
    assert quantized_embedding(np.empty((0,), np.int32), packed, K).shape == (0, K)


PACKED, WEIGHTS = packed_and_weights()
X = random_x(2, K)
AT_TRACE = {
    "the packed weights are [20, 72]; x [2, 72] and n = 21 need [21, 72]": lambda: quantized_matmul(X, PACKED, 21),
    "x is float64; it must be float32 or float16": lambda: quantized_matmul(X.astype(np.float64), PACKED, N),
    "x has rank 0; it must have at least rank 1": lambda: quantized_matmul(np.float32(1), PACKED, N),
    "packed is int32; it must be uint8": lambda: quantized_matmul(X, PACKED.astype(np.int32), N),
    "packed has rank 2": lambda: quantized_matmul(X, PACKED[None], N),
    "packed [1791]: qmm_rhs_open": lambda: quantized_matmul(X, PACKED[:-1], N),
    "lhs is 's9'; it must be one of": lambda: quantized_matmul(X, PACKED, N, "s9"),
    "n is -1": lambda: quantized_matmul(X, PACKED, -1),
    "ids is float32; it must be int64 or int32": lambda: quantized_embedding(X, PACKED, K),
    "k is 71; the packed weights are [20, 72]": lambda: quantized_embedding(np.array([1]), PACKED, 71),
    "bits is 5": lambda: quantized_matmul_grouped(X, **{**canonical(WEIGHTS), "bits": 5}),
    "scales [20, 3] must be [20, 5]": lambda: quantized_matmul_grouped(X, **{**canonical(WEIGHTS), "group": 16}),
    "give zeros or mins, not both": lambda: quantized_matmul_grouped(
        X, **{**canonical(WEIGHTS), "mins": WEIGHTS.scales}
    ),
    "cannot be differentiated": lambda: jax.grad(lambda x: quantized_matmul(x, PACKED, N).sum())(X),
}


@pytest.mark.parametrize("sentence", AT_TRACE)
def test_what_does_not_fit_raises_when_it_is_traced(sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        AT_TRACE[sentence]()


def test_arrays_are_asked_for():
    with pytest.raises(TypeError, match="x is a list; it must be an array"):
        quantized_matmul([1.0], PACKED, N)


AT_RUN = {
    "qmm_matmul_packed: x is [2, 72], the weights [20, 72] and y [2, 21]": lambda: jax.jit(
        lambda p: quantized_matmul(X, p, 21)
    )(PACKED),
    "qmm_dequantize_rows: ids[1] is 20; W has 20 rows": lambda: quantized_embedding(np.array([0, 20]), PACKED, K),
    "qmm_dequantize_rows: ids[0] is 4294967299; W has 20 rows": lambda: quantized_embedding(
        np.array([2**32 + 3]), PACKED, K
    ),
    "INVALID_ARGUMENT: qmm_rhs_open": lambda: jax.jit(lambda p: quantized_matmul(X, p, N))(PACKED[1:]),
}


@pytest.mark.parametrize("sentence", AT_RUN)
def test_what_is_known_later_raises_through_xla(sentence):
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(sentence)):
        AT_RUN[sentence]().block_until_ready()


# ---- StableHLO -------------------------------------------------------------------------------------------------------


def hand_written():
    """StableHLO with calls of every op, its arguments, and the results that the contract asks for."""
    packed, zeros = packed_and_weights(4, "zeros")
    mins = random_weights(rng(), N, K, 4, GROUP, "mins").mins
    forms = (
        (zeros, "s8"),
        (zeros, "s8_token"),
        (libqmm.Weights(zeros.codes, zeros.scales, mins=mins, bits=4, group=GROUP), "f32"),
        (libqmm.Weights(zeros.codes, zeros.scales, bits=4, group=GROUP), "f32"),
    )
    x, ids = random_x(2, 3, K), np.array([[0, 19], [7, 7]])
    x[0] *= np.float32(1e-38)  # denormals, which XLA flushes elsewhere
    want = [contract.matmul(x.reshape(6, K), *form).reshape(2, 3, N) for form in forms]
    arguments = x, packed, zeros.codes, zeros.scales, zeros.zeros, mins, ids
    return (ROOT / "tests" / "custom_calls.mlir").read_text(), arguments, [*want, contract.dequantize(zeros)[ids]]


def test_hand_written_calls_of_every_op():
    text, arguments, want = hand_written()
    for got, wanted in zip(run_hlo(text, *arguments), want, strict=True):
        assert_same_bits(got, wanted)


def run_passes(folder, functions):
    """Runs functions @main through our own passes, in one module: (text, arguments, ranks of the f32 results)."""
    text = "\n".join(text.replace("@main(", f"@f{i}(") for i, (text, *_) in enumerate(functions))
    compiled = compile_by_qmm_opt(folder, text)
    for i, (_, arguments, ranks) in enumerate(functions):
        tensors = [torch.from_numpy(a.view(np.int16) if a.dtype == jnp.bfloat16 else a) for a in arguments]
        yield [y.numpy() for y in getattr(compiled, f"f{i}")([(torch.float32, rank) for rank in ranks], *tensors)]


def test_our_own_passes_take_the_same_text(tmp_path):
    text, arguments, want = hand_written()
    (results,) = run_passes(tmp_path, [(text, arguments, [wanted.ndim for wanted in want])])
    for got, wanted in zip(results, want, strict=True):
        assert_same_bits(got, wanted)


def descriptor(**fields):
    """The bytes of a qmm_xla_descriptor, as MLIR writes them in a string."""
    names = ("lhs_kind", "bits", "offset", "scale_dtype", "m", "n", "k", "group", "packed_size")
    values = {"version": 1, "size": 64, **dict.fromkeys(names, 0), **fields}
    return "".join(f"\\{byte:02X}" for byte in struct.pack("<2I4i5q", *values.values()))


def untyped(target, opaque, operands, result):
    """A module with one untyped call."""
    types = [f"tensor<{operand}>" for operand in operands]
    arguments = ", ".join(f"%{i}: {type}" for i, type in enumerate(types))
    values = ", ".join(f"%{i}" for i in range(len(types)))
    return f"""
        func.func public @main({arguments}) -> tensor<{result}> {{
          %y = "stablehlo.custom_call"({values})
            {{call_target_name = "{target}", api_version = 3 : i32, backend_config = "{opaque}"}}
            : ({", ".join(types)}) -> tensor<{result}>
          func.return %y : tensor<{result}>
        }}"""


def test_untyped_calls_of_every_op(tmp_path):
    """By XLA, and by our own passes."""
    calls, wants = [], []

    def check(text, *arguments, want):
        assert_same_bits(run_hlo(text, *arguments)[0], want)
        calls.append((text, arguments, [2]))
        wants.append(want)

    x, ids = random_x(3, K), np.array([0, 19, 7])
    for bits, offset, scale_dtype in itertools.product((4, 8), OFFSETS, ("f32", "f16", "bf16")):
        packed, weights = packed_and_weights(bits, offset, scale_dtype)
        scales, row_bytes = canonical(weights)["scales"], K * bits // 8
        fields = {"lhs_kind": 1, "m": 3, "n": N, "k": K}
        want = contract.matmul(x, weights, "s8")
        text = untyped(
            "qmm_matmul_packed",
            descriptor(**fields, packed_size=packed.size),
            (f"3x{K}xf32", f"{packed.size}xui8"),
            f"3x{N}xf32",
        )
        check(text, x, packed, want=want)

        form = {
            "bits": bits,
            "offset": OFFSETS.index(offset),
            "scale_dtype": ("f32", "f16", "bf16").index(scale_dtype),
            "group": GROUP,
        }
        none = np.zeros((0, 0), np.int8)
        sides = [canonical(weights)[name] if offset == name else none for name in ("zeros", "mins")]
        shapes = [
            f"{N}x3x{scale_dtype}" if name == offset == "mins" else f"{N}x3xi8" if name == offset else "0x0xi8"
            for name in ("zeros", "mins")
        ]
        operands = (f"3x{K}xf32", f"{N}x{row_bytes}x{'ui8' if bits == 4 else 'i8'}", f"{N}x3x{scale_dtype}", *shapes)
        text = untyped("qmm_matmul_grouped", descriptor(**fields, **form), operands, f"3x{N}xf32")
        check(text, x, weights.codes, scales, *sides, want=want)

        text = untyped(
            "qmm_rows_packed",
            descriptor(m=3, k=K, packed_size=packed.size),
            ("3xi64", f"{packed.size}xui8"),
            f"3x{K}xf32",
        )
        check(text, ids, packed, want=contract.dequantize(weights)[ids])

    for (got,), want in zip(run_passes(tmp_path, calls), wants, strict=True):
        assert_same_bits(got, want)


SIZE = PACKED.size
BAD_UNTYPED = {
    "the descriptor has 5 bytes; it must have 64": "hello",
    "the descriptor has 0 bytes; it must have 64": "",
    "the descriptor has version 2; this library reads version 1": descriptor(version=2),
    "the descriptor says that it has 65 bytes; it has 64": descriptor(size=65),
    "bits is 4 in the descriptor; here it must be 0": descriptor(bits=4, m=2, n=N, k=K, packed_size=SIZE),
    "qmm_matmul_packed: x is [2, 72], the weights [20, 72] and y [2, 21]": descriptor(
        m=2, n=N + 1, k=K, packed_size=SIZE
    ),
    "qmm_matmul: lhs_kind is 3": descriptor(lhs_kind=3, m=2, n=N, k=K, packed_size=SIZE),
}


@pytest.mark.parametrize("sentence", BAD_UNTYPED)
def test_bad_descriptors_raise_through_the_status(sentence):
    text = untyped("qmm_matmul_packed", BAD_UNTYPED[sentence], (f"2x{K}xf32", f"{SIZE}xui8"), f"2x{N}xf32")
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(sentence)):
        run_hlo(text, X, PACKED)
    # XLA is as it was.
    good = untyped(
        "qmm_matmul_packed",
        descriptor(m=2, n=N, k=K, packed_size=SIZE),
        (f"2x{K}xf32", f"{SIZE}xui8"),
        f"2x{N}xf32",
    )
    assert_same_bits(run_hlo(good, X, PACKED)[0], libqmm.matmul(X, PACKED))


def test_untyped_calls_are_offered_only_where_their_status_is_known():
    good = untyped(
        "qmm_matmul_packed",
        descriptor(m=2, n=N, k=K, packed_size=SIZE),
        (f"2x{K}xf32", f"{SIZE}xui8"),
        f"2x{N}xf32",
    )
    program = f"""
import jax
from jax.extend import backend
from jaxlib import version, xla_client
version.__version__ = "0.10.3"
import libqmm.jax
client = backend.get_backend("cpu")
devices = xla_client.DeviceList((client.local_devices()[0],))
try:
    client.compile_and_load({good!r}, devices, xla_client.CompileOptions())
except jax.errors.JaxRuntimeError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert re.search("(?i)no registered implementation.* qmm_matmul_packed", run.stdout), run.stdout


BAD_TYPED = {
    "x is f16 [2, 72]; it must be f32": ("2x72xf16", "1792xui8", "2x20xf32", '{lhs = "s8"}'),
    "x is f32 []; it must have at least rank 1": ("f32", "1792xui8", "20xf32", '{lhs = "s8"}'),
    "packed is f32 [448]; it must be u8": ("2x72xf32", "448xf32", "2x20xf32", '{lhs = "s8"}'),
    "x is f32 [2, 72] and y f32 [40]; y must have the extents of x but the last": (
        "2x72xf32",
        "1792xui8",
        "40xf32",
        '{lhs = "s8"}',
    ),
    "lhs is 's9'": ("2x72xf32", "1792xui8", "2x20xf32", '{lhs = "s9"}'),
    "it has no attribute 'group'": ("2x72xf32", "1792xui8", "2x20xf32", "{group = 32 : i64}"),
}


@pytest.mark.parametrize("sentence", BAD_TYPED)
def test_bad_typed_calls_raise_through_xla(sentence):
    x, packed, y, config = BAD_TYPED[sentence]
    text = untyped("qmm_matmul_packed", "", (x, packed), y).replace(
        '3 : i32, backend_config = ""', f"4 : i32, backend_config = {config}"
    )
    dtypes = {"f16": np.float16, "f32": np.float32, "ui8": np.uint8}

    def zeros(type):
        *extents, dtype = type.split("x")
        return np.zeros(tuple(map(int, extents)), dtypes[dtype])

    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(f"INVALID_ARGUMENT: qmm_matmul_packed: {sentence}")):
        run_hlo(text, zeros(x), zeros(packed))


DTYPES = {**libqmm.jax._DTYPES, "f64": np.float64}


@pytest.mark.parametrize(("op", "bits"), [(OPS[0], 4), (OPS[1], 4), (OPS[1], 8), (OPS[2], 4)])
def test_typed_calls_take_the_dtypes_of_the_table(op, bits):
    shapes = {
        "x": (2, K),
        "packed": (SIZE,),
        "ids": (2,),
        "codes": (N, K * bits // 8),
        "scales": (N, 3),
        "zeros": (N, 3),
        "mins": (0, 0),
    }
    columns = N if "x" in op.memrefs else K
    config = {"lhs": '"f32"', "bits": f"{bits} : i64", "group": f"{GROUP} : i64"}
    config = ", ".join(f"{name} = {config[name]}" for name in op.scalars)

    def taken(name, dtypes):
        passed_as = op.tensors[name].passed_as
        return (passed_as,) if passed_as else op.allowed_dtypes(name, {"bits": bits}, dtypes)

    fitting = {}
    for name in op.tensors:
        fitting[name] = taken(name, fitting)[0]
    for changed, dtype in itertools.product(op.memrefs, DTYPES):
        dtypes = {**fitting, changed: dtype}
        allowed = taken(changed, dtypes)
        if changed == "scales":
            dtypes["mins"] = dtype
        operands = ["x".join(map(str, (*shapes[name], dtypes[name].replace("u", "ui")))) for name in op.memrefs]
        text = untyped(op.xla_target, "", operands, f"2x{columns}xf32").replace(
            '3 : i32, backend_config = ""', f"4 : i32, backend_config = {{{config}}}"
        )
        arrays = {name: np.zeros(shapes[name], DTYPES[dtypes[name]]) for name in op.memrefs}
        if "packed" in arrays:
            arrays["packed"] = PACKED.astype(arrays["packed"].dtype)
        if dtype in allowed:
            run_hlo(text, *arrays.values())
        else:
            with pytest.raises(jax.errors.JaxRuntimeError, match=f"{op.xla_target}: {changed} is .*; it must be "):
                run_hlo(text, *arrays.values())


@pytest.mark.parametrize("has_side_effect", ["true", "false"])
def test_a_call_that_nobody_reads_stays_if_it_has_side_effects(has_side_effect):
    text = f"""
        func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
          %y = stablehlo.custom_call @qmm_matmul_packed(%x) {{
            api_version = 4 : i32, has_side_effect = {has_side_effect}}} : (tensor<2xf32>) -> tensor<2xf32>
          return %x : tensor<2xf32>
        }}"""
    if has_side_effect == "true":
        with pytest.raises(jax.errors.JaxRuntimeError, match="qmm_matmul_packed: 1 operands and 1 results"):
            run_hlo(text, np.ones(2, np.float32))
    else:
        assert run_hlo(text, np.ones(2, np.float32))[0].tolist() == [1, 1]


@pytest.mark.parametrize("targets", list(itertools.permutations(("qmm_matmul_packed", "qmm_rows_packed"))))
def test_calls_with_side_effects_run_in_order(targets):
    calls = "\n".join(
        f"""%{target} = stablehlo.custom_call @{target}(%x) {{api_version = 4 : i32, has_side_effect = true}}
            : (tensor<2xf32>) -> tensor<2xf32>"""
        for target in targets
    )
    text = f"func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{calls}\nreturn %x : tensor<2xf32>\n}}"
    with pytest.raises(jax.errors.JaxRuntimeError) as raised:
        run_hlo(text, np.ones(2, np.float32))
    assert targets[0] in str(raised.value)
    assert targets[1] not in str(raised.value)


def test_the_binary_interface_is_that_of_jaxlib():
    includes = [f"-I{folder}" for folder in (ROOT, ROOT / "abi" / "include", jax.ffi.include_dir())]
    source = ROOT / "tests" / "python" / "xla_layout.cc"
    subprocess.run(["g++", "-std=c++20", "-fsyntax-only", *includes, str(source)], check=True)


# ---- PyTorch to XLA --------------------------------------------------------------------------------------------------


class Model(torch.nn.Module):
    """All of the ops, with ordinary ones around them whose bits every compiler agrees on."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.dtype = dtype
        self.register_buffer("table", torch.from_numpy(packed_and_weights(8, "symmetric", n=30)[0]))
        self.up = QuantizedLinear(torch.from_numpy(PACKED), torch.from_numpy(random_x(N)), "s8")
        weights = random_weights(rng(2), 9, N, 4, N, "zeros")
        self.codes, self.scales, self.zeros = (
            torch.nn.Buffer(torch.from_numpy(a)) for a in (weights.codes, weights.scales, weights.zeros)
        )

    def forward(self, ids, scale):
        x = torch.ops.quantized.embedding.packed(ids, self.table, K)
        x = torch.relu(self.up(x * scale)).to(self.dtype)
        y = torch.ops.quantized.matmul.grouped(x, self.codes, self.scales, self.zeros, 4, N)
        return y + torch.tensor([1.0] * 9, dtype=self.dtype), x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_pytorch_model_by_xla(dtype):
    model = Model(dtype)
    arguments = torch.tensor([[3, 29, 0]]), torch.tensor([2.0])
    want = model(*arguments)
    program = torch.export.export(model, arguments)
    text, _ = libqmm.mlir.stablehlo(program)
    assert "dense_resource" not in text
    assert [text.count(f"@{name}(") for name in ("qmm_rows_packed", "qmm_matmul_packed", "qmm_matmul_grouped")] == [
        1,
        1,
        1,
    ]
    call = libqmm.jax.compile(program)
    for got, eager in zip(call(*(argument.numpy() for argument in arguments)), want, strict=True):
        assert_same_bits(np.asarray(got).astype(np.float32), eager.float().numpy())
    with pytest.raises(ValueError, match=r"ids is int64 \[1, 2\]; it must be int64 \[1, 3\]"):
        call(np.array([[1, 2]]), np.ones(1, np.float32))
    with pytest.raises(ValueError, match="1 arguments; the program takes 2"):
        call(np.array([[1, 2, 3]]))


def aligned(values, offset):
    """A float32 array that starts `offset` bytes behind a multiple of 64."""
    memory = np.empty(len(values) * 4 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    array = memory[start : start + len(values) * 4].view(np.float32)
    array[:] = values
    return array


@pytest.mark.parametrize("offset", [0, 4])  # JAX shares what is aligned, and copies the rest
def test_what_changes_later_changes_no_result(offset):
    class Adds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.from_numpy(aligned([1.0] * 16, offset)))

        def forward(self, x):
            return x + self.b, x.reshape(4, 4)

    model, x = Adds(), aligned([2.0] * 16, offset)
    call = libqmm.jax.compile(torch.export.export(model, (torch.zeros(16),)))
    results = call(x)
    model.b.add_(1)
    x += 1
    assert [np.unique(result).tolist() for result in results] == [[3], [2]]
    assert np.unique(call(x)[0]).tolist() == [4]


def test_what_xla_can_not_run_is_refused():
    class Assigns(torch.nn.Module):
        def forward(self, x):
            x[0] = 1
            return x

    with pytest.raises(NotImplementedError, match="assigns to 'x'"):
        libqmm.mlir.stablehlo(torch.export.export(Assigns(), (torch.zeros(2),)))
    dynamic = {"x": {0: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(
        QuantizedLinear(torch.from_numpy(PACKED)), (torch.zeros(3, K),), dynamic_shapes=dynamic
    )
    with pytest.raises(
        NotImplementedError, match=r"x is \[s\d+, 72\]; XLA's programs have tensors whose extents are known"
    ):
        libqmm.mlir.stablehlo(program)


LINEAR = QuantizedLinear(torch.from_numpy(PACKED))
NO_RESULTS = {
    "quantized::matmul.packed: x is [?, 72]; XLA's programs have tensors whose extents are known": lambda x: LINEAR(
        x[x[:, 0] > 0]
    ).sum(),
    "result 1 is 3; XLA's programs have": lambda x: (LINEAR(x), 3),
    "result 1 is None; XLA's programs have": lambda x: (LINEAR(x), None),
    "result 0 is [u0, 72]; XLA's programs have": lambda x: x[x[:, 0] > 0],
}


@pytest.mark.parametrize("sentence", NO_RESULTS)
def test_what_is_known_at_run_time_only_is_refused(sentence):
    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = LINEAR

        def forward(self, x):
            return NO_RESULTS[sentence](x)

    with pytest.raises(NotImplementedError, match=re.escape(sentence)):
        libqmm.mlir.stablehlo(torch.export.export(Program(), (torch.zeros(3, K),)))


def test_packed_weights_that_a_program_holds_are_checked():
    class Wrong(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("packed", torch.from_numpy(PACKED))

        def forward(self, x):
            return torch.ops.quantized.matmul.packed(x, self.packed, N + 1)

    program = torch.export.export(Wrong(), (torch.zeros(3, K),))
    with pytest.raises(
        ValueError, match=re.escape("the packed weights are [20, 72]; x [3, 72] and n = 21 need [21, 72]")
    ):
        libqmm.mlir.stablehlo(program)
