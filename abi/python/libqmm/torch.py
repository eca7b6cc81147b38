# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libqmm's ops for PyTorch: `import libqmm.torch` registers the table in ops.py.

    torch.ops.quantized.matmul.packed(x, packed, n, lhs="f32")
    torch.ops.quantized.matmul.grouped(x, codes, scales, zeros, bits, group, mins=None, lhs="f32")
    torch.ops.quantized.embedding.packed(ids, packed, k)

x is f32, f16 or bf16 [..., k] with any strides, the result [..., n] of its dtype: x is widened, which is exact, and the
result in f32 rounded once, to nearest even. The default overload of quantized::matmul is PyTorch's own.
The ops work in eager mode, torch.compile and torch.export, on the CPU, with as many threads as libqmm.set_num_threads
says. They are for inference: a backward pass through one raises NotImplementedError, and so does compiling one for
training, outside torch.no_grad(). Arguments that do not fit raise ValueError with the library's sentence.
"""

from __future__ import annotations

import ctypes
import functools
import os

import torch
from torch import Tensor, nn

from . import RhsDesc, Weights, _c, inspect, pack, quantize
from .ops import OPS, Op, lhs_kind

__all__ = ["QuantizedLinear", "load_gguf_linear"]

_TORCH_DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
}
_DTYPES = {dtype: name for name, dtype in _TORCH_DTYPES.items()}


class QuantizedLinear(nn.Module):
    """y = x W^T + bias with packed weights, for inference: x [..., in_features] -> [..., out_features].

    x       f32, f16 or bf16; the result has its dtype
    packed  uint8 tensor from libqmm.pack (torch.from_numpy does not copy it)
    bias    f32 [out_features] or None
    lhs     "f32", "s8" or "s8_token": how x meets the codes, see qmm_matmul in qmm.h
    """

    def __init__(self, packed: Tensor, bias: Tensor | None = None, lhs: str = "f32"):
        super().__init__()
        self.desc = desc = inspect(packed.numpy())
        if bias is not None and (bias.dtype != torch.float32 or bias.shape != (desc.n,)):
            raise ValueError(f"bias: {bias.dtype} {list(bias.shape)}; it must be torch.float32 [{desc.n}]")
        lhs_kind("QuantizedLinear", lhs)
        self.in_features, self.out_features, self.lhs = desc.k, desc.n, lhs
        self.register_buffer("packed", packed)
        self.register_buffer("bias", bias)

    @classmethod
    def from_linear(
        cls,
        linear: nn.Linear,
        bits: int = 4,
        group: int = 32,
        offset: str = "symmetric",
        scale_dtype: str = "f16",
        lhs: str = "f32",
    ) -> QuantizedLinear:
        """Quantizes the weights of a torch.nn.Linear by round-to-nearest (libqmm.quantize)."""
        w = linear.weight.detach().cpu().float().numpy()
        bias = None if linear.bias is None else linear.bias.detach().cpu().float().clone()
        return cls.from_canonical(quantize(w, bits, group, offset, scale_dtype), bias, lhs)

    @classmethod
    def from_canonical(cls, weights: Weights, bias: Tensor | None = None, lhs: str = "f32") -> QuantizedLinear:
        """Packs weights in canonical form, losslessly."""
        return cls(torch.from_numpy(pack(weights)), bias, lhs)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise ValueError(
                f"QuantizedLinear: x is {list(x.shape)}, the weights [{self.out_features}, {self.in_features}]; "
                f"the last extent of x must be {self.in_features}"
            )
        y = torch.ops.quantized.matmul.packed(x, self.packed, self.out_features, self.lhs)
        return y if self.bias is None else y + self.bias.to(y.dtype)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"bits={self.desc.bits}, group={self.desc.group}, {self.desc.offset}, lhs={self.lhs!r}"
        )


def load_gguf_linear(
    path: str | os.PathLike, tensor_name: str, bias: Tensor | None = None, lhs: str = "f32"
) -> QuantizedLinear:
    """Loads a Q4_0, Q4_1 or Q8_0 tensor of a GGUF file, losslessly; `path` may be an open libqmm.gguf.File."""
    from .gguf import File  # here, because it needs the gguf package

    file = path if isinstance(path, File) else File(path)
    return QuantizedLinear.from_canonical(file[tensor_name], bias, lhs)


# What the ops compute on the CPU, from checked arguments: `shape` is that of the result. Packed weights come opened.


def _matmul_packed(shape: tuple, rhs: _c.qmm_rhs, x: Tensor, packed: Tensor, n: int, lhs: str = "f32") -> Tensor:
    return _matmul(shape, x, lhs, rhs=ctypes.pointer(rhs))


def _matmul_grouped(
    shape: tuple,
    x: Tensor,
    codes: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    bits: int,
    group: int,
    mins: Tensor | None = None,
    lhs: str = "f32",
) -> Tensor:
    offset = "zeros" if zeros is not None else "mins" if mins is not None else "symmetric"
    offsets = zeros if zeros is not None else mins
    desc = RhsDesc(codes.shape[0], x.shape[-1], bits, group, offset, _DTYPES[scales.dtype])
    codes, scales = _dense_rows(codes), _dense_rows(scales)
    offsets = None if offsets is None else _dense_rows(offsets)
    weights = _c.qmm_weights(
        codes=codes.data_ptr(),
        codes_stride=codes.stride(0),
        scales=scales.data_ptr(),
        scales_stride=scales.stride(0),
        offsets=None if offsets is None else offsets.data_ptr(),
        offsets_stride=0 if offsets is None else offsets.stride(0),
    )
    return _matmul(shape, x, lhs, desc=ctypes.pointer(desc._struct()), weights=ctypes.pointer(weights))


def _matmul(shape: tuple, x: Tensor, lhs: str, **rhs) -> Tensor:
    dtype = x.dtype
    x = x.float()
    y = x.new_empty(shape)
    rows = _c.fold_rows(x.shape, x.stride())
    if rows is None:
        x = x.contiguous()
        rows = _c.fold_rows(x.shape, x.stride())
    m, row_stride, col_stride = rows
    _c.qmm_matmul(
        _c.qmm_matmul_args(
            lhs_kind=lhs_kind("matmul", lhs),
            m=m,
            x=x.data_ptr(),
            x_row_stride=row_stride,
            x_col_stride=col_stride,
            y=y.data_ptr(),
            y_row_stride=y.shape[-1],
            **rhs,
        )
    )
    return y.to(dtype)


def _embedding_packed(shape: tuple, rhs: _c.qmm_rhs, ids: Tensor, packed: Tensor, k: int) -> Tensor:
    y = ids.new_empty(shape, dtype=torch.float32)
    ids = ids.long().contiguous()
    _c.qmm_dequantize_rows(rhs, ids.data_ptr(), ids.numel(), y.data_ptr(), k)
    return y


def _dense_rows(matrix: Tensor) -> Tensor:
    """Returns a matrix itself where each row is contiguous and rows do not overlap, else a copy."""
    dense = matrix.stride(1) == 1 and matrix.stride(0) >= matrix.shape[1]
    return matrix if dense else matrix.clone(memory_format=torch.contiguous_format)


def open_packed(op: Op, packed: Tensor, shapes: list) -> _c.qmm_rhs:
    """Opens packed weights of an op after checking that they fit its arguments, tensors as their shapes."""
    rhs = _open(op, packed)
    op.check_packed((rhs.desc.n, rhs.desc.k), *shapes)
    return rhs


def _open(op: Op, packed: Tensor) -> _c.qmm_rhs:
    try:
        return _c.open_rhs(packed.data_ptr(), packed.numel())
    except ValueError as error:
        raise ValueError(f"{op.torch_name}: packed {list(packed.shape)}: {error}") from None


def _described(args) -> tuple:
    """Returns arguments with the shape and dtype of each tensor in its place."""
    return tuple((arg.shape, arg.dtype) if isinstance(arg, Tensor) else arg for arg in args)


def _shapes(described: tuple) -> list:
    return [tuple(arg[0]) if isinstance(arg, tuple) else arg for arg in described]


def _spell(dtype: str) -> str:
    return str(_TORCH_DTYPES.get(dtype, dtype))


def _register(library: torch.library.Library, op: Op, compute) -> None:
    library.define(f"{op.name}.{op.overload}{op.schema}", tags=torch.Tag.pt2_compliant_tag)

    def check(described: tuple) -> tuple[tuple, torch.dtype]:
        """Returns the shape and dtype of the result."""
        shape = op.shape(*_shapes(described))  # arguments left at their default are not passed
        arguments = op.bind(*described)
        dtypes = {n: _DTYPES.get(arg[1], str(arg[1])) for n, arg in arguments.items() if isinstance(arg, tuple)}
        op.check_dtypes(arguments, dtypes, _spell)
        return shape, _TORCH_DTYPES[dtypes.get(op.result_dtype, op.result_dtype)]

    # A program calls an op on the same shapes over and over, and checking them takes longer than a small matmul.
    checked = functools.lru_cache(maxsize=1024)(check)

    @functools.lru_cache(maxsize=1024)
    def check_packed(rhs: tuple[int, int], described: tuple) -> None:
        op.check_packed(rhs, *_shapes(described))

    def fake(*args):
        shape, dtype = check(_described(args))
        return args[0].new_empty(shape, dtype=dtype)

    def cpu(*args):
        described = _described(args)
        shape, _ = checked(described)
        if op.requires_of_packed is None:
            return compute(shape, *args)
        at = list(op.arguments).index("packed")
        packed = args[at].contiguous()
        rhs = _open(op, packed)
        check_packed((rhs.desc.n, rhs.desc.k), described)
        return compute(shape, rhs, *args[:at], packed, *args[at + 1 :])

    def backward(context, gradient):
        raise NotImplementedError(
            f"{op.torch_name} is for inference and has no gradient; call it under torch.no_grad()"
        )

    library.impl(f"{op.name}.{op.overload}", cpu, "CPU")
    torch.library.register_fake(op.torch_name, fake, lib=library)
    torch.library.register_autograd(op.torch_name, backward, lib=library)


_library = torch.library.Library("quantized", "FRAGMENT")  # alive as long as the ops are
_COMPUTE = {
    "quantized::matmul.packed": _matmul_packed,
    "quantized::matmul.grouped": _matmul_grouped,
    "quantized::embedding.packed": _embedding_packed,
}
for _op in OPS:
    if _op.torch_name in _COMPUTE:
        _register(_library, _op, _COMPUTE[_op.torch_name])
