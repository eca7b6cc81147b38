# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads quantized weights from GGUF files, losslessly.

The file and block formats are those of the GGUF specification and of ggml's block definitions (ggml-common.h). All
have blocks of 32 weights along k, which become groups of 32:

    Q4_0  f16 d, 16 bytes of codes     w = (code - 8) * d     symmetric, 4 bits
    Q4_1  f16 d, f16 m, 16 bytes       w = code * d + m       mins, 4 bits
    Q8_0  f16 d, 32 signed bytes       w = code * d           symmetric, 8 bits

Byte j of a 4-bit block holds code j in its low and code j + 16 in its high nibble.
"""

from __future__ import annotations

import os

import numpy as np
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader

from . import Weights

_GROUP = 32
_BLOCK_BYTES = {GGMLQuantizationType.Q4_0: 18, GGMLQuantizationType.Q4_1: 20, GGMLQuantizationType.Q8_0: 34}


class _Reader(GGUFReader):
    """Refuses to read past the end of the file, where the base class returns fewer elements than were asked for."""

    def _get(self, offset, dtype, count=1, override_order=None):
        end = int(offset) + int(count) * np.dtype(dtype).itemsize
        if end > self.data.size:
            raise ValueError(f"cut off: {end} bytes are needed, there are {self.data.size}")
        return super()._get(offset, dtype, count, override_order)

    def _build_tensors(self, start_offs, fields):
        # The base class adds in 64 bits, which wrap: a tensor would be read from the metadata.
        for field in fields:
            offset, alignment = int(field.parts[-1][0]), int(self.alignment)
            if offset % alignment != 0:
                raise ValueError(f"the offset {offset} of {field.name} is not a multiple of {alignment}")
            if int(start_offs) + offset > self.data.size:
                raise ValueError(f"the offset {offset} of {field.name} is past the {self.data.size} bytes of the file")
        super()._build_tensors(start_offs, fields)


class File:
    """A GGUF file: `File(path)[name]` are the weights of a tensor in canonical form, to be given to libqmm.pack.

    The file is mapped; a tensor is read when it is asked for. ValueError where the file is cut off or not GGUF.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        try:
            reader = _Reader(self.path)
        except OSError:
            raise
        except Exception as error:  # the package lets out whatever a malformed file runs it into
            raise ValueError(f"{self.path} is not a GGUF file that can be read: {error}") from error
        if reader.endianess != GGUFEndian.LITTLE:
            raise ValueError(f"{self.path} is big-endian; only little-endian GGUF files can be read")
        self.fields = reader.fields  # the metadata: gguf.ReaderField by name
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}  # gguf.ReaderTensor by name

    def __getitem__(self, name: str) -> Weights:
        """Returns the weights [n, k] of a Q4_0, Q4_1 or Q8_0 tensor; ValueError if it is not there or not one."""
        if name not in self.tensors:
            raise ValueError(f"{self.path} has no tensor {name!r}; it has {len(self.tensors)} others")
        tensor = self.tensors[name]
        kind = tensor.tensor_type
        if kind not in _BLOCK_BYTES:
            raise ValueError(f"{name} is {kind.name}; it must be {', '.join(known.name for known in _BLOCK_BYTES)}")
        if tensor.data.ndim != 2:
            raise ValueError(f"{name} has shape {tensor.shape[::-1].tolist()}; it must have rank 2")

        n, row_bytes = tensor.data.shape
        groups = row_bytes // _BLOCK_BYTES[kind]
        blocks = tensor.data.reshape(n, groups, _BLOCK_BYTES[kind])
        form = {"bits": 8 if kind == GGMLQuantizationType.Q8_0 else 4, "group": _GROUP, "k": groups * _GROUP}
        if kind == GGMLQuantizationType.Q8_0:
            return Weights(blocks[..., 2:].reshape(n, groups * _GROUP).view(np.int8), _f16(blocks, 0), **form)
        if kind == GGMLQuantizationType.Q4_0:
            return Weights(_codes(blocks[..., 2:]), _f16(blocks, 0), **form)
        return Weights(_codes(blocks[..., 4:]), _f16(blocks, 0), mins=_f16(blocks, 2), **form)


def _f16(blocks: np.ndarray, at: int) -> np.ndarray:
    """Returns the f16 at byte `at` of each block, [n, groups]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0]


def _codes(quants: np.ndarray) -> np.ndarray:
    """Puts the nibbles of 4-bit blocks in the order of k, two a byte, the even k low: [n, groups * 16]."""
    halves = np.stack((quants & 15, quants >> 4), axis=-2)
    return (halves[..., 0::2] | halves[..., 1::2] << 4).reshape(quants.shape[0], quants.shape[1] * 16)
