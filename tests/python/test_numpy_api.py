# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The numpy API against the contract in numpy (contract.py), bit for bit; what does not fit is refused."""

import json
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import contract
import libqmm
from contract import assert_same_bits, random_weights

LHS_KINDS = ("f32", "s8", "s8_token")
FORMATS = [(bits, offset) for bits in (4, 8) for offset in ("symmetric", "zeros", "mins")]


def rng(seed=0):
    return np.random.default_rng(seed)


def random_x(*shape, seed=1):
    return rng(seed).standard_normal(shape).astype(np.float32)


def test_the_oracle_rounds_once():
    one, ulp = np.float32(1), np.float32(2**-23)
    half = np.float32(2**-12)  # its square is half an ulp of 1
    tiny = np.float32(2**-60)
    assert contract.fma(half, half, one) == one  # a tie goes to even
    assert contract.fma(half, half, one + ulp) == one + 2 * ulp
    values = rng().standard_normal((3, 1000)).astype(np.float32) * np.float32(2.0) ** rng().integers(-40, 40, (3, 1000))
    values = np.concatenate((values, [[half + half * ulp], [half], [one]], [[tiny], [tiny], [one]]), axis=1)
    values = values.astype(np.float32)
    for a, b, c, got in zip(*values, contract.fma(*values), strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        error = abs(Fraction(float(got)) - exact)
        for neighbour in (np.nextafter(got, np.float32(np.inf)), np.nextafter(got, np.float32(-np.inf))):
            assert error <= abs(Fraction(float(neighbour)) - exact)


@pytest.mark.parametrize("scale_dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("bits", "offset"), FORMATS)
@pytest.mark.parametrize(("n", "k", "group"), [(1, 8, 8), (19, 23, 23), (33, 72, 32), (16, 64, 64), (5, 41, 16)])
def test_packing_loses_nothing(n, k, group, bits, offset, scale_dtype):
    weights = random_weights(rng(), n, k, bits, group, offset, scale_dtype)
    packed = libqmm.pack(weights)
    assert packed.dtype == np.uint8
    assert packed.ctypes.data % 64 == 0
    assert packed.size == libqmm.packed_size(weights.desc)
    libqmm.verify(packed)
    assert libqmm.inspect(packed) == weights.desc == libqmm.RhsDesc(n, k, bits, group, offset, scale_dtype)

    back = libqmm.unpack(packed)
    for name in ("codes", "scales", "zeros", "mins"):
        want, got = getattr(weights, name), getattr(back, name)
        assert (got is None) == (want is None)
        if want is not None:
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(libqmm.pack(back), packed)
    assert_same_bits(libqmm.dequantize_rows(packed, np.arange(n)), contract.dequantize(weights))


@pytest.mark.parametrize("scale_dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("bits", "offset"), FORMATS)
@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_matmul_every_format(lhs, bits, offset, scale_dtype):
    weights = random_weights(rng(), 35, 72, bits, 32, offset, scale_dtype)
    bias = random_x(35, seed=2)
    for m in (1, 2, 7):
        x = random_x(m, 72)
        want = contract.matmul(x, weights, lhs, bias)
        assert_same_bits(libqmm.matmul(x, libqmm.pack(weights), lhs, bias), want)
        assert_same_bits(libqmm.matmul(x, weights, lhs, bias), want)  # packed on the fly


@pytest.mark.parametrize(("bits", "offset"), FORMATS)
@pytest.mark.parametrize("lhs", LHS_KINDS)
@pytest.mark.parametrize(
    ("m", "n", "k", "group"), [(1, 19, 23, 23), (3, 9, 1, 1), (5, 17, 97, 24), (33, 64, 136, 8), (4, 16, 1100, 1100)]
)
def test_matmul_every_shape(m, n, k, group, lhs, bits, offset):
    weights = random_weights(rng(), n, k, bits, group, offset)
    x = random_x(m, k)
    assert_same_bits(libqmm.matmul(x, libqmm.pack(weights), lhs), contract.matmul(x, weights, lhs))


@pytest.mark.parametrize("offset", ["symmetric", "mins"])
@pytest.mark.parametrize("lhs", ["s8", "s8_token"])
def test_a_group_longer_than_a_segment(lhs, offset):
    k = contract.SEGMENT + 1000
    weights = random_weights(rng(), 3, k, 8, k, offset, "f32")
    weights.codes[0] = -128
    x = np.vstack((random_x(2, k), np.ones((1, k), np.float32)))
    assert_same_bits(libqmm.matmul(x, libqmm.pack(weights), lhs), contract.matmul(x, weights, lhs))


@pytest.mark.parametrize("lhs", LHS_KINDS)
@pytest.mark.parametrize("offset", ["symmetric", "zeros", "mins"])
def test_extreme_rows(offset, lhs):
    x = random_x(8, 64)
    x[0] = 0
    x[1] = [0, 1e-40] * 32  # ao#1766: 127 / amax overflows
    x[2, 5] = np.nan
    x[3, 40] = np.inf
    x[4] = 1e-30
    x[5] = 3e38
    x[6, 33] = -np.inf
    weights = random_weights(rng(), 20, 64, 4, 32, offset)
    with np.errstate(invalid="ignore", over="ignore"):
        want = contract.matmul(x, weights, lhs)
    got = libqmm.matmul(x, libqmm.pack(weights), lhs)
    assert_same_bits(got, want)
    assert np.isfinite(got[:2]).all()
    assert np.isnan(got[2]).all()


@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_missing_zeros_mean_symmetric(lhs):  # hipDNN-ep#134
    x, scales = random_x(2, 64), np.ones((3, 2), np.float16)
    fours = libqmm.Weights(np.full((3, 32), 0x88, np.uint8), scales, bits=4, group=32)
    eights = libqmm.Weights(np.zeros((3, 64), np.int8), scales, bits=8, group=32)
    for weights in (fours, eights):
        np.testing.assert_array_equal(libqmm.matmul(x, libqmm.pack(weights), lhs), np.zeros((2, 3)))


@pytest.mark.parametrize("lhs", LHS_KINDS)
@pytest.mark.parametrize(("bits", "zero"), [(4, 0), (4, 16), (8, -128), (8, 127)])
def test_the_ends_of_the_zeros(bits, zero, lhs):  # iree#24583: unsigned 128 is -128 here, and is subtracted as such
    weights = random_weights(rng(), 18, 40, bits, 8, "zeros")
    weights.zeros[:] = zero
    x = random_x(3, 40)
    assert_same_bits(libqmm.matmul(x, libqmm.pack(weights), lhs), contract.matmul(x, weights, lhs))
    assert_same_bits(libqmm.dequantize_rows(libqmm.pack(weights), np.arange(18)), contract.dequantize(weights))


@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_every_layout_of_x_gives_the_same(lhs):  # ggml#386, llama.cpp#17030
    packed = libqmm.pack(random_weights(rng(), 20, 24, 4, 8, "zeros"))
    x = random_x(2, 3, 24)
    want = libqmm.matmul(x.reshape(6, 24), packed, lhs).reshape(2, 3, 20)
    assert not np.array_equal(want[0], want[1])

    wide = np.full((2, 3, 30), np.nan, np.float32)
    wide[..., 3:27] = x
    columns = np.full((2, 3, 48), np.nan, np.float32)
    columns[..., ::2] = x
    fortran = np.asfortranarray(x)
    spread = np.full((2, 5, 24), np.nan, np.float32)
    spread[:, :3] = x
    backwards = x[::-1, ::-1, ::-1].copy()
    unaligned = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    layouts = (
        x,
        x[::-1, ::-1].copy()[::-1, ::-1],
        wide[..., 3:27],
        columns[..., ::2],
        fortran,
        spread[:, :3],
        backwards[::-1, ::-1, ::-1],
        unaligned,
    )
    for layout in layouts:
        np.testing.assert_array_equal(layout, x)
        assert_same_bits(libqmm.matmul(layout, packed, lhs), want)

    assert_same_bits(libqmm.matmul(x[0, 0], packed, lhs), want[0, 0])
    repeated = np.broadcast_to(x[0, 0], (4, 24))
    assert_same_bits(libqmm.matmul(repeated, packed, lhs), np.tile(want[0, 0], (4, 1)))
    flat = np.broadcast_to(np.float32(0.5), (2, 24))
    assert_same_bits(libqmm.matmul(flat, packed, lhs), libqmm.matmul(flat.copy(), packed, lhs))


def test_x_is_read_in_place_where_it_can(monkeypatch):
    packed = libqmm.pack(random_weights(rng(), 20, 24, 4, 8, "zeros"))
    x = random_x(4, 3, 48)
    seen = []
    monkeypatch.setattr(libqmm._c, "qmm_matmul", seen.append)
    for layout in (x[..., ::2], x[:, :, 5:29], x[2:, 1, :24]):
        libqmm.matmul(layout, packed)
        assert seen.pop().x == layout.ctypes.data
    unaligned = np.frombuffer(b"." * (4 * 24 + 1), np.uint8)[1:].view(np.float32)
    assert not unaligned.flags.aligned
    libqmm.matmul(unaligned, packed)
    assert seen.pop().x % 4 == 0


@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_empty_extents(lhs):  # pytorch#40587
    weights = random_weights(rng(), 5, 16, 4, 16, "symmetric")
    for shape in ((0, 16), (2, 0, 16), (0, 0, 16)):
        assert libqmm.matmul(np.empty(shape, np.float32), libqmm.pack(weights), lhs).shape == (*shape[:-1], 5)
    bias = random_x(5)
    no_k = libqmm.Weights(np.empty((5, 0), np.uint8), np.empty((5, 0), np.float16), bits=4, group=0)
    no_n = libqmm.Weights(np.empty((0, 8), np.uint8), np.empty((0, 1), np.float16), bits=4, group=16)
    for rhs in (no_k, libqmm.pack(no_k)):
        np.testing.assert_array_equal(
            libqmm.matmul(np.empty((3, 0), np.float32), rhs, lhs, bias), np.tile(bias, (3, 1))
        )
    for rhs in (no_n, libqmm.pack(no_n)):
        assert libqmm.matmul(random_x(3, 16), rhs, lhs).shape == (3, 0)
    assert libqmm.unpack(libqmm.pack(no_n)).codes.shape == (0, 8)


def test_weights_with_strides_are_read_in_place_or_copied():
    weights = random_weights(rng(), 6, 32, 4, 16, "zeros")
    want = libqmm.pack(weights)

    def padded(array):
        wide = np.full((array.shape[0], array.shape[1] + 3), 77, array.dtype)
        wide[:, : array.shape[1]] = array
        return wide[:, : array.shape[1]]

    for change in (padded, np.asfortranarray, lambda a: a[::-1].copy()[::-1], lambda a: np.repeat(a, 2, 1)[:, ::2]):
        arrays = map(change, (weights.codes, weights.scales, weights.zeros))
        np.testing.assert_array_equal(libqmm.pack(libqmm.Weights(*arrays, bits=4, group=16)), want)


@pytest.mark.parametrize(("bits", "offset"), FORMATS)
def test_quantize_recovers_what_is_representable(bits, offset):
    weights = random_weights(rng(), 6, 64, bits, 32, offset, "f32")
    weights.scales[:] = np.float32(2.0) ** rng().integers(-6, 0, weights.scales.shape)
    low, high = {4: (0, 15), 8: (-128, 127)}[bits]
    if offset == "symmetric":
        low = {4: 1, 8: -127}[bits]  # as far from the zero as `high` is
    codes = np.clip(contract.codes_of(weights), low, high)
    codes[:, 0::32], codes[:, 1::32] = low, high  # both ends of the range stand in every group
    stored = codes.astype(np.int8) if bits == 8 else (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
    zeros, mins = weights.zeros, weights.mins
    if zeros is not None:
        zeros = np.clip(zeros, low, high)
    if mins is not None:
        mins = np.rint(mins * 64) / np.float32(64)
    weights = libqmm.Weights(stored, weights.scales, zeros, mins, bits=bits, group=32)

    got = libqmm.quantize(contract.dequantize(weights), bits, 32, offset, "f32")
    np.testing.assert_array_equal(contract.codes_of(got), codes)
    np.testing.assert_array_equal(got.scales, weights.scales)
    for got_offsets, want_offsets in ((got.zeros, zeros), (got.mins, mins)):
        if want_offsets is not None:
            np.testing.assert_array_equal(got_offsets, want_offsets)


@pytest.mark.parametrize("scale_dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("bits", "offset"), FORMATS)
def test_quantize_is_within_half_a_step(bits, offset, scale_dtype):
    w = random_x(7, 45, seed=3)
    w[3] = 0
    w[4] = np.abs(w[4])
    weights = libqmm.quantize(w, bits, 16, offset, scale_dtype)
    scales = np.repeat(contract.scale_values(weights.scales), 16, axis=1)[:, :45].astype(np.float64)
    # A code is half a step off at most; and rounding the scale, and the min, to their dtype moves the ends of the range
    # by up to that relative error of 2^bits steps each.
    rounding = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-23}[scale_dtype] * 2**bits * (1 + (offset == "mins"))
    error = np.abs(contract.dequantize(weights).astype(np.float64) - w)
    assert (error <= scales * (0.5 + rounding + 1e-4)).all()
    np.testing.assert_array_equal(contract.dequantize(weights)[3], 0)
    strided = np.full((7, 60), np.nan, np.float32)
    strided[:, :45] = w
    np.testing.assert_array_equal(libqmm.quantize(strided[:, :45], bits, 16, offset, scale_dtype).codes, weights.codes)


def test_threads_do_not_change_a_bit():  # and M = 0 with threads, pytorch#40587
    packed = libqmm.pack(random_weights(rng(), 300, 264, 4, 64, "mins"))
    try:
        results = []
        for threads in (1, 2, 7):
            libqmm.set_num_threads(threads)
            assert libqmm.num_threads() == min(threads, libqmm.max_threads())
            assert libqmm.matmul(np.empty((0, 264), np.float32), packed).shape == (0, 300)
            results.append([libqmm.matmul(random_x(m, 264), packed, lhs) for m in (1, 40) for lhs in LHS_KINDS])
        for result in results[1:]:
            for got, want in zip(result, results[0], strict=True):
                assert_same_bits(got, want)
    finally:
        libqmm.set_num_threads(1)


def test_calls_from_many_threads():
    packed = libqmm.pack(random_weights(rng(), 40, 64, 4, 32, "zeros"))
    xs = [random_x(3, 64, seed=i) for i in range(64)]
    want = [libqmm.matmul(x, packed, "s8") for x in xs]

    def call(i):
        with pytest.raises(ValueError, match=rf"\b{1000 + i}\b"):  # the sentence is of this thread
            libqmm.dequantize_rows(packed, np.array([1000 + i]))
        return libqmm.matmul(xs[i], packed, "s8")

    with ThreadPoolExecutor(4) as pool:
        for got, expected in zip(pool.map(call, range(len(xs))), want, strict=True):
            assert_same_bits(got, expected)


def test_bytes_are_used_in_place(tmp_path):
    weights = random_weights(rng(), 10, 32, 4, 32, "symmetric")
    packed, x = libqmm.pack(weights), random_x(2, 32)
    want = libqmm.matmul(x, packed)
    path = tmp_path / "packed"
    path.write_bytes(packed.tobytes())
    mapped = np.memmap(path, np.uint8, "r")
    for same in (packed.tobytes(), memoryview(packed), mapped, np.concatenate(([0], packed)).astype(np.uint8)[1:]):
        assert_same_bits(libqmm.matmul(x, same), want)
        libqmm.verify(same)
    out = np.full((2, 10), np.nan, np.float32)
    assert libqmm.matmul(x, packed, out=out) is out
    assert_same_bits(out, want)


def test_dequantize_rows_takes_ids_of_any_shape():
    weights = random_weights(rng(), 10, 32, 8, 32, "symmetric")
    packed, w = libqmm.pack(weights), contract.dequantize(weights)
    ids = np.array([[3, 3], [9, 0]])
    assert_same_bits(libqmm.dequantize_rows(packed, ids), w[ids])
    assert libqmm.dequantize_rows(packed, np.empty(0, np.int64)).shape == (0, 32)
    for wrong in (10, -1, 2**62):
        with pytest.raises(ValueError, match=str(wrong)):
            libqmm.dequantize_rows(packed, np.array([0, wrong]))
    with pytest.raises(ValueError, match="int32"):
        libqmm.dequantize_rows(packed, np.array([0], np.int32))


def test_what_runs():
    desc = libqmm.RhsDesc(64, 64, 4, 32)
    assert libqmm.version() == "0.1.0"
    x86 = {"avx2", "avxvnni", "avxvnniint8", "avx512", "avx512vnni", "amx"}
    arm = {"neon", "neon_dotprod", "neon_i8mm", "sve", "sve_i8mm"}
    assert set(libqmm.cpu_features()) <= (arm if "neon" in libqmm.cpu_features() else x86)
    for lhs, word in (("f32", "_f32_"), ("s8", "_s8_"), ("s8_token", "_s8_")):
        name = libqmm.kernel_name(desc, 1, lhs)
        assert name.startswith(f"qmm_f32{word}")
        assert "u4" in name
    with pytest.raises(ValueError, match="m is"):
        libqmm.kernel_name(desc, -1)
    for threads in (0, -3, 2**64 + 1):
        with pytest.raises(ValueError, match=str(threads)):
            libqmm.set_num_threads(threads)
    assert libqmm.num_threads() == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n": -1}, "-1"),
        ({"k": -1}, "-1"),
        ({"k": 2**63}, str(2**63)),
        ({"n": 2**62}, str(2**62)),  # the size overflows
        ({"n": 2**64 + 1}, str(2**64 + 1)),  # and would wrap to 1
        ({"group": 0}, "0"),
        ({"group": 12}, "12"),
        ({"group": 128}, "128"),
        ({"group": -8}, "-8"),
        ({"bits": 3}, "3"),
        ({"bits": 2**32 + 4}, str(2**32 + 4)),
        ({"offset": "zero"}, "'zero'"),
        ({"scale_dtype": "f64"}, "'f64'"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        libqmm.RhsDesc(**{"n": 16, "k": 64, "bits": 4, "group": 32, **change})


def good():
    return {"codes": np.zeros((4, 16), np.uint8), "scales": np.ones((4, 2), np.float16), "bits": 4, "group": 16}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"codes": np.zeros(16, np.uint8)}, "rank 1"),
        ({"codes": np.zeros((4, 16), np.int8)}, "int8; it must be uint8"),
        ({"codes": np.zeros((4, 16), np.int16), "bits": 8, "group": 8}, "int16; it must be int8 or uint8"),
        (
            {"codes": np.zeros((4, 32), np.int8), "bits": 8, "zeros": np.zeros((4, 2), np.uint8)},
            "uint8; it must be int8",
        ),
        ({"k": 33}, r"\[4, 16\]; it must be \[4, 17\]"),
        ({"scales": np.ones((4, 3), np.float16)}, r"\[4, 3\]; it must be \[4, 2\]"),
        ({"scales": np.ones((4, 0), np.float16)}, r"\[4, 0\]"),  # pytorch#128692
        ({"scales": np.ones((2, 2), np.float16)}, r"\[2, 2\]"),
        ({"scales": np.ones((4, 2), np.float64)}, "float64"),
        ({"zeros": np.zeros((4, 1), np.int8)}, r"\[4, 1\]"),
        ({"zeros": np.zeros((4, 2), np.float32)}, "float32"),
        ({"mins": np.zeros((4, 2), np.float32)}, "float32; it must be float16"),
        ({"mins": np.zeros((4, 2), np.float16), "zeros": np.zeros((4, 2), np.int8)}, "not both"),
        ({"bits": 5}, "5"),
        ({"group": 24, "k": 32}, r"\[4, 2\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, sentence):
    if "k" in change and "group" in change:
        change = {**change, "scales": np.ones((4, 1), np.float16)}
    libqmm.Weights(**good())
    with pytest.raises(ValueError, match=sentence):
        libqmm.Weights(**{**good(), **change})


def test_eight_bit_codes_are_bytes():
    weights = random_weights(rng(), 5, 32, 8, 16, "zeros")
    unsigned = libqmm.Weights(weights.codes.view(np.uint8), weights.scales, weights.zeros, bits=8, group=16)
    np.testing.assert_array_equal(unsigned.codes, weights.codes)
    np.testing.assert_array_equal(libqmm.pack(unsigned), libqmm.pack(weights))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: libqmm.quantize([[1.0] * 8]), "w is a list; it must be a numpy array"),
        (lambda: libqmm.quantize(random_x(2, 32), group=32.0), "group is 32.0; it must be an integer"),
        (lambda: libqmm.quantize(random_x(2, 32), bits=4.0), "bits is 4.0; it must be an integer"),
        (lambda: libqmm.RhsDesc("16", 64, 4, 32), "n is '16'; it must be an integer"),
        (lambda: libqmm.RhsDesc(16, None, 4, 32), "k is None; it must be an integer"),
        (lambda: libqmm.Weights(**{**good(), "codes": [[1]]}), "codes is a list"),
        (lambda: libqmm.Weights(**{**good(), "scales": 1.0}), "scales is a float"),
        (lambda: libqmm.Weights(**{**good(), "zeros": [0]}), "zeros is a list"),
        (lambda: libqmm.Weights(**{**good(), "group": 16.0}), "group is 16.0"),
        (lambda: libqmm.matmul([1.0] * 32, libqmm.pack(libqmm.Weights(**good()))), "x is a list"),
        (lambda: libqmm.dequantize_rows(libqmm.pack(libqmm.Weights(**good())), [0]), "ids is a list"),
        (lambda: libqmm.set_num_threads(1.5), "num_threads is 1.5; it must be an integer"),
        (lambda: libqmm.set_num_threads("2"), "num_threads is '2'; it must be an integer"),
        (lambda: libqmm.kernel_name(libqmm.RhsDesc(16, 64, 4, 32), 1.0), "m is 1.0; it must be an integer"),
    ],
)
def test_values_of_other_types_are_refused(call, sentence):
    with pytest.raises(TypeError, match=sentence):
        call()


def test_numpy_integers_are_integers():
    desc = libqmm.RhsDesc(*np.array([16, 64, 4, 32]))
    assert desc == libqmm.RhsDesc(16, 64, 4, 32)
    assert libqmm.packed_size(desc) == libqmm.packed_size(libqmm.RhsDesc(16, 64, 4, 32))


def test_zeros_outside_their_range_are_refused():
    for zero in (np.int8(17), np.int8(-1), np.uint8(200)):
        weights = libqmm.Weights(**good(), zeros=np.full((4, 2), zero))
        with pytest.raises(ValueError, match=rf"the zero at \[0, 0\] is .*{zero}\b"):
            libqmm.pack(weights)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_quantize_refuses_what_is_not_finite(value):
    w = random_x(2, 32)
    w[1, 5] = value
    with pytest.raises(ValueError, match=r"finite"):
        libqmm.quantize(w)
    with pytest.raises(ValueError, match="float64"):
        libqmm.quantize(w.astype(np.float64))
    with pytest.raises(ValueError, match="rank 1"):
        libqmm.quantize(w[0])


def test_packed_weights_that_are_damaged_are_refused():
    packed = libqmm.pack(random_weights(rng(), 10, 64, 4, 32, "zeros"))
    x, out = random_x(2, 64), np.full((2, 10), 7, np.float32)

    def refuse(damaged):
        for call in (libqmm.inspect, libqmm.unpack, libqmm.verify, lambda p: libqmm.matmul(x, p, out=out)):
            with pytest.raises(ValueError, match=r"\w+ .*\w+"):
                call(damaged)

    for size in (0, 1, 7, 63, 64, packed.size // 2, packed.size - 1):
        refuse(packed[:size].copy())
    for byte in range(16):  # magic, version, byte order
        damaged = packed.copy()
        damaged[byte] ^= 0x10
        refuse(damaged)
    assert (out == 7).all()

    # A header that lies about the shape is refused, or describes weights that fit into the bytes.
    for byte in range(16, 256):
        for bit in (0, 7):
            damaged = packed.copy()
            damaged[byte] ^= 1 << bit
            try:
                desc = libqmm.inspect(damaged)
            except ValueError:
                continue
            assert libqmm.packed_size(desc) <= packed.size
            libqmm.unpack(damaged)

    damaged = packed.copy()
    damaged[-1] ^= 1
    libqmm.inspect(damaged)
    with pytest.raises(ValueError, match="checksum"):
        libqmm.verify(damaged)
    with pytest.raises(ValueError, match="uint8"):
        libqmm.inspect(packed.view(np.int8))
    with pytest.raises(ValueError, match="contiguous"):
        libqmm.inspect(packed[::2])


def test_matmul_refuses_what_does_not_fit_and_leaves_out_alone():
    packed = libqmm.pack(random_weights(rng(), 10, 64, 4, 32, "symmetric"))
    x, out = random_x(2, 64), np.full((2, 10), 7, np.float32)
    block = np.zeros(128, np.float32)
    for arguments, sentence in (
        ({"x": random_x(2, 63)}, r"\[2, 63\].* k = 64"),
        ({"x": np.array(1, np.float32)}, r"\[\]"),
        ({"x": x.astype(np.float64)}, "float64"),
        ({"x": x.astype(">f4")}, ">f4"),
        ({"lhs": "s4"}, "'s4'"),
        ({"bias": np.zeros(9, np.float32)}, r"\[9\]; it must be \[10\]"),
        ({"bias": np.zeros(10)}, "float64"),
        ({"out": out[:1]}, r"\[1, 10\]; it must be \[2, 10\]"),
        ({"out": np.zeros((10, 2), np.float32).T}, "contiguous"),
        ({"out": np.zeros((2, 10))}, "float64"),
        ({"x": block[:64].reshape(1, 64), "out": block[60:70].reshape(1, 10)}, "overlap"),
    ):
        with pytest.raises(ValueError, match=sentence):
            libqmm.matmul(**{"x": x, "rhs": packed, "out": out, **arguments})
    assert (out == 7).all()
    assert (block == 0).all()


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_library_that_is_not_there_is_an_import_error(tmp_path):
    absent, text = str(tmp_path / "absent.so"), tmp_path / "text.so"
    text.write_text("not a library")
    for path in (absent, str(text)):
        code, output = python("import libqmm", QMM_LIBRARY=path)
        assert code == 1
        assert "ImportError: libqmm: cannot load the shared library" in output
        assert path in output


def test_max_isa_caps_the_kernels():
    code, output = python("import libqmm as q; print(q.kernel_name(q.RhsDesc(16, 16, 4, 16)))", QMM_MAX_ISA="scalar")
    assert code == 0
    assert output.strip().endswith("_scalar")
    code, output = python("import libqmm as q; q.kernel_name(q.RhsDesc(16, 16, 4, 16))", QMM_MAX_ISA="mmx")
    assert code == 1
    assert "ValueError" in output
    assert "mmx" in output


def test_qmm_info_is_installed_and_agrees():
    program = Path(sysconfig.get_path("scripts")) / "qmm_info"
    info = json.loads(subprocess.run([program, "--json"], check=True, capture_output=True, text=True).stdout)
    assert info["version"] == libqmm.version()
    assert set(info["cpu"]["usable"]) == set(libqmm.cpu_features())
    for chosen in info["chosen"]:
        desc = libqmm.RhsDesc(16, 64, chosen["bits"], 32)
        for m in (chosen["min_m"], chosen["max_m"] or 1000):
            assert libqmm.kernel_name(desc, m, chosen["lhs"]) == chosen["kernel"]
