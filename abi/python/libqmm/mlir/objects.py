# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Object files and shared libraries from a module in the LLVM dialect, by the code generator in torch-mlir's wheel."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.ir import Attribute, Module, Operation, StringAttr, UnitAttr

from .. import _c
from .entries import Entry
from .pipelines import walk

_PREFIX = "_mlir_ciface_"
# What code may be generated for: this CPU, or any that has what a level of the x86-64 psABI asks for.
CPUS = (
    "native",
    *(("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4") if platform.machine() in ("x86_64", "AMD64") else ()),
)


def write_object(module: Module, entries: list[Entry], path: Path, cpu: str) -> None:
    """Writes position-independent code for one of CPUS. Only `_mlir_ciface_<entry>` is visible to the linker."""
    _check_translated(module)
    defined = {_name(function) for function in _functions(module)}
    names = {_PREFIX + entry.symbol: _PREFIX + entry.name for entry in entries}
    # Where there is a function of the entry's name already, it is the entry.
    names = {name if name in defined else symbol: name for symbol, name in names.items()}
    with module.context:
        for function in _functions(module):
            name = _name(function)
            if name in names:
                function.attributes["sym_name"] = StringAttr.get(names[name])
            elif not _is_declaration(function):
                function.attributes["linkage"] = Attribute.parse("#llvm.linkage<internal>")
                function.attributes["always_inline"] = UnitAttr.get()
            if cpu != "native":
                function.attributes["target_cpu"] = StringAttr.get(cpu)
                # Beside those of `cpu`, none; without this, those of the CPU that compiles.
                function.attributes["target_features"] = Attribute.parse("#llvm.target_features<[]>")

    try:
        engine = ExecutionEngine(module, opt_level=3, enable_object_dump=True, enable_pic=True)
    except RuntimeError as error:
        raise RuntimeError(f"LLVM can not translate {', '.join(names.values())}: {error}") from error
    # The engine generates code on the first look-up and wants an address for every symbol, though nothing is run here.
    outside = [_name(function) for function in _functions(module) if _is_declaration(function)]
    for name in outside:
        if name.startswith((_PREFIX, "qmm_")):
            engine.raw_register_runtime(name, ctypes.c_void_p(1))
    if not engine.raw_lookup(_PREFIX + entries[0].name):
        called = ", ".join(name for name in outside if not name.startswith((_PREFIX, "qmm_")))
        raise RuntimeError(f"LLVM generated no code; a function that it calls may be missing here: {called}")
    engine.dump_to_object_file(str(path))
    # Beside each entry the engine puts one for calls from Python.
    keep = [f"--keep-global-symbol={name}" for name in names.values()]
    _run([_tool("objcopy", "llvm-objcopy"), *keep, str(path)])


def write_shared_library(module: Module, entries: list[Entry], path: Path, cpu: str) -> None:
    """Links the object with libqmm's shared library, the one that this package loads."""
    library = _c.library_path
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "entries.o"
        write_object(module, entries, code, cpu)
        command = [_tool("cc", "gcc", "clang"), "-shared", "-Wl,-z,defs", "-o", str(path), str(code)]
        _run([*command, str(library), f"-Wl,-rpath,{library.parent}", "-lm"])


def _check_translated(module: Module) -> None:
    left = sorted({op.name for op in walk(module.operation) if not op.name.startswith("llvm.")})
    if left:
        raise NotImplementedError(f"lowering to LLVM failed: nothing lowers {', '.join(left)}")


def _functions(module: Module) -> list[Operation]:
    return [op.operation for op in module.body.operations if op.operation.name == "llvm.func"]


def _name(function: Operation) -> str:
    return StringAttr(function.attributes["sym_name"]).value


def _is_declaration(function: Operation) -> bool:
    return len(function.regions[0].blocks) == 0


def _tool(*names: str) -> str:
    for name in names:
        if shutil.which(name):
            return name
    raise RuntimeError(f"none of {', '.join(names)} is installed; one is needed to write the output")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
