# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""exp as arithmetic, so that the loops that use it (softmax, SiLU) vectorize: a call of libm would not.

exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer and leaves it in the
low bits. 2^n is applied in two factors, so that results go over into Inf, subnormals and 0 as they should; their
exponents are the halves of n + 2 * 127. The error is below 2 units in the last place; NaN stays NaN.
"""

from __future__ import annotations

from torch_mlir.dialects import func
from torch_mlir.ir import Attribute, F32Type, FlatSymbolRefAttr, InsertionPoint, Module

from .pipelines import walk

_NAME = "qmm.exp"
# The polynomial of Cephes' expf: exp(r) = 1 + r + r^2 p(r).
_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def expand_exp(module: Module) -> None:
    """Replaces math.exp on f32 scalars by calls of a function that LLVM inlines."""
    with module.context, module.operation.location:
        f32 = F32Type.get()
        found = [op for op in walk(module.operation) if op.name == "math.exp" and op.operands[0].type == f32]
        if not found:
            return
        for operation in found:
            with InsertionPoint(operation), operation.location:
                call = func.CallOp([f32], FlatSymbolRefAttr.get(_NAME), [operation.operands[0]])
            operation.results[0].replace_all_uses_with(call.results[0])
            operation.erase()
        function = Module.parse(_function())
        for operation in list(function.body.operations):
            operation.operation.detach_from_parent()
            module.body.append(operation)


def interleave_exp(module: Module) -> None:
    """In the LLVM dialect: lets innermost loops that call exp take two vectors at a time, which share its constants."""
    with module.context:
        callee = FlatSymbolRefAttr.get(_NAME)
        twice = Attribute.parse("#llvm.loop_annotation<interleave = <count = 2 : i32>>")
        for operation in walk(module.operation):
            if operation.name == "llvm.call" and operation.attributes["callee"] == callee:
                last = list(operation.block.operations)[-1].operation
                if last.name == "llvm.br":  # back to the condition
                    last.attributes["loop_annotation"] = twice


def _function() -> str:
    terms = [f"  %p0 = arith.constant {_POLYNOMIAL[0]:e} : f32"]
    for i, coefficient in enumerate(_POLYNOMIAL[1:]):
        terms.append(f"  %c{i} = arith.constant {coefficient:e} : f32")
        terms.append(f"  %m{i} = arith.mulf %p{i}, %r fastmath<contract> : f32")
        terms.append(f"  %p{i + 1} = arith.addf %m{i}, %c{i} fastmath<contract> : f32")
    polynomial = "\n".join(terms)
    return f"""
func.func private @{_NAME}(%x: f32) -> f32 {{
  %lowest = arith.constant -105.0 : f32
  %highest = arith.constant 89.0 : f32
  %above = arith.maximumf %x, %lowest : f32
  %within = arith.minimumf %above, %highest : f32

  %log2e = arith.constant 1.44269504 : f32
  %magic = arith.constant 12582912.0 : f32
  %quotient = arith.mulf %within, %log2e fastmath<contract> : f32
  %rounded = arith.addf %quotient, %magic fastmath<contract> : f32
  %n = arith.subf %rounded, %magic : f32
  %ln2_high = arith.constant 0.693359375 : f32
  %ln2_low = arith.constant -2.12194440e-4 : f32
  %high = arith.mulf %n, %ln2_high fastmath<contract> : f32
  %remainder = arith.subf %within, %high fastmath<contract> : f32
  %low = arith.mulf %n, %ln2_low fastmath<contract> : f32
  %r = arith.subf %remainder, %low fastmath<contract> : f32

{polynomial}
  %one = arith.constant 1.0 : f32
  %m = arith.mulf %p{len(_POLYNOMIAL) - 1}, %r fastmath<contract> : f32
  %slope = arith.addf %m, %one fastmath<contract> : f32
  %rise = arith.mulf %slope, %r fastmath<contract> : f32
  %y = arith.addf %rise, %one fastmath<contract> : f32

  %bits = arith.bitcast %rounded : f32 to i32
  %bias = arith.constant {2 * 127 - 0x4B400000} : i32
  %exponents = arith.addi %bits, %bias : i32
  %by = arith.constant 1 : i32
  %e0 = arith.shrui %exponents, %by : i32
  %e1 = arith.subi %exponents, %e0 : i32
  %mantissa = arith.constant 23 : i32
  %s0 = arith.shli %e0, %mantissa : i32
  %s1 = arith.shli %e1, %mantissa : i32
  %f0 = arith.bitcast %s0 : i32 to f32
  %f1 = arith.bitcast %s1 : i32 to f32
  %y0 = arith.mulf %y, %f0 : f32
  %y1 = arith.mulf %y0, %f1 : f32
  return %y1 : f32
}}
"""
