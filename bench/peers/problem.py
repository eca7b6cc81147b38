# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The matrices that every contender multiplies, and the quantization for those who bring none of their own."""

import numpy as np

# How far a result may be from fp32's, as |y - expected| / |expected| (Euclidean), by the bits of the weights: what the
# quantization of normally distributed numbers loses, and half as much again.
TOLERANCE = {4: 0.2, 8: 0.04, 32: 1e-4}


def weights(n, k):
    """W f32 [n, k], always the same."""
    return np.random.default_rng(n * k).standard_normal((n, k), dtype=np.float32)


def activations(m, k):
    """X f32 [m, k], always the same."""
    return np.random.default_rng(m).standard_normal((m, k), dtype=np.float32)


def turned(array, copy, axis=0):
    """Returns what copy number `copy` of the weights holds: the rows (along axis) of the first one, turned by as many.

    So no library can take two copies for one, and each has a right answer that is easily told.
    """
    return np.roll(array, copy, axis)


def quantize(w, bits, group):
    """Quantizes symmetrically: codes [n, groups, group], u8 0 .. 15 with zero 8, or s8; and scales f32 [n, groups].

    The largest weight of a group becomes the code 0, or +-127. The last group is filled up with zeros.
    """
    n, k = w.shape
    groups = -(-k // group)
    blocks = np.zeros((n, groups * group), np.float32)
    blocks[:, :k] = w
    blocks = blocks.reshape(n, groups, group)
    high, low = blocks.max(-1), blocks.min(-1)
    scales = np.where(high > -low, high, low) / -8 if bits == 4 else np.maximum(high, -low) / 127
    codes = np.rint(np.divide(blocks, scales[..., None], out=blocks), out=blocks)
    if bits == 8:
        return codes.astype(np.int8), scales
    codes += 8
    return np.clip(codes, 0, 15, out=codes).astype(np.uint8), scales


def nibbles(codes):
    """Packs 4-bit codes two a byte, the even one in the low nibble."""
    return codes[..., ::2] | codes[..., 1::2] << 4
