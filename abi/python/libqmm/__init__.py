# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libqmm: matmul with 4-bit and 8-bit weights on CPUs, for numpy.

    packed = libqmm.pack(libqmm.quantize(w, bits=4, group=32))  # w f32 [n, k]
    y = libqmm.matmul(x, packed)                                # x f32 [..., k], y = x w^T f32 [..., n]

`libqmm.torch` registers the same as PyTorch ops; `libqmm.gguf` reads weights from GGUF files. What is computed, to the
bit, stands in qmm.h. Arguments that do not fit raise ValueError with a sentence that holds the numbers.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from . import _c
from .ops import lhs_kind

__all__ = [
    "RhsDesc",
    "Weights",
    "cpu_features",
    "dequantize_rows",
    "inspect",
    "kernel_name",
    "matmul",
    "max_threads",
    "num_threads",
    "pack",
    "packed_size",
    "quantize",
    "set_num_threads",
    "unpack",
    "verify",
    "version",
]

# numpy has no bf16: its bits travel as uint16.
_SCALE_TYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(np.uint16)}


@dataclass(frozen=True)
class RhsDesc:
    """The shape and format of a weight matrix W[n, k] (qmm_rhs_desc). ValueError unless the library takes it."""

    n: int
    k: int
    bits: int  # 4 or 8
    group: int  # k per scale: a multiple of 8 below k, or k itself
    offset: str = "symmetric"  # or "zeros", "mins"
    scale_dtype: str = "f16"  # or "f32", "bf16"

    def __post_init__(self):
        packed_size(self)  # checks everything

    @property
    def groups(self) -> int:
        """Scales a row."""
        return -(-self.k // self.group) if self.group else 0

    def _struct(self) -> _c.qmm_rhs_desc:
        for name, value, names in (
            ("offset", self.offset, _c.OFFSETS),
            ("scale_dtype", self.scale_dtype, _c.SCALE_DTYPES),
        ):
            if value not in names:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, names))}")
        bits = _c.int64("bits", self.bits)
        if bits not in (4, 8):
            raise ValueError(f"bits is {bits}; it must be 4 or 8")
        return _c.qmm_rhs_desc(
            n=_c.int64("n", self.n),
            k=_c.int64("k", self.k),
            group=_c.int64("group", self.group),
            bits=bits,
            offset=_c.OFFSETS.index(self.offset),
            scale_dtype=_c.SCALE_DTYPES.index(self.scale_dtype),
        )

    @classmethod
    def _of(cls, desc: _c.qmm_rhs_desc) -> RhsDesc:
        return cls(desc.n, desc.k, desc.bits, desc.group, _c.OFFSETS[desc.offset], _c.SCALE_DTYPES[desc.scale_dtype])


@dataclass(frozen=True, eq=False)
class Weights:
    """Quantized weights in canonical form: plain arrays. With G = ceil(k / group),

    codes   4 bits: uint8 [n, ceil(k / 2)], two codes a byte, the even k in the low nibble; 8 bits: int8 [n, k]
            (uint8 is taken as the bytes of int8)
    scales  [n, G] float32, float16, or uint16 that holds the bits of bf16
    zeros   [n, G] int8 or None; 4 bits: 0..16, uint8 as well
    mins    [n, G] of the dtype of the scales, or None

    w = (code - zero) * scale, or code * scale + min. With neither zeros nor mins the zero is 8 at 4 bits and 0 at 8.
    `k` need only be given where it is odd and the codes have 4 bits.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None = None
    mins: np.ndarray | None = None
    bits: int = field(kw_only=True)
    group: int = field(kw_only=True)
    k: int | None = field(kw_only=True, default=None)
    desc: RhsDesc = field(init=False)

    def __post_init__(self):
        if self.zeros is not None and self.mins is not None:
            raise ValueError("give zeros or mins, not both")
        _expect_rank("codes", self.codes, 2)
        _expect_array("scales", self.scales)
        scale_dtype = {dtype: name for name, dtype in _SCALE_TYPES.items()}.get(self.scales.dtype)
        if scale_dtype is None:
            raise ValueError(
                f"scales are {self.scales.dtype}; they must be float32, float16, or uint16 that holds bf16"
            )
        n, row_bytes = self.codes.shape
        if self.k is None:
            object.__setattr__(self, "k", row_bytes * 8 // self.bits if self.bits in (4, 8) else 0)
        offset = "zeros" if self.zeros is not None else "mins" if self.mins is not None else "symmetric"
        desc = RhsDesc(n, self.k, self.bits, self.group, offset, scale_dtype)
        object.__setattr__(self, "desc", desc)

        code_dtypes = ("uint8",) if self.bits == 4 else ("int8", "uint8")
        _expect("codes", self.codes, (n, (self.k * self.bits + 7) // 8), *code_dtypes)
        if self.bits == 8:
            object.__setattr__(self, "codes", self.codes.view(np.int8))
        _expect("scales", self.scales, (n, desc.groups), self.scales.dtype)
        if self.zeros is not None:
            # 8-bit zeros must say that they are signed: an unsigned 128 would be taken for -128.
            _expect("zeros", self.zeros, (n, desc.groups), *(("int8", "uint8") if self.bits == 4 else ("int8",)))
        if self.mins is not None:
            _expect("mins", self.mins, (n, desc.groups), self.scales.dtype)

    @classmethod
    def _empty(cls, desc: RhsDesc) -> Weights:
        scale_type = _SCALE_TYPES[desc.scale_dtype]
        return cls(
            np.empty((desc.n, (desc.k * desc.bits + 7) // 8), np.uint8 if desc.bits == 4 else np.int8),
            np.empty((desc.n, desc.groups), scale_type),
            np.empty((desc.n, desc.groups), np.int8) if desc.offset == "zeros" else None,
            np.empty((desc.n, desc.groups), scale_type) if desc.offset == "mins" else None,
            bits=desc.bits,
            group=desc.group,
            k=desc.k,
        )

    def _struct(self) -> _c.qmm_weights:
        codes, codes_stride = _dense_rows(self.codes)
        scales, scales_stride = _dense_rows(self.scales)
        offsets = self.zeros if self.zeros is not None else self.mins
        offsets, offsets_stride = (None, 0) if offsets is None else _dense_rows(offsets)
        struct = _c.qmm_weights(
            codes=codes.ctypes.data,
            codes_stride=codes_stride,
            scales=scales.ctypes.data,
            scales_stride=scales_stride,
            offsets=None if offsets is None else offsets.ctypes.data,
            offsets_stride=offsets_stride,
        )
        struct.arrays = codes, scales, offsets  # alive as long as the struct: they may be copies
        return struct


def quantize(
    w: np.ndarray, bits: int = 4, group: int = 32, offset: str = "symmetric", scale_dtype: str = "f16"
) -> Weights:
    """Quantizes w f32 [n, k] by round-to-nearest (qmm_quantize tells how)."""
    _expect_rank("w", w, 2)
    _expect("w", w, w.shape, "float32")
    desc = RhsDesc(*w.shape, bits, group, offset, scale_dtype)
    weights = Weights._empty(desc)
    w, w_stride = _dense_rows(w)
    _c.qmm_quantize(desc._struct(), w.ctypes.data, w_stride, weights._struct())
    return weights


def packed_size(desc: RhsDesc) -> int:
    """Returns the number of bytes that weights of `desc` take packed."""
    size = ctypes.c_size_t()
    _c.qmm_packed_size(desc._struct(), size)
    return size.value


def pack(weights: Weights) -> np.ndarray:
    """Packs weights losslessly. Returns uint8 [packed_size], 64-byte aligned: bytes for any CPU, fit to be stored."""
    packed = _aligned(packed_size(weights.desc))
    _c.qmm_pack(weights.desc._struct(), weights._struct(), packed.ctypes.data, packed.size)
    return packed


def unpack(packed) -> Weights:
    """Returns the weights that were packed, losslessly. `packed` is a uint8 array or a bytes-like object."""
    packed = _bytes(packed)
    rhs = _open(packed)
    weights = Weights._empty(RhsDesc._of(rhs.desc))
    _c.qmm_unpack(rhs, weights._struct())
    return weights


def inspect(packed) -> RhsDesc:
    """Tells what packed weights are, from their header alone."""
    return RhsDesc._of(_open(_bytes(packed)).desc)


def verify(packed) -> None:
    """Reads all of the packed weights: ValueError if they differ from their checksum."""
    packed = _bytes(packed)
    _c.qmm_rhs_verify(_open(packed))


def matmul(
    x: np.ndarray, rhs, lhs: str = "f32", bias: np.ndarray | None = None, out: np.ndarray | None = None
) -> np.ndarray:
    """Computes x W^T + bias.

    x     f32 [..., k], any strides (copied where its rows are not one stride apart)
    rhs   packed weights, uint8 array or bytes-like; or Weights, which are packed on the fly at every call
    lhs   "f32": x as it is; "s8": x quantized per group; "s8_token": x quantized per row
    bias  f32 [n] or None
    out   f32 [..., n], contiguous, not overlapping x; made if None
    """
    kind = lhs_kind("matmul", lhs)
    if isinstance(rhs, Weights):
        n, k = rhs.desc.n, rhs.desc.k
        desc, weights = rhs.desc._struct(), rhs._struct()
        how = {"desc": ctypes.pointer(desc), "weights": ctypes.pointer(weights)}
    else:
        packed = _bytes(rhs)
        opened = _open(packed)
        n, k = opened.desc.n, opened.desc.k
        how = {"rhs": ctypes.pointer(opened)}
    _expect_array("x", x)
    if x.ndim < 1 or x.shape[-1] != k:
        raise ValueError(f"x has shape {list(x.shape)}; its last extent must be k = {k} of the weights")
    _expect("x", x, x.shape, "float32")
    if bias is not None:
        _expect("bias", bias, (n,), "float32")
        bias = np.require(bias, requirements="CA")
    if out is None:
        out = np.empty((*x.shape[:-1], n), np.float32)
    _expect("out", out, (*x.shape[:-1], n), "float32")
    if not (out.flags.carray and out.flags.writeable):
        raise ValueError("out must be contiguous, aligned and writeable")

    whole = x.flags.aligned and all(stride % x.itemsize == 0 for stride in x.strides)
    rows = _c.fold_rows(x.shape, [stride // x.itemsize for stride in x.strides]) if whole else None
    if rows is None:
        x = np.require(x, requirements="CA")
        rows = _c.fold_rows(x.shape, [stride // x.itemsize for stride in x.strides])
    m, row_stride, col_stride = rows
    _c.qmm_matmul(
        _c.qmm_matmul_args(
            lhs_kind=kind,
            m=m,
            x=x.ctypes.data,
            x_row_stride=row_stride,
            x_col_stride=col_stride,
            bias=None if bias is None else bias.ctypes.data,
            y=out.ctypes.data,
            y_row_stride=n,
            **how,
        )
    )
    return out


def dequantize_rows(packed, ids: np.ndarray) -> np.ndarray:
    """Returns the rows W[ids, :] of packed weights, f32 [..., k] for ids int64 [...], each in 0 .. n-1."""
    _expect_array("ids", ids)
    _expect("ids", ids, ids.shape, "int64")
    packed = _bytes(packed)
    rhs = _open(packed)
    ids = np.require(ids, requirements="CA")
    y = np.empty((*ids.shape, rhs.desc.k), np.float32)
    _c.qmm_dequantize_rows(rhs, ids.ctypes.data, ids.size, y.ctypes.data, rhs.desc.k)
    return y


def kernel_name(desc: RhsDesc, m: int = 1, lhs: str = "f32") -> str:
    """Returns the name of the kernel that `matmul` runs on this CPU for x of m rows."""
    name = ctypes.c_char_p()
    _c.qmm_kernel_name(lhs_kind("kernel_name", lhs), desc._struct(), _c.int64("m", m), name)
    return name.value.decode()


def cpu_features() -> tuple[str, ...]:
    """Returns the features of this CPU that kernels use ("avx2" ...), after the cap by QMM_MAX_ISA."""
    bits = _c.qmm_cpu_features()
    each = (1 << i for i in range(bits.bit_length()) if bits >> i & 1)
    return tuple(_c.qmm_cpu_feature_name(bit).decode() for bit in each)


def set_num_threads(num_threads: int) -> None:
    """Sets the number of threads of the process, 1 at first; it is capped at max_threads()."""
    _c.qmm_set_num_threads(_c.int64("num_threads", num_threads))


def num_threads() -> int:
    """Returns the number of threads that matmul uses."""
    return _c.qmm_num_threads()


def max_threads() -> int:
    """Returns the number of CPUs that this process may use."""
    return _c.qmm_max_threads()


def version() -> str:
    """Returns the version of the shared library."""
    return _c.qmm_version().decode()


def _expect_array(name: str, array) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is a {type(array).__name__}; it must be a numpy array")


def _expect_rank(name: str, array: np.ndarray, rank: int) -> None:
    _expect_array(name, array)
    if array.ndim != rank:
        raise ValueError(f"{name} has rank {array.ndim}; it must have rank {rank}")


def _expect(name: str, array: np.ndarray, shape: tuple, *dtypes) -> None:
    _expect_array(name, array)
    if array.dtype not in map(np.dtype, dtypes):
        raise ValueError(f"{name}: dtype {array.dtype}; it must be {' or '.join(map(str, dtypes))}")
    if array.shape != tuple(shape):
        raise ValueError(f"{name}: shape {list(array.shape)}; it must be {list(shape)}")


def _dense_rows(array: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns a matrix and its row stride in elements; a copy where a row is not contiguous or rows overlap."""
    row_stride, col_stride = array.strides
    row_bytes = array.shape[1] * array.itemsize
    dense = col_stride == array.itemsize and row_stride >= row_bytes and row_stride % array.itemsize == 0
    if dense and array.flags.aligned:
        return array, row_stride // array.itemsize
    return np.require(array, requirements="CA"), array.shape[1]


def _bytes(packed) -> np.ndarray:
    """Sees packed weights as a uint8 array, without copying."""
    if not isinstance(packed, np.ndarray):
        return np.frombuffer(packed, np.uint8)
    if packed.dtype != np.uint8 or packed.ndim != 1 or not packed.flags.c_contiguous:
        raise ValueError(f"packed: {packed.dtype} {list(packed.shape)}; it must be a contiguous uint8 array of rank 1")
    return packed


def _open(packed: np.ndarray) -> _c.qmm_rhs:
    return _c.open_rhs(packed.ctypes.data, packed.size)


def _aligned(size: int) -> np.ndarray:
    """Returns an uninitialised uint8 array that starts at a multiple of 64, where kernels read it fastest."""
    room = np.empty(size + 63, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size]
