# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the native SmolLM2: packs the weights, compiles the programs, links the executable.

Outputs go to build/smollm2, or to the folder that the environment variable SMOLLM2_BUILD names. What is up to date is
kept: beside each output lies the hash of all that it was made from.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

import libqmm
import libqmm.gguf
from checkpoint import BLOCK, CHUNK, CONTEXT, MATRICES, NORMS, PART, ROOM, Config, cache_dtype, gguf_path
from libqmm.ops import LHS_KINDS
from tokenizer import read_tokenizer

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "abi" / "include"
PACKAGE = Path(libqmm.__file__).parent
FOLDER = Path(os.environ.get("SMOLLM2_BUILD", HERE.parents[1] / "build" / "smollm2"))


@dataclass(frozen=True)
class Built:
    executable: Path
    weights: Path
    tokenizer: Path  # of the package tokenizers


def build(lhs: str = "s8", folder: Path = FOLDER, cpu: str = "native") -> Built:
    """Makes what is missing in `folder` for programs that quantize activations as `lhs` says, compiled for `cpu`."""
    if lhs not in LHS_KINDS:
        raise ValueError(f"lhs is {lhs!r}; it must be one of {', '.join(map(repr, LHS_KINDS))}")
    model, library = gguf_path(), libqmm._c.library_path
    programs = folder / (lhs if cpu == "native" else f"{lhs}-{cpu}")
    programs.mkdir(parents=True, exist_ok=True)
    weights, tokenizer = folder / "weights.bin", folder / "tokenizer.json"
    objects = [programs / "decode.o", programs / "prefill.o"]
    config_header, executable = programs / "model.h", programs / "smollm2"

    model_key = [str(model), model.stat().st_size, model.stat().st_mtime_ns]
    sources = [
        PACKAGE / "ops.py",
        PACKAGE / "torch.py",
        *sorted((PACKAGE / "mlir").glob("*.py")),
        *_here("model", "programs"),
    ]
    versions = [importlib.metadata.version(name) for name in ("torch", "torch-mlir", "gguf")]
    steps = [
        _Step(
            "packing weights",
            [weights],
            [*model_key, *map(_hash, [library, PACKAGE / "gguf.py", *_here("weights", "checkpoint")])],
            lambda: _pack(weights),
        ),
        _Step(
            "reading the tokenizer",
            [tokenizer],
            [*model_key, importlib.metadata.version("tokenizers"), *map(_hash, _here("tokenizer"))],
            lambda: read_tokenizer(_file()).save(str(tokenizer)),
        ),
        *(
            _Step(
                f"compiling {output.stem} ({lhs})",
                [output, output.with_suffix(".h")],
                [
                    lhs,
                    versions,
                    cpu,
                    _this_cpu() if cpu == "native" else "",
                    *map(_hash, [*sources, *_here("checkpoint")]),
                ],
                lambda output=output: _compile(lhs, output, cpu),
            )
            for output in objects
        ),
        _Step(
            "linking",
            [config_header, executable],
            lambda: [
                str(library),
                *map(_hash, [library, INCLUDE / "qmm/qmm.h", *objects, *HERE.glob("*.cc"), *HERE.glob("*.h")]),
            ],
            lambda: _link(lhs, objects, library, config_header, executable),
        ),
    ]
    with tqdm(steps, bar_format="{desc} [{n}/{total}, {elapsed}]", leave=False, disable=None) as bar:
        for step in bar:
            bar.set_description_str(step.name)
            step.run()
    return Built(executable, weights, tokenizer)


@dataclass(frozen=True)
class _Step:
    name: str
    outputs: list[Path]
    inputs: list | Callable[[], list]  # called where they are outputs of an earlier step
    make: Callable[[], None]

    def run(self) -> None:
        inputs = self.inputs() if callable(self.inputs) else self.inputs
        key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
        record = self.outputs[0].with_name(self.outputs[0].name + ".key")
        if record.exists() and record.read_text() == key and all(output.exists() for output in self.outputs):
            return
        record.unlink(missing_ok=True)
        self.make()
        record.write_text(key)


def _here(*names: str) -> list[Path]:
    return [HERE / f"{name}.py" for name in names]


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _this_cpu() -> str:
    """What the code generator sees of this CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.processor()


@functools.cache
def _file() -> libqmm.gguf.File:
    return libqmm.gguf.File(gguf_path())  # takes seconds: the vocabulary


def _pack(output: Path) -> None:
    import weights

    count = 2 + Config.of(_file()).layers * (len(MATRICES) + len(NORMS))
    blobs = list(tqdm(weights.blobs(_file()), "packing weights", count, leave=False, disable=None))
    partial = output.with_suffix(".partial")
    weights.write(partial, blobs)
    partial.replace(output)


def _compile(lhs: str, output: Path, cpu: str) -> None:
    import libqmm.mlir
    from programs import export  # imports torch, which takes seconds

    libqmm.mlir.compile(export(Config.of(_file()), lhs, output.stem), output, cpu=cpu)


def _link(lhs: str, objects: list[Path], library: Path, header: Path, executable: Path) -> None:
    header.write_text(_model_header(Config.of(_file()), lhs))
    compiler = next(
        (c for c in (os.environ.get("CXX"), "c++", "g++", "clang++-19", "clang++") if c and shutil.which(c)), None
    )
    if compiler is None:
        raise RuntimeError("no C++ compiler is installed; one is needed to link the executable")
    command = [compiler, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    command += [f"-I{INCLUDE}", f"-I{header.parent}", str(HERE / "main.cc"), *map(str, objects)]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-lm", "-o", str(executable)]
    command += ["-Wl,--wrap=_mlir_ciface_qmm_matmul_packed"]  # profile.h measures it
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")


def _model_header(config: Config, lhs: str) -> str:
    numbers = {
        "kLayers": config.layers,
        "kWidth": config.width,
        "kKvHeads": config.kv_heads,
        "kShared": config.shared,
        "kHeadDim": config.head_dim,
        "kVocabulary": config.vocabulary,
        "kContext": CONTEXT,
        "kChunk": CHUNK,
        "kPart": PART,
        "kBlock": BLOCK,
        "kRoom": ROOM,
        "kStopToken": config.stop_token,
    }
    constants = "\n".join(f"inline constexpr int64_t {name} = {value};" for name, value in numbers.items())
    matrices = ", ".join(f'Matrix{{"{name}", {n}, {k}}}' for name, (n, k) in config.matrices.items())
    norms = ", ".join(f'"{name}"' for name in NORMS)
    cache = cache_dtype(lhs)
    element = {"f32": "float", "f16": "uint16_t"}[cache]
    return f"""\
// Written by build.py: what decode.o and prefill.o were compiled for.
#pragma once

#include <qmm/qmm.h>

#include <array>
#include <cstdint>

#include "decode.h"
#include "prefill.h"

namespace smollm2 {{
{constants}
inline constexpr int32_t kLhs = QMM_LHS_{lhs.upper()};

// The KV cache.
using CacheElement = {element};
using CacheMatrix = qmm_tensor_{cache}_2d;
using CacheCube = qmm_tensor_{cache}_3d;

struct Matrix {{
  const char* name;
  int64_t n, k;
}};
inline constexpr std::array kMatrices = {{{matrices}}};
inline constexpr std::array kNorms = {{{norms}}};
}}  // namespace smollm2
"""


if __name__ == "__main__":
    for kind in sys.argv[1:] or ["s8"]:
        print(build(kind).executable)
