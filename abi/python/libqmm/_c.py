# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""qmm.h for ctypes: its structs and functions under their own names. A failing status raises."""

from __future__ import annotations

import ctypes
import operator
import os
import sys
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

ABI_VERSION = 1
OUT_OF_MEMORY = 4  # QMM_OUT_OF_MEMORY; every other failure is about the arguments

# Names of the values of the enums, in their order.
SCALE_DTYPES = ("f32", "f16", "bf16")
OFFSETS = ("symmetric", "zeros", "mins")


class _Struct(ctypes.Structure):
    """A struct of qmm.h: knows its size, and what is not given is zero."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class qmm_rhs_desc(_Struct):
    _fields_ = (
        ("struct_size", c_size_t),
        ("n", c_int64),
        ("k", c_int64),
        ("group", c_int64),
        ("bits", c_int32),
        ("offset", c_int32),
        ("scale_dtype", c_int32),
        ("reserved", c_int32),
    )


class qmm_weights(_Struct):
    _fields_ = (
        ("struct_size", c_size_t),
        ("codes", c_void_p),
        ("codes_stride", c_int64),
        ("scales", c_void_p),
        ("scales_stride", c_int64),
        ("offsets", c_void_p),
        ("offsets_stride", c_int64),
    )


class qmm_rhs(_Struct):
    _fields_ = (
        ("struct_size", c_size_t),
        ("packed", c_void_p),
        ("packed_size", c_size_t),
        ("reserved", c_int64 * 4),
        ("desc", qmm_rhs_desc),
    )


class qmm_matmul_args(_Struct):
    _fields_ = (
        ("struct_size", c_size_t),
        ("lhs_kind", c_int32),
        ("x_dtype", c_int32),
        ("y_dtype", c_int32),
        ("activation", c_int32),
        ("m", c_int64),
        ("batch", c_int64),
        ("x", c_void_p),
        ("x_row_stride", c_int64),
        ("x_col_stride", c_int64),
        ("x_batch_stride", c_int64),
        ("x_rows", c_void_p),
        ("lhs", c_void_p),
        ("lhs_size", c_size_t),
        ("rhs", POINTER(qmm_rhs)),
        ("desc", POINTER(qmm_rhs_desc)),
        ("weights", POINTER(qmm_weights)),
        ("bias", c_void_p),
        ("y", c_void_p),
        ("y_row_stride", c_int64),
        ("y_col_stride", c_int64),
        ("y_batch_stride", c_int64),
        ("scratch", c_void_p),
        ("scratch_size", c_size_t),
        ("threads", c_void_p),
    )


def _path() -> Path:
    # The name that programs linked with the library look for.
    name = {"darwin": "libqmm.1.dylib", "win32": "qmm.dll"}.get(sys.platform, "libqmm.so.1")
    return Path(os.environ.get("QMM_LIBRARY") or Path(__file__).with_name(name)).resolve()


def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
        version = library.qmm_abi_version()
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"libqmm: cannot load the shared library {path} ({error}); "
            "install the wheel, or set QMM_LIBRARY to the path of a built library"
        ) from error
    if version != ABI_VERSION:
        raise ImportError(f"libqmm: {path} has ABI version {version}, this package needs {ABI_VERSION}")
    return library


library_path = _path()  # of the shared library, for whoever links with it
_library = _load(library_path)


def _check(status: int, function, arguments) -> None:
    if status != 0:
        sentence = qmm_last_error().decode()
        raise MemoryError(sentence) if status == OUT_OF_MEMORY else ValueError(sentence)


def _function(name: str, *argtypes, returns=None):
    """A function of the library. Without `returns` it returns a qmm_status, which is checked."""
    function = _library[name]
    function.argtypes = argtypes
    function.restype = returns or c_int32
    if returns is None:
        function.errcheck = _check
    return function


_desc, _weights, _rhs, _args = map(POINTER, (qmm_rhs_desc, qmm_weights, qmm_rhs, qmm_matmul_args))

qmm_version = _function("qmm_version", returns=c_char_p)
qmm_last_error = _function("qmm_last_error", returns=c_char_p)
qmm_cpu_features = _function("qmm_cpu_features", returns=c_uint64)
qmm_cpu_feature_name = _function("qmm_cpu_feature_name", c_uint64, returns=c_char_p)
qmm_max_threads = _function("qmm_max_threads", returns=c_int64)
qmm_num_threads = _function("qmm_num_threads", returns=c_int64)
qmm_set_num_threads = _function("qmm_set_num_threads", c_int64)
qmm_quantize = _function("qmm_quantize", _desc, c_void_p, c_int64, _weights)
qmm_packed_size = _function("qmm_packed_size", _desc, POINTER(c_size_t))
qmm_pack = _function("qmm_pack", _desc, _weights, c_void_p, c_size_t)
qmm_unpack = _function("qmm_unpack", _rhs, _weights)
qmm_rhs_open = _function("qmm_rhs_open", c_void_p, c_size_t, _rhs)
qmm_rhs_verify = _function("qmm_rhs_verify", _rhs)
qmm_dequantize_rows = _function("qmm_dequantize_rows", _rhs, c_void_p, c_int64, c_void_p, c_int64)
qmm_matmul = _function("qmm_matmul", _args)
qmm_kernel_name = _function("qmm_kernel_name", c_int32, _desc, c_int64, POINTER(c_char_p))


def symbol(name: str):
    """A function of the library, for whoever calls it by its address."""
    return _library[name]


def open_rhs(address: int, size: int) -> qmm_rhs:
    """Opens the packed weights at an address; the caller keeps the bytes alive."""
    rhs = qmm_rhs()
    qmm_rhs_open(address, size, rhs)
    return rhs


def int64(name: str, value: int) -> int:
    """Returns `value` as an int if an int64_t holds it (ctypes would silently wrap it)."""
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be an integer") from None
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} is {value}; it must fit 64 bits")
    return value


def fold_rows(shape, strides) -> tuple[int, int, int] | None:
    """Sees an array as rows, strides in elements: (m, row stride, column stride), m all dimensions but the last.

    None where one row stride does not reach them all, or where the C ABI can not say a stride: a negative one, or 0
    from column to column.
    """
    k, col_stride = shape[-1], strides[-1]
    if k <= 1:
        col_stride = 1
    m, row_stride = 1, k
    for size, stride in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 0:
            return 0, k, 1
        if size == 1:
            continue
        if m == 1:
            row_stride = stride
        elif stride != row_stride * m:
            return None
        m *= size
    return (m, row_stride, col_stride) if row_stride >= 0 and col_stride >= 1 else None
