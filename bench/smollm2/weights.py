# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The weight file: named blobs to be mapped, each at a multiple of 64 bytes. weights.h reads it.

    bytes 0 .. 63   magic "qmmblobs", u32 version 1, u32 number of blobs, u64 size of the file, zeros
    then a blob     64 bytes: name (40 bytes, zero-padded), u64 offset, u64 size, zeros
    then            the blobs

Numbers are little-endian. Blobs are packed weights, or f32 vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import libqmm
import libqmm.gguf
from checkpoint import MATRICES, NORMS, ROTATED, Config

MAGIC, VERSION, ALIGNMENT = b"qmmblobs", 1, 64


def blobs(file: libqmm.gguf.File) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the weights of the model by name: packed, as uint8 [size], or f32 vectors."""
    config = Config.of(file)

    def part(name: str) -> libqmm.Weights:
        weights = file[f"{name}.weight"]
        return take(weights, halves(weights.desc.n, config.head_dim)) if name.endswith(ROTATED) else weights

    def matrix(name: str, shape: tuple[int, int], *parts: str):
        weights = stack([part(name) for name in parts])
        if (weights.desc.n, weights.desc.k) != shape:
            raise ValueError(f"{' and '.join(parts)} are [{weights.desc.n}, {weights.desc.k}]; they must be {[*shape]}")
        return name, libqmm.pack(weights)

    def vector(name: str):
        data = file.tensors[f"{name}.weight"].data
        if data.dtype != np.float32 or data.shape != (config.width,):
            raise ValueError(f"{name} is {data.dtype} {list(data.shape)}; it must be float32 [{config.width}]")
        return name, data

    yield matrix("token_embd", (config.vocabulary, config.width), "token_embd")
    yield vector("output_norm")
    for layer in range(config.layers):
        block = f"blk.{layer}."
        for name, parts in MATRICES.items():
            yield matrix(block + name, config.matrices[name], *(block + part for part in parts))
        for name in NORMS:
            yield vector(block + name)


def halves(rows: int, head_dim: int) -> np.ndarray:
    """Returns the order of rows in which each head has the real parts of its pairs first, then the imaginary ones.

    GGUF has the two of a pair side by side. In halves, rotating them reads and writes whole vectors; products of
    queries and keys do not see an order that both share.
    """
    return np.arange(rows).reshape(-1, head_dim // 2, 2).swapaxes(1, 2).reshape(-1)


def take(weights: libqmm.Weights, rows: np.ndarray) -> libqmm.Weights:
    """Returns the given rows of a matrix."""
    return _build(weights, lambda array: array[rows], weights)


def stack(parts: list[libqmm.Weights]) -> libqmm.Weights:
    """Returns one matrix that has the rows of all `parts`; ValueError where their formats differ."""
    form = {(part.bits, part.group, part.k, part.desc.offset, part.desc.scale_dtype) for part in parts}
    if len(form) > 1:
        raise ValueError(f"matrices of different formats can not be one: {', '.join(map(str, sorted(form)))}")
    return _build(parts[0], lambda *arrays: np.concatenate(arrays), *parts)


def _build(form: libqmm.Weights, combine: Callable[..., np.ndarray], *parts: libqmm.Weights) -> libqmm.Weights:
    """Returns weights in the format of `form`, each of whose arrays combines those of `parts`."""
    arrays = {
        name: None if getattr(form, name) is None else combine(*(getattr(part, name) for part in parts))
        for name in ("codes", "scales", "zeros", "mins")
    }
    return libqmm.Weights(**arrays, bits=form.bits, group=form.group, k=form.k)


def write(path: Path, named: list[tuple[str, np.ndarray]]) -> None:
    """Writes `named` blobs to `path`."""
    offset = ALIGNMENT * (1 + len(named))
    index, placed = [], []
    for name, blob in named:
        data = memoryview(np.ascontiguousarray(blob)).cast("B")
        encoded = name.encode()
        if len(encoded) >= 40:
            raise ValueError(f"the name {name!r} has {len(encoded)} bytes; there is room for 39")
        index.append(struct.pack("<40sQQ8x", encoded, offset, data.nbytes))
        placed.append((offset, data))
        offset += -(-data.nbytes // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as file:
        file.write(struct.pack("<8sIIQ40x", MAGIC, VERSION, len(named), offset))
        file.writelines(index)
        for start, data in placed:
            file.seek(start)
            file.write(data)
        file.truncate(offset)
