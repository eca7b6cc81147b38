# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loops of everything that a model does outside our calls, made fit for the vectorizer.

Float matmuls (attention is made of them) are cut into tiles that fit the registers and vectorized here; all else is
fused into few loops, which LLVM vectorizes once it may reorder the sums among them.
"""

from __future__ import annotations

from torch_mlir.dialects import linalg
from torch_mlir.dialects.transform import interpreter
from torch_mlir.ir import (
    Attribute,
    Block,
    InsertionPoint,
    IntegerAttr,
    IntegerType,
    Module,
    Operation,
    ShapedType,
    UnitAttr,
)

from .pipelines import run, walk

# Of reductions: their order is open. Inf and NaN keep their meaning: softmax starts its maximum at -inf.
_FASTMATH = "#arith.fastmath<reassoc,nsz,contract>"
# A tile of 6 x 16 floats takes 12 of 16 registers of AVX2.
_ROWS, _COLUMNS, _DEPTH = 6, 16, 8
_MATMULS = {"linalg.matmul": 2, "linalg.batch_matmul": 3}

_SEQUENCE = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: !transform.any_op {{transform.readonly}}) {{
{body}
    transform.yield
  }}
}}"""

_TILE = """
    %{op} = transform.structured.match ops{{["{name}"]}} attributes{{qmm.rows = {rows}}} in %module
        : (!transform.any_op) -> !transform.any_op
    transform.foreach %{op} : !transform.any_op {{
    ^bb0(%matmul: !transform.any_op):
      %tiled, %loops:{count} = transform.structured.tile_using_for %matmul tile_sizes {sizes} interchange = {order}
        : (!transform.any_op) -> (!transform.any_op, {types})
    }}"""

_VECTORIZE = """
    %functions = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    %tiles = transform.structured.match attributes{qmm.tile} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %tiles : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.cast_away_vector_leading_one_dim
      transform.apply_patterns.vector.sink_ops
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.canonicalization
    } : !transform.any_op"""

_LOWER_VECTORS = """
    %functions = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_transpose lowering_strategy = "shuffle_1d"
      transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
      transform.apply_patterns.canonicalization
    } : !transform.any_op"""


def optimize_tensors(module: Module) -> None:
    """Before bufferization: tiles and vectorizes matmuls, fuses the rest."""
    _widen_late(module)
    _relax_reductions(module)
    _tile(module)
    run(module, "func.func(scf-for-loop-peeling, scf-for-loop-canonicalization, canonicalize, cse)", "peeling loops")
    _vectorize(module)
    run(
        module,
        """func.func(
            loop-invariant-subset-hoisting, canonicalize, cse, loop-invariant-code-motion,
            linalg-generalize-named-ops, linalg-fuse-elementwise-ops, canonicalize, cse)""",
        "fusing loops",
    )


def optimize_buffers(module: Module) -> None:
    """After bufferization: breaks vectors down to what a register holds."""
    _transform(module, _LOWER_VECTORS)


def loop_over_strided_copies(module: Module) -> None:
    """Makes loops of the copies that would else call MLIR's runtime library, which compiled code does not link."""
    with module.context, module.operation.location:
        for operation in list(walk(module.operation)):
            if operation.name == "memref.copy" and any("strided" in str(v.type) for v in operation.operands):
                with InsertionPoint(operation):
                    linalg.copy(operation.operands[0], outs=[operation.operands[1]])
                operation.erase()


def _widen_late(module: Module) -> None:
    """Lets matmuls of few rows read a right side of a narrower type as it is, where the program widens it before.

    They use each of its elements a few times only: widening them anew costs less than to write and read them once more.
    """
    with module.context, module.operation.location:
        for operation in list(walk(module.operation)):
            if operation.name in _MATMULS and _rows(operation) < _ROWS:
                left, right, result = operation.operands
                if _is_widening(right.owner):
                    build = getattr(linalg, operation.name.removeprefix("linalg."))
                    with InsertionPoint(operation), operation.location:
                        product = build(left, right.owner.operands[0], outs=[result])
                    operation.results[0].replace_all_uses_with(product)
                    operation.erase()


def _is_widening(operation: Operation) -> bool:
    """Tells whether this widens a tensor element by element."""
    if isinstance(operation, Block) or operation.name != "linalg.generic":
        return False
    body = [inner.name for inner in operation.regions[0].blocks[0].operations]
    maps = {str(indexing_map) for indexing_map in operation.attributes["indexing_maps"]}
    return body == ["arith.extf", "linalg.yield"] and len(operation.operands) == 2 and len(maps) == 1


def _rows(matmul: Operation) -> int:
    """Returns the rows of its tiles."""
    extent = ShapedType(matmul.results[0].type).get_dim_size(_MATMULS[matmul.name] - 2)
    return _ROWS if extent == ShapedType.get_dynamic_size() else max(1, min(_ROWS, extent))


def _relax_reductions(module: Module) -> None:
    """Before fusion, which puts elementwise arithmetic, to be kept as it is, into the same loops."""
    with module.context:
        flags = Attribute.parse(_FASTMATH)
        for operation in walk(module.operation):
            if operation.name in _MATMULS or _reduces(operation):
                for inner in walk(operation):
                    if "fastmath" in inner.attributes:
                        inner.attributes["fastmath"] = flags


def _reduces(operation: Operation) -> bool:
    iterators = operation.attributes.get("iterator_types")
    return operation.name.startswith("linalg.") and "reduction" in str(iterators)


def _tile(module: Module) -> None:
    kinds = set()
    with module.context:
        for operation in walk(module.operation):
            if operation.name in _MATMULS:
                rows = _rows(operation)
                operation.attributes["qmm.rows"] = IntegerAttr.get(IntegerType.get_signless(64), rows)
                kinds.add((operation.name, rows))
    body = ""
    for i, (name, rows) in enumerate(sorted(kinds)):
        sizes = [1] * (_MATMULS[name] - 2) + [rows, _COLUMNS, _DEPTH]
        types = ", ".join(['!transform.op<"scf.for">'] * len(sizes))
        # Accumulators stay in registers along the depth; a few rows rather read the right side once, as it lies there.
        batch = len(sizes) - 3
        inner = [0, 1, 2] if rows == _ROWS else [0, 2, 1]
        order = [*range(batch), *(batch + i for i in inner)]
        body += _TILE.format(
            op=f"kind{i}", name=name, rows=rows, count=len(sizes), sizes=sizes, order=order, types=types
        )
    _transform(module, body)


def _vectorize(module: Module) -> None:
    # Peeling left whole tiles, whose shapes are static, and remainders, which stay loops.
    with module.context:
        for operation in walk(module.operation):
            if operation.name in _MATMULS and all(ShapedType(v.type).has_static_shape for v in operation.operands):
                operation.attributes["qmm.tile"] = UnitAttr.get()
    _transform(module, _VECTORIZE)


def _transform(module: Module, body: str) -> None:
    with module.context, module.operation.location:
        script = Module.parse(_SEQUENCE.format(body=body))
        interpreter.apply_named_sequence(module, script.body.operations[0], script)
