# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The passes, stage by stage, from what torch-mlir's importer leaves to the LLVM dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch_mlir.ir import MLIRError, Module, Operation, StringAttr
from torch_mlir.passmanager import PassManager

# torch-backend-to-linalg-on-tensors-backend-pipeline without its last pass, a check that allows no func.call.
LINALG = """
    func.func(
        torch-restructure-non-constant-axes, torch-fuse-quantized-ops, convert-torch-to-tmtensor, canonicalize,
        convert-torch-to-linalg, canonicalize, convert-torch-to-scf, convert-torch-to-arith, convert-torch-to-tensor),
    convert-torch-conversion-to-mlprogram,
    func.func(memref-expand, canonicalize, resolve-shaped-type-result-dims, cse),
    torch-func-backend-type-conversion,
    func.func(canonicalize, torch-finalizing-backend-type-conversion)"""

# Arguments and results of entries are dense: no offset, no strides.
BUFFERIZE = """
    eliminate-empty-tensors, func.func(empty-tensor-to-alloc-tensor),
    one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map}"""

# Only now: bufferization takes the results of wrappers for memory of their own as long as they are calls.
INLINE = "inline, func.func(canonicalize, cse)"

# Results that are an argument written in place are dropped; every other one belongs to the caller.
DEALLOCATE = """
    drop-equivalent-buffer-results{modify-public-functions=1},
    buffer-deallocation-pipeline, convert-bufferization-to-memref"""

# Half precision by integer arithmetic: instructions for bf16 flush denormals.
LOOPS = "func.func(convert-linalg-to-loops, arith-expand{include-bf16=true})"

LLVM = """
    convert-vector-to-scf, convert-scf-to-cf, expand-strided-metadata, lower-affine,
    convert-vector-to-llvm, finalize-memref-to-llvm,
    func.func(convert-math-to-llvm), convert-math-to-libm, func.func(convert-arith-to-llvm),
    convert-index-to-llvm, convert-func-to-llvm, convert-cf-to-llvm, convert-ub-to-llvm,
    reconcile-unrealized-casts, symbol-dce"""


def run(module: Module, passes: str, doing: str) -> None:
    """Runs `passes` over `module` in place. NotImplementedError, with the op if it can be told, where one fails."""
    text = re.sub(r"\s+", " ", f"builtin.module({passes})")
    with module.context:
        try:
            PassManager.parse(text).run(module.operation)
        except MLIRError as error:
            ops = _unlowered(module, str(error))
            reason = f"nothing lowers {', '.join(ops)}" if ops else str(error)
            raise NotImplementedError(f"{doing} failed: {reason}") from error


def walk(operation: Operation) -> Iterator[Operation]:
    """Yields every operation below `operation`."""
    for region in operation.regions:
        for block in region.blocks:
            for child in block.operations:
                yield child.operation
                yield from walk(child.operation)


def _unlowered(module: Module, error: str) -> list[str]:
    """Returns the ops that made a pipeline fail: that of the message, or else all torch ops that are left."""
    named = re.search(r'"(?:torch\.operator".*?name = "([\w.]+)|(tm_tensor\.\w+))"', error)
    if named:
        return [named[1] or named[2]]
    ops = [op for op in walk(module.operation) if re.match(r"torch\.(?!constant|prim)", op.name)]
    return sorted({StringAttr(op.attributes["name"]).value if op.name == "torch.operator" else op.name for op in ops})
