# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The extra library for torch-mlir: tells its pipeline that our ops compute on values.

Without these markers the pipeline refuses the ops. Shape and dtype functions are not needed: results of an exported
program carry their shapes already, from the fake implementations of the same table.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ops import Op

_MARKER = """\
  func.func private @"__torch_mlir_has_value_semantics_fn.{name}"() -> !torch.none {{
    %none = torch.constant.none
    return %none : !torch.none
  }}
"""


def extra_library(ops: Iterable[Op]) -> str:
    """Returns the library for `ops` as MLIR text."""
    return "module {\n" + "".join(_MARKER.format(name=op.mlir_name) for op in ops) + "}\n"
