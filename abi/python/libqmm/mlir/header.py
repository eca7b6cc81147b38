# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C header that goes with compiled entries."""

from __future__ import annotations

import re

from .entries import Entry, Value

_C_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "uint16_t",  # C99 has neither: the bits
    "bf16": "uint16_t",
    "i64": "int64_t",
    "i32": "int32_t",
    "i16": "int16_t",
    "i8": "int8_t",
    "u8": "uint8_t",
    "bool": "bool",
}

_HEADER = """\
/*
 * Written by libqmm.mlir.compile: entries of compiled code. Link with libqmm.
 *
 * Tensors are passed by descriptor. Every tensor is dense and row-major: `aligned` points at its first element,
 * `offset` is 0, `sizes` is its shape and strides[i] is the product of sizes[i + 1 ...]. Shapes must be as stated: they
 * are not checked. Nor are integers that say where a tensor is read or written: a program that assigns to
 * cache[pos : pos + T] writes past the end of `cache` unless the caller keeps pos + T within its extent. A tensor that
 * is written must not overlap another. An entry reads its arguments, and writes those that are marked [in, out].
 * Results are memory that the entry allocates: pass a descriptor to fill, and when done with it
 * free(result.allocated).
{file} */
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

{structs}
#ifdef __cplusplus
extern "C" {{
#endif
{prototypes}
#ifdef __cplusplus
}}
#endif

#endif
"""

# Headers of several programs may be included together.
_STRUCT = """\
#ifndef {macro}
#define {macro}
typedef struct {name} {{
  {element}* allocated;
  {element}* aligned;
  int64_t offset;{extents}
}} {name};
#endif
"""


_FILE = """\
 *
 * Weights are read from the file {name}, in the folder of the executable or shared library that these entries are
 * linked into. The first call maps it. Where that fails, the handler of qmm_set_error_handler is called; if it
 * returns, the entry does, and leaves results as they are.
"""


def header(stem: str, entries: list[Entry], file: str | None) -> str:
    """Returns the text of the header for `entries`, to be saved as <stem>.h; `file` holds their weights."""
    tensors = {
        (value.dtype, len(value.shape))
        for entry in entries
        for value in entry.arguments + entry.results
        if value.shape is not None
    }
    return _HEADER.format(
        file=_FILE.format(name=file) if file else "",
        guard="QMM_COMPILED_" + re.sub(r"\W", "_", stem).upper() + "_H",
        structs="\n".join(_struct(dtype, rank) for dtype, rank in sorted(tensors)),
        prototypes="".join(map(_entry, entries)),
    )


def _struct_name(dtype: str, rank: int) -> str:
    return f"qmm_tensor_{dtype}_{rank}d"


def _struct(dtype: str, rank: int) -> str:
    name = _struct_name(dtype, rank)
    extents = f"\n  int64_t sizes[{rank}];\n  int64_t strides[{rank}];" if rank else ""
    return _STRUCT.format(macro=name.upper(), name=name, element=_C_TYPES[dtype], extents=extents)


def _type(value: Value) -> str:
    return _C_TYPES[value.dtype] if value.shape is None else _struct_name(value.dtype, len(value.shape))


def _entry(entry: Entry) -> str:
    results = [_type(result) for result in entry.results]
    struct, returned, parameters = "", "void", []
    if len(results) == 1 and entry.results[0].shape is None:
        returned = results[0]
    elif len(results) == 1:
        parameters = [f"{results[0]}* result"]
    elif results:
        members = "".join(f"  {type} result{i};\n" for i, type in enumerate(results))
        struct = f"\ntypedef struct {entry.name}_results {{\n{members}}} {entry.name}_results;\n"
        parameters = [f"{entry.name}_results* results"]
    for i, argument in enumerate(entry.arguments):
        type = _type(argument)
        if argument.shape is not None:
            type = type + "*" if i in entry.written else f"const {type}*"
        parameters.append(f"{type} {argument.name}")
    joined = ",\n    ".join(parameters) or "void"
    prototype = f"{returned} _mlir_ciface_{entry.name}(\n    {joined});\n"
    return f"{struct}\n/**\n{_describe(entry)} */\n{prototype}"


def _describe(entry: Entry) -> str:
    lines = [
        f"@param {'[in, out] ' if i in entry.written else ''}{argument.name}  {_spell(argument)}"
        for i, argument in enumerate(entry.arguments)
    ]
    for i, result in enumerate(entry.results):
        name = "result" if len(entry.results) == 1 else f"result{i}"
        lines.append(f"@return {name}  {_spell(result)}{'' if result.shape is None else ', to be freed by the caller'}")
    return f" * {entry.name}\n" + "".join(f" * {line}\n" for line in [*lines, *entry.ranges])


def _spell(value: Value) -> str:
    return value.dtype if value.shape is None else f"{value.dtype} [{', '.join(value.shape)}]"
