# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ahead-of-time compilation of programs that use libqmm's ops, through torch-mlir.

    program = torch.export.export(model, (x, packed))
    libqmm.mlir.compile(program, "model.o")   # and model.h; link with libqmm
    libqmm.mlir.compile(program, "model.so")  # and model.h; needs libqmm.so at run time

    module = torch_mlir.ir.Module.parse(text, context)  # with torch.operator "quantized.matmul" and the like
    libqmm.mlir.compile(module, "model.so")

torch-mlir generates the code. Beside it, objcopy is needed, and a C compiler to link a shared library. Whoever runs
torch-mlir's passes by hand gives them EXTRA_LIBRARY, the path of a file with the shape, dtype and value semantics
functions of our ops, as their option extra-library.
"""

from __future__ import annotations

import io
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
from .contract import EXTRA_LIBRARY, legalize, legalize_exported
from .custom_calls import lower_to_custom_calls
from .entries import Entry, import_entry, keep_memory_apart, module_entries, own_results
from .exponential import expand_exp, interleave_exp
from .header import header
from .lowering import copy_strided_operands, lower_ops
from .names import is_c_name
from .objects import CPUS, write_object, write_shared_library
from .packing import Blobs, Literals

__all__ = ["EXTRA_LIBRARY", "compile", "stablehlo"]


def compile(
    program: torch.export.ExportedProgram | Mapping[str, torch.export.ExportedProgram] | Module,
    output: str | Path,
    *,
    name: str = "forward",
    cpu: str = "native",
    max_embedded: int | None = None,
) -> None:
    """Compiles programs to native code.

    program  an exported program, whose entry is called `name`; or several that share the output, by the names of their
             entries; or a module of torch-mlir, which is not changed: each of its public functions is an entry. These
             are functions on torch tensors, or methods of a TorchScript module with its classes
    output   *.o: an object file to link with libqmm; *.so: a shared library, linked with the libqmm.so of this package.
             A C header that declares the entries, their shapes and who frees what is written beside it. What a former
             compilation wrote is replaced; FileExistsError where the other kind of output of that stem is there
    cpu      "native": the CPU that compiles; or "x86-64", "x86-64-v2", "x86-64-v3" (AVX2) or "x86-64-v4" (AVX-512): all
             of that level. What libqmm computes is up to libqmm, which looks at the CPU when it runs
    max_embedded  the most bytes that constant weights of our ops, packed, may have to be embedded. Those that have more
             go to a file beside the output, "model.packed" for "model.so", which has to lie beside the binary that the
             code is part of when it runs, and is mapped. Object files of one binary need different stems. None: all
             are embedded

    An argument that forward assigns to (`cache[:, pos:end] = k`) is written in place. Parameters and buffers become
    constants of the compiled code. Extents and integers that are dynamic in the program stay arguments.

    Constant weights of our ops are packed now, each once, and read where they lie. Canonical weights that are arguments
    are packed at every call, some rows at a time. So are, and not counted by max_embedded, those that the program
    computes of its arguments, or of constants by ops with arguments that can not be given by position (`a + b`, for its
    alpha), and 4-bit ones of which neither x nor a group of a whole row tells whether k is odd.

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
    sibling = output.with_suffix({".o": ".so", ".so": ".o"}[output.suffix])
    if sibling.exists():
        raise FileExistsError(
            f"{sibling.name} lies beside {output.name}, and {output.stem}.h would describe both; give another stem"
        )
    if cpu not in CPUS:
        raise ValueError(f"cpu is {cpu!r}; it must be one of {', '.join(map(repr, CPUS))}")
    if not isinstance(max_embedded, int | None):
        raise ValueError(f"max_embedded is {max_embedded!r}; it must be a number of bytes or None")
    if max_embedded is not None and max_embedded < 0:
        raise ValueError(f"max_embedded is {max_embedded}; it must not be negative")
    if isinstance(program, Module):
        module, entries = _functions(program)
    else:
        module, entries = _import(program if isinstance(program, Mapping) else {name: program})
    blobs = Blobs(max_embedded)
    _to_llvm(module, entries, blobs)
    file = output.with_suffix(".packed").name if blobs.has_file else None
    if file:
        blobs.bind(module, [(f"_mlir_ciface_{e.name}", f"_mlir_ciface_{e.symbol}") for e in entries], file)
    # In a folder beside the output, so that a compilation that fails leaves what was there before.
    with tempfile.TemporaryDirectory(prefix=".", dir=output.parent) as folder:
        code = Path(folder) / output.name
        (write_object if output.suffix == ".o" else write_shared_library)(module, entries, code, cpu)
        code.with_suffix(".h").write_text(header(output.stem, entries, file))
        if file:
            blobs.write(code.with_name(file))
        for path in Path(folder).iterdir():
            path.replace(output.with_name(path.name))


def _check_names(names: list[str]) -> None:
    for name in names:
        if not is_c_name(name) or name.startswith("qmm_"):
            raise ValueError(f"{name!r} can not name an entry; it must be an identifier of C, not one of libqmm's")
    if not names:
        raise ValueError("there is no program to compile")


def _import(programs: Mapping[str, torch.export.ExportedProgram]) -> tuple[Module, list[Entry]]:
    _check_names(list(programs))
    context = Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context, hooks=Literals())
    entries = [import_entry(importer, name, program) for name, program in programs.items()]
    legalize_exported(importer.module)
    return importer.module, entries


def _functions(module: Module) -> tuple[Module, list[Entry]]:
    copy = io.BytesIO()
    module.operation.write_bytecode(copy)
    module = Module.parse(copy.getvalue(), module.context)
    legalize(module)
    entries = module_entries(module)
    _check_names([entry.name for entry in entries])
    return module, entries


def _to_llvm(module: Module, entries: list[Entry], blobs: Blobs) -> None:
    lower_ops(module, blobs)
    pipelines.run(module, pipelines.LINALG, "lowering to linalg")
    keep_memory_apart(module, entries)
    loops.optimize_tensors(module)
    pipelines.run(module, pipelines.BUFFERIZE, "placing tensors in memory")
    copy_strided_operands(module)
    pipelines.run(module, pipelines.INLINE, "inlining functions")
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

    NotImplementedError for a program that assigns to its arguments or buffers, has arguments or results that are no
    tensors, extents that are known at run time only, or an op, which is named, that torch-mlir does not convert to
    StableHLO. ValueError where arguments of our ops do not fit, with the op and its shapes.
    """
    program = program.run_decompositions(get_decomposition_table())
    graph, signature = program.graph, program.graph_signature
    for output in signature.output_specs:
        if output.kind != OutputKind.USER_OUTPUT:
            raise NotImplementedError(f"forward assigns to {output.target!r}; XLA's programs only return results")
    arguments = [(f"argument {node.name}", node) for node in graph.find_nodes(op="placeholder")]
    results = [(f"result {i}", node) for i, node in enumerate(graph.output_node().args[0])]
    for name, node in [*arguments, *results]:
        value = node.meta["val"] if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor) or not all(isinstance(extent, int) for extent in value.shape):
            shown = list(value.shape) if isinstance(value, torch.Tensor) else repr(value)
            raise NotImplementedError(f"{name} is {shown}; XLA's programs have tensors whose extents are known")

    state = {**program.state_dict, **program.constants}
    held = [state[spec.target] for spec in signature.input_specs if spec.kind != InputKind.USER_INPUT]

    context = Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    importer.import_stateless_graph(graph)
    module = importer.module
    legalize_exported(module)
    lower_to_custom_calls(module, held)
    pipelines.run(module, "torch-backend-to-stablehlo-backend-pipeline", "lowering to StableHLO")
    return str(module), held
