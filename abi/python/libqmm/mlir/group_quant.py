# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of quant.matmul_rhs_group_quant as those of quantized.matmul.grouped.

Zero points that are constant, and integers that ours can be, stay zero points. Others become mins: (code - zp) * scale
with a float zp is code * scale + min with min = -zp * scale, computed in f32. That costs accuracy where the sums of
code * x and of zp * x are long and nearly the same, and is NaN where one of them overflows.

Our codes are unsigned at 4 bits and signed at 8; others have the highest bit of each code flipped, which moves them,
and so their zero points, by half of their range.
"""

from __future__ import annotations

import torch
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.ir import Attribute, DenseElementsAttr, IntegerType, Operation, Value

from .types import VTensor, convert

# By bits and dtype: what flips the bits of a byte of codes, and what the flip adds to a code, negated.
_FLIPS = {(4, "u8"): (0, 0), (4, "i8"): (0x88, -8), (8, "u8"): (0x80, 128), (8, "i8"): (0, 0)}


def of_tensors(
    codes: torch.Tensor, scales: torch.Tensor, zps: torch.Tensor, bits: int
) -> dict[str, torch.Tensor | None]:
    """Returns codes [n, row bytes] u8; scales [n, groups] f32; zeros i8, mins f32, or neither."""
    flip, moved = _FLIPS[bits, "u8" if codes.dtype == torch.uint8 else "i8"]
    codes, scales = codes.view(torch.uint8) ^ flip, scales.squeeze(-1).float()
    is_integer, zeros = _zeros(zps, bits, moved)
    mins = None if is_integer else (moved - zps.squeeze(-1).float()) * scales
    return {"codes": codes, "scales": scales, "zeros": zeros, "mins": mins}


def of_values(
    codes: Value, scales: Value, zps: Value, bits: int, constant_zps: torch.Tensor | None
) -> dict[str, Value]:
    """The same as operations, added where the insertion point is; constant_zps are the values of zps, if known."""
    flip, moved = _FLIPS[bits, VTensor.parse(codes.type).dtype]
    codes = _as_bytes(codes)
    if flip:
        byte = _literal(Attribute.parse(f"dense<{flip}> : tensor<ui8>"), VTensor((), "u8"))
        codes = torch_dialect.aten_bitwise_xor_Tensor(codes.type, codes, byte)
    scales, none = _floats(scales), torch_dialect.constant_none()
    if constant_zps is not None:
        is_integer, zeros = _zeros(constant_zps, bits, moved)
        if is_integer:
            value = none if zeros is None else _integers(zeros)
            return {"codes": codes, "scales": scales, "zeros": value, "mins": none}
    zps = _floats(zps)
    mins = torch_dialect.aten_rsub_Scalar(
        zps.type, zps, torch_dialect.constant_int(moved), torch_dialect.constant_int(1)
    )
    mins = torch_dialect.aten_mul_Tensor(scales.type, scales, mins)
    return {"codes": codes, "scales": scales, "zeros": none, "mins": mins}


def _zeros(zps: torch.Tensor, bits: int, moved: int) -> tuple[bool, torch.Tensor | None]:
    """Tells whether zero points can be integers, and returns these, [n, groups], unless they are the symmetric ones."""
    zeros = zps.squeeze(-1).float() - moved
    low, high, symmetric = (0, 16, 8) if bits == 4 else (-128, 127, 0)
    if not ((zeros == zeros.round()) & (zeros >= low) & (zeros <= high)).all():
        return False, None
    return True, None if (zeros == symmetric).all() else zeros.to(torch.int8)


def _integers(zeros: torch.Tensor) -> Value:
    type = VTensor(tuple(zeros.shape), "i8")
    signed = IntegerType.get_signed(8)
    return _literal(DenseElementsAttr.get(zeros.contiguous().numpy(), type=signed), type)


def _literal(value: Attribute, type: VTensor) -> Value:
    return Operation.create("torch.vtensor.literal", results=[type.torch_type], attributes={"value": value}).result


def _as_bytes(codes: Value) -> Value:
    """Sees signed bytes as unsigned: a builtin tensor has neither."""
    type = VTensor.parse(codes.type)
    if type.dtype == "u8":
        return codes
    builtin = Operation.create("torch_c.to_builtin_tensor", results=[type.builtin_type], operands=[codes]).result
    unsigned = VTensor(type.shape, "u8").torch_type
    return Operation.create("torch_c.from_builtin_tensor", results=[unsigned], operands=[builtin]).result


def _floats(value: Value) -> Value:
    """[n, groups, 1] as f32 [n, groups]."""
    type = VTensor.parse(value.type)
    type = VTensor(type.shape[:-1], type.dtype)
    value = torch_dialect.aten_squeeze_dim(type.torch_type, value, torch_dialect.constant_int(-1))
    return value if type.dtype == "f32" else convert(value, VTensor(type.shape, "f32"))
