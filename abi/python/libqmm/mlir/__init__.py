# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ahead-of-time compilation of PyTorch programs that use libqmm's ops, through torch-mlir.

    program = torch.export.export(model, (x, packed))
    libqmm.mlir.compile(program, "model.o")   # and model.h; link with libqmm
    libqmm.mlir.compile(program, "model.so")  # and model.h; needs libqmm.so at run time

torch-mlir generates the code. Beside it, objcopy is needed, and a C compiler to link a shared library.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_decomp_util import get_decomposition_table
from torch_mlir.extras.fx_importer import FxImporter
from torch_mlir.ir import Context, Module

from . import loops, pipelines
from .custom_calls import lower_to_custom_calls
from .entries import Entry, _check_packed, import_entry, keep_memory_apart, own_results
from .exponential import expand_exp, interleave_exp
from .header import header
from .lowering import copy_strided_weights, lower_ops
from .names import is_c_name
from .objects import CPUS, write_object, write_shared_library

__all__ = ["EXTRA_LIBRARY", "compile", "stablehlo"]

# For pipelines of torch-mlir, their option extra-library: shape, dtype and value semantics functions of our ops.
EXTRA_LIBRARY = Path(__file__).with_name("libqmm.mlir")


def compile(
    program: torch.export.ExportedProgram | Mapping[str, torch.export.ExportedProgram],
    output: str | Path,
    *,
    name: str = "forward",
    cpu: str = "native",
) -> None:
    """Compiles exported programs to native code.

    program  one program, whose entry is called `name`; or several that share the output, by the names of their entries
    output   *.o: an object file to link with libqmm; *.so: a shared library, linked with the libqmm.so of this package.
             A C header that declares the entries, their shapes and who frees what is written beside it
    cpu      "native": the CPU that compiles; or "x86-64", "x86-64-v2", "x86-64-v3" (AVX2) or "x86-64-v4" (AVX-512): all
             of that level. What libqmm computes is up to libqmm, which looks at the CPU when it runs

    An argument that forward assigns to (`cache[:, pos:end] = k`) is written in place. Parameters and buffers become
    constants of the compiled code. Extents and integers that are dynamic in the program stay arguments.

    Our ops give the bits that they give in eager mode. Elementwise arithmetic is IEEE's, each operation rounded by
    itself, with exp (f32) within 2 units in the last place. Sums are relaxed: reductions, matmuls and convolutions are
    added up in any order, their products may be fused into the additions, and zeros among them may change sign.

    ValueError where arguments of our ops do not fit, with the op and its shapes: packed weights that the program holds
    are opened here, those that are arguments at every call, which stops the process. NotImplementedError, with its
    name, for an op that can not be compiled.
    """
    output = Path(output)
    if output.suffix not in (".o", ".so"):
        raise ValueError(f"output is {output.name!r}; it must end in .o or .so")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output.parent} is not a folder")
    programs = program if isinstance(program, Mapping) else {name: program}
    for entry_name in programs:
        if not is_c_name(entry_name) or entry_name.startswith("qmm_"):
            raise ValueError(
                f"{entry_name!r} can not name an entry; it must be an identifier of C, not one of libqmm's"
            )
    if cpu not in CPUS:
        raise ValueError(f"cpu is {cpu!r}; it must be one of {', '.join(map(repr, CPUS))}")
    if not programs:
        raise ValueError("there is no program to compile")

    module, entries = _import(programs)
    _to_llvm(module, entries)
    # In a folder beside the output, so that a compilation that fails leaves what was there before.
    with tempfile.TemporaryDirectory(prefix=".", dir=output.parent) as folder:
        code = Path(folder) / output.name
        (write_object if output.suffix == ".o" else write_shared_library)(module, entries, code, cpu)
        code.with_suffix(".h").write_text(header(output.stem, entries))
        for path in (code, code.with_suffix(".h")):
            path.replace(output.with_name(path.name))


def _import(programs: Mapping[str, torch.export.ExportedProgram]) -> tuple[Module, list[Entry]]:
    context = Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    entries = [import_entry(importer, name, program) for name, program in programs.items()]
    return importer.module, entries


def _to_llvm(module: Module, entries: list[Entry]) -> None:
    pipelines.run(module, pipelines.CONTRACT.format(extra_library=EXTRA_LIBRARY), "decomposing the program")
    lower_ops(module)
    pipelines.run(module, pipelines.LINALG, "lowering to linalg")
    copy_strided_weights(module)
    keep_memory_apart(module, entries)
    loops.optimize_tensors(module)
    pipelines.run(module, pipelines.BUFFERIZE, "placing tensors in memory")
    loops.optimize_buffers(module)
    own_results(module, entries)
    pipelines.run(module, pipelines.DEALLOCATE, "freeing memory")
    loops.loop_over_strided_copies(module)
    pipelines.run(module, pipelines.LOOPS, "lowering to loops")
    expand_exp(module)
    pipelines.run(module, pipelines.LLVM, "lowering to LLVM")
    interleave_exp(module)


def stablehlo(program: torch.export.ExportedProgram) -> tuple[str, list[torch.Tensor]]:
    """Returns an exported program as StableHLO, in text, for XLA's CPU client, and the tensors that the program holds.

    The function @main of the text takes these, as XLA would copy and fold them in the program, and then the arguments
    of the program. It returns its results as a flat list. Our ops are the custom calls that qmm/xla.h describes.

    NotImplementedError for a program that assigns to its arguments or buffers, has extents that are known at run time
    only, or an op, which is named, that torch-mlir does not convert to StableHLO. ValueError where arguments of our ops
    do not fit, with the op and its shapes.
    """
    program = program.run_decompositions(get_decomposition_table())
    _check_packed(program)
    graph, signature = program.graph, program.graph_signature
    for output in signature.output_specs:
        if output.kind != OutputKind.USER_OUTPUT:
            raise NotImplementedError(f"forward assigns to {output.target!r}; XLA's programs only return results")
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor) or not all(isinstance(extent, int) for extent in value.shape):
            shown = list(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise NotImplementedError(f"argument {node.name} is {shown}; XLA takes tensors whose extents are known")

    context = Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    importer.import_stateless_graph(graph)
    module = importer.module
    pipelines.run(module, pipelines.CONTRACT.format(extra_library=EXTRA_LIBRARY), "decomposing the program")
    lower_to_custom_calls(module)
    pipelines.run(module, "torch-backend-to-stablehlo-backend-pipeline", "lowering to StableHLO")
    state = {**program.state_dict, **program.constants}
    held = [state[spec.target] for spec in signature.input_specs if spec.kind != InputKind.USER_INPUT]
    return str(module), held
