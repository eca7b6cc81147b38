# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of torch tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.ir import RankedTensorType, ShapedType, Type, Value

_SCALAR_TYPES = {"i64": 4, "f16": 5, "f32": 6, "bf16": 15}  # of torch, by number


@dataclass(frozen=True)
class VTensor:
    """What a `!torch.vtensor` type says."""

    shape: tuple  # None where an extent is not known
    dtype: str  # as the table of ops spells it

    @classmethod
    def parse(cls, type: Type) -> VTensor | None:
        match = re.fullmatch(r"!torch\.vtensor<\[([?\d,]*)\],(\w+)>", str(type))
        if match is None:
            return None
        extents = filter(None, match[1].split(","))
        dtype = re.sub("^s(?=i)|(?<=^u)i", "", match[2])  # "si8" is "i8", "ui8" is "u8"
        return cls(tuple(None if extent == "?" else int(extent) for extent in extents), dtype)

    @property
    def torch_type(self) -> Type:
        dtype = re.sub("^i", "si", self.dtype).replace("u", "ui")
        extents = ",".join("?" if extent is None else str(extent) for extent in self.shape)
        return Type.parse(f"!torch.vtensor<[{extents}],{dtype}>")

    @property
    def builtin_type(self) -> RankedTensorType:
        return ranked(self.shape, Type.parse(self.dtype.replace("u", "i")))


def ranked(shape, element: Type) -> RankedTensorType:
    """Returns a builtin tensor type; None is an extent that is not known."""
    return RankedTensorType.get([ShapedType.get_dynamic_size() if d is None else d for d in shape], element)


def convert(value: Value, type: VTensor) -> Value:
    """Converts a torch tensor to the dtype of `type`."""
    no = torch_dialect.constant_bool(False)
    dtype = torch_dialect.constant_int(_SCALAR_TYPES[type.dtype])
    return torch_dialect.aten_to_dtype(type.torch_type, value, dtype, no, no, torch_dialect.constant_none())
