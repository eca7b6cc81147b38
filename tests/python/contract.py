# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The numerics contract of qmm.h in numpy, written from its text alone; results equal it to the bit."""

import numpy as np

SEGMENT = 16384


def fma(a, b, c):
    """a * b + c of float32 arrays, rounded once.

    The product is exact in float64. The sum is rounded to odd: where TwoSum finds an error, an even significand moves
    one step towards it. Rounding that to float32 is then as if it were the only rounding.
    """
    a, b, c = (np.asarray(v, np.float32).astype(np.float64) for v in (a, b, c))
    with np.errstate(invalid="ignore", over="ignore"):
        product = a * b
        total = product + c
        back = total - product
        error = (product - (total - back)) + (c - back)
        even = total.view(np.int64) % 2 == 0
        step = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        return np.where(np.isfinite(total) & (error != 0) & even, step, total).astype(np.float32)


def scale_values(scales):
    """Scales or mins as float32; uint16 holds the bits of bf16."""
    return (scales.astype(np.uint32) << 16).view(np.float32) if scales.dtype == np.uint16 else scales.astype(np.float32)


def codes_of(weights):
    """The codes of canonical weights as int32 [n, k]."""
    if weights.bits == 8:
        return weights.codes.astype(np.int32)
    pairs = np.stack((weights.codes & 15, weights.codes >> 4), axis=-1)
    return pairs.reshape(len(weights.codes), -1)[:, : weights.k].astype(np.int32)


def zeros_of(weights):
    """The zero of each group as int32 [n, groups]; 0 where there are mins."""
    if weights.zeros is not None:
        return weights.zeros.astype(np.int32)
    symmetric = 8 if weights.bits == 4 and weights.mins is None else 0
    return np.full(weights.scales.shape, symmetric, np.int32)


def dequantize(weights):
    """W as float32 [n, k]."""
    group = np.arange(weights.k) // max(weights.group, 1)
    codes = (codes_of(weights) - zeros_of(weights)[:, group]).astype(np.float32)
    scales = scale_values(weights.scales)[:, group]
    return codes * scales if weights.mins is None else fma(codes, scales, scale_values(weights.mins)[:, group])


def quantize_lhs(x):
    """Rows of one lhs group [m, k] as integers, with the scale of each row [m, 1]."""
    amax = np.abs(x).max(axis=1, keepdims=True, initial=0)  # NaN wins
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = np.float32(127) / amax
        scale = amax / np.float32(127)
        a = np.rint(x * inverse)
    finite = np.isfinite(amax)
    usable = finite & np.isfinite(inverse)
    scale = np.where(usable, scale, np.where(finite, np.float32(0), np.float32(np.nan)))
    return np.where(usable, a, 0).astype(np.int64), scale


def matmul(x, weights, lhs, bias=None):
    """x [m, k] f32 times W^T, to the bit."""
    codes, zeros = codes_of(weights), zeros_of(weights)
    scales = scale_values(weights.scales)
    mins = None if weights.mins is None else scale_values(weights.mins)
    n, k = codes.shape
    acc = np.zeros((len(x), n), np.float32)
    row, row_scale = quantize_lhs(x) if lhs == "s8_token" else (None, None)

    for g in range(scales.shape[1]):
        end = min((g + 1) * weights.group, k)
        if lhs == "f32":
            t, total = np.zeros_like(acc), np.zeros((len(x), 1), np.float32)
            for i in range(g * weights.group, end):
                t = fma(x[:, i : i + 1], (codes[:, i] - zeros[:, g]).astype(np.float32), t)
                total = total + x[:, i : i + 1]
            acc = fma(t, scales[:, g], acc)
            acc = acc if mins is None else fma(total, mins[:, g], acc)
            continue
        a, scale = (row, np.float32(1)) if lhs == "s8_token" else (None, None)
        if a is None:
            a, scale = quantize_lhs(x[:, g * weights.group : end])
        else:
            a = a[:, g * weights.group : end]
        for start in range(0, end - g * weights.group, SEGMENT):
            part = a[:, start : start + SEGMENT]
            at = g * weights.group + start
            c = codes[:, at : at + part.shape[1]].astype(np.int64) - zeros[:, g : g + 1]
            acc = fma((part @ c.T).astype(np.float32) * scale, scales[:, g], acc)
            if mins is not None:
                total = part.sum(axis=1, keepdims=True).astype(np.float32) * scale
                acc = fma(total, mins[:, g], acc)

    acc = acc * row_scale if lhs == "s8_token" else acc
    return acc if bias is None else acc + bias


def random_weights(rng, n, k, bits, group, offset, scale_dtype="f16"):
    """Canonical weights with codes, zeros and scales from all of their range; built without the library's help."""
    from libqmm import Weights

    groups = -(-k // group) if group else 0
    if bits == 4:
        codes = rng.integers(0, 256, (n, (k + 1) // 2)).astype(np.uint8)
        if k % 2:
            codes[:, -1] &= 15
    else:
        codes = rng.integers(-128, 128, (n, k)).astype(np.int8)

    def floats(low, high):
        values = rng.uniform(low, high, (n, groups)).astype(np.float32)
        if scale_dtype == "bf16":
            return (values.view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(np.float16) if scale_dtype == "f16" else values

    low, high = (0, 17) if bits == 4 else (-128, 128)
    zeros = rng.integers(low, high, (n, groups)).astype(np.int8) if offset == "zeros" else None
    mins = floats(-0.5, 0.5) if offset == "mins" else None
    return Weights(codes, floats(0.01, 0.1), zeros, mins, bits=bits, group=group, k=k)


def assert_same_bits(got, want):
    """Equal bit for bit, a NaN being any NaN."""
    assert got.dtype == want.dtype == np.float32
    assert got.shape == want.shape
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    where = np.argwhere(~same)
    assert same.all(), f"{len(where)} of {same.size} differ, first at {where[0]}: {got[~same][0]!r} {want[~same][0]!r}"
