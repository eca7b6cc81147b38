# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of quant.matmul_rhs_group_quant as those of quantized.matmul.grouped.

(code - zp) * scale with a float zp is code * scale + min with min = -zp * scale, computed in f32. Our codes are
unsigned at 4 bits and signed at 8; others have the highest bit of each code flipped, which moves them by half of their
range.
"""

from __future__ import annotations

import torch
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.ir import Attribute, Operation, Value

from .types import VTensor, convert

# By bits and dtype: what flips the bits of a byte of codes, and what the flip adds to a code, negated.
_FLIPS = {(4, "u8"): (0, 0), (4, "i8"): (0x88, -8), (8, "u8"): (0x80, 128), (8, "i8"): (0, 0)}


def of_tensors(codes: torch.Tensor, scales: torch.Tensor, zps: torch.Tensor, bits: int) -> dict[str, torch.Tensor]:
    """Returns codes [n, row bytes] u8, scales and mins [n, groups] f32."""
    flip, moved = _FLIPS[bits, "u8" if codes.dtype == torch.uint8 else "i8"]
    scales, zps = scales.squeeze(-1).float(), zps.squeeze(-1).float()
    return {"codes": codes.view(torch.uint8) ^ flip, "scales": scales, "mins": (moved - zps) * scales}


def of_values(codes: Value, scales: Value, zps: Value, bits: int) -> dict[str, Value]:
    """The same as operations, added where the insertion point is."""
    flip, moved = _FLIPS[bits, VTensor.parse(codes.type).dtype]
    codes = _as_bytes(codes)
    if flip:
        byte = Attribute.parse(f"dense<{flip}> : tensor<ui8>")
        literal = Operation.create(
            "torch.vtensor.literal", results=[VTensor((), "u8").torch_type], attributes={"value": byte}
        )
        codes = torch_dialect.aten_bitwise_xor_Tensor(codes.type, codes, literal.result)
    scales, zps = _floats(scales), _floats(zps)
    one = torch_dialect.constant_int(1)
    mins = torch_dialect.aten_rsub_Scalar(zps.type, zps, torch_dialect.constant_int(moved), one)
    mins = torch_dialect.aten_mul_Tensor(scales.type, scales, mins)
    return {"codes": codes, "scales": scales, "mins": mins}


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
