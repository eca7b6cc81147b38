# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C++ pass (abi/mlir, MLIR 19) against the lowering on torch-mlir's bindings: the same ops, the same calls."""

import re
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.ir import Context, Module

import libqmm
import libqmm.jax
import libqmm.mlir
import test_mlir_modules as modules
from compiled import QMM_OPT, Compiled, compile_by_qmm_opt, qmm_opt
from libqmm.mlir import pipelines
from libqmm.mlir.contract import legalize
from libqmm.mlir.lowering import _load_torch_conversion_dialect, copy_strided_operands, lower_ops
from libqmm.mlir.packing import Blobs

ROOT = Path(__file__).parents[2]


def function(name, operands, result):
    """A function of one op. Operands are types of tensors, integers, strings, or None."""
    arguments = {f"%t{i}": f"!torch.vtensor<{o}>" for i, o in enumerate(operands) if isinstance(o, str) and o[0] == "["}
    lines, values, types = [], [], []
    for i, operand in enumerate(operands):
        if f"%t{i}" in arguments:
            value, kind = f"%t{i}", arguments[f"%t{i}"]
        elif operand is None:
            value, kind = f"%none{i}", "!torch.none"
            lines.append(f"{value} = torch.constant.none")
        elif isinstance(operand, int):
            value, kind = f"%int{i}", "!torch.int"
            lines.append(f"{value} = torch.constant.int {operand}")
        else:
            value, kind = f"%str{i}", "!torch.str"
            lines.append(f'{value} = torch.constant.str "{operand}"')
        values.append(value)
        types.append(kind)
    parameters = ", ".join(f"{value}: {kind}" for value, kind in arguments.items())
    result = f"!torch.vtensor<{result}>"
    lines.append(f'%y = torch.operator "{name}"({", ".join(values)}) : ({", ".join(types)}) -> {result}')
    body = "\n  ".join([*lines, f"return %y : {result}"])
    return f"func.func @forward({parameters}) -> {result} {{\n  {body}\n}}\n"


PACKED, EMBEDDING = "torch.quantized.matmul.packed", "torch.quantized.embedding.packed"


def grouped(x="[?,64],f32", scale="f16", zeros=None, mins=None, bits=4, result="[?,48],f32", n=48):
    codes = f"[{n},{64 * bits // 8}],ui8"
    operands = [x, codes, f"[{n},2],{scale}", zeros, bits, 32, mins, "s8"]
    return function("torch.quantized.matmul.grouped", operands, result)


def group_quant(codes, x="[?,64],f32", scale="f32", n=48, result="[?,48],f32"):
    bits = int(codes[1])
    sides = f"[{n},2,1],{scale}"
    operands = [x, f"[{n},{64 * bits // 8}],{codes[0]}i8", sides, sides, bits, 32]
    return function("quant.matmul_rhs_group_quant", operands, result)


MODULES = {
    "static": function(PACKED, ["[5,64],f32", "[1344],ui8", 32, "f32"], "[5,32],f32"),
    "dynamic": function(PACKED, ["[?,?],f32", "[?],ui8", 32, "s8"], "[?,32],f32"),
    "TorchScript's name": function("quantized.matmul.packed", ["[?,64],f32", "[?],ui8", 32, "s8"], "[?,32],f32"),
    "the RFC's name": function("quantized.matmul", ["[?,64],f32", "[?],ui8", 32, "s8_token"], "[?,32],f32"),
    "rank 1": function(PACKED, ["[64],f32", "[?],ui8", 32, "f32"], "[32],f32"),
    "rank 3": function(PACKED, ["[2,3,64],f32", "[?],ui8", 32, "f32"], "[2,3,32],f32"),
    "rank 4, dynamic": function(PACKED, ["[?,2,?,64],f32", "[?],ui8", 32, "f32"], "[?,2,?,32],f32"),
    "less known of the result": function(PACKED, ["[5,64],f32", "[?],ui8", 32, "f32"], "[?,?],f32"),
    "f16": function(PACKED, ["[?,64],f16", "[?],ui8", 32, "f32"], "[?,32],f16"),
    "bf16, rank 3": function(PACKED, ["[2,?,64],bf16", "[?],ui8", 32, "f32"], "[2,?,32],bf16"),
    "symmetric": grouped(),
    "zeros": grouped(scale="f32", zeros="[48,2],si8"),
    "mins": grouped(scale="bf16", mins="[48,2],bf16"),
    "8 bits, any n": grouped(bits=8, n="?", result="[?,?],f32", zeros="[?,2],si8"),
    "grouped, rank 3": grouped(x="[2,?,64],f32", n="?", result="[2,?,?],f32"),
    "group quant": group_quant("u4"),
    "group quant, 4 bits, signed": group_quant("s4", scale="f16"),
    "group quant, 8 bits, unsigned": group_quant("u8", x="[?,3,64],f16", result="[?,3,48],f16"),
    "group quant, 8 bits, any n": group_quant("s8", scale="bf16", n="?", result="[?,?],f32"),
    "embedding": function(EMBEDDING, ["[?],si64", "[?],ui8", 64], "[?,64],f32"),
    "embedding, rank 0": function(EMBEDDING, ["[],si64", "[?],ui8", 64], "[64],f32"),
    "embedding, rank 2": function(EMBEDDING, ["[2,?],si32", "[?],ui8", 64], "[2,?,64],f32"),
}


def parse(text) -> Module:
    context = Context()
    torch_dialect.register_dialect(context)
    with context:
        _load_torch_conversion_dialect()
    return Module.parse(text, context)


def by_cpp(text) -> Module:
    """Through the C++ pass, as text, and back into torch-mlir."""
    generic = parse(text).operation.get_asm(print_generic_op_form=True)
    lowered = qmm_opt(generic, "--qmm-lower-ops", "--mlir-print-op-generic")
    return parse(lowered.replace('"bufferization.to_memref"', '"bufferization.to_buffer"'))  # renamed after MLIR 19


def by_python(text) -> Module:
    module = parse(text)
    lower_ops(module, Blobs(None))
    return module


def attributes_of(operation) -> dict[str, str]:
    return {name: str(operation.attributes[name]) for name in sorted(operation.attributes)}


def describe(value) -> tuple:
    """What computes a value: an argument, or the operation, its attributes and its operands."""
    owner = value.owner
    if not hasattr(owner, "operands"):
        return "argument", value.arg_number, str(value.type)
    return owner.name, str(value.type), attributes_of(owner), [describe(operand) for operand in owner.operands]


def calls(module) -> list:
    """Declarations of entry points, and the calls of them with all that computes their operands."""
    pipelines.run(module, pipelines.LINALG, "lowering to linalg")
    pipelines.run(module, pipelines.BUFFERIZE, "placing tensors in memory")
    copy_strided_operands(module)
    pipelines.run(module, pipelines.INLINE, "inlining functions")
    found = []
    for operation in pipelines.walk(module.operation):
        attributes = attributes_of(operation)
        if operation.name == "func.func" and attributes["sym_name"].startswith('"qmm_'):
            found.append(attributes)
        elif operation.name == "func.call":
            found.append((attributes, [describe(operand) for operand in operation.operands]))
    return sorted(found, key=str)


@pytest.mark.parametrize("name", MODULES)
def test_both_leave_the_same_calls(name):
    mine, theirs = (calls(lower(MODULES[name])) for lower in (by_cpp, by_python))
    assert len(mine) == 2
    assert mine == theirs


@pytest.mark.parametrize("name", MODULES)
def test_the_pipeline_of_mlir_19_needs_no_torch_mlir(name):
    generic = parse(MODULES[name]).operation.get_asm(print_generic_op_form=True)
    text = qmm_opt(generic, "--qmm-lower-to-llvm")
    assert "llvm.call @_mlir_ciface_qmm_" in text
    assert "torch" not in text


def test_both_say_the_same():
    bad = [
        function(PACKED, ["[?,64],f32", "[?],ui8", 32, "s4"], "[?,32],f32"),
        function(PACKED, ["[?,64],f32", "[3,3],ui8", 32, "s8"], "[?,32],f32"),
        function(PACKED, ["[?,64],f32", "[?],ui8", -1, "s8"], "[?,32],f32"),
        function(EMBEDDING, ["[?],si16", "[?],ui8", 64], "[?,64],f32"),
        grouped(bits=8, zeros="[47,2],si8"),
        grouped(scale="f64"),
        grouped(zeros="[48,2],si8", mins="[48,2],f16"),
    ]
    for text in bad:
        generic = parse(text).operation.get_asm(print_generic_op_form=True)
        done = subprocess.run(
            [QMM_OPT, "--allow-unregistered-dialect", "--qmm-lower-ops"], input=generic, capture_output=True, text=True
        )
        assert done.returncode == 1
        with pytest.raises(ValueError, match="quantized::") as error:
            by_python(text)
        assert f"error: {error.value}\n" in done.stderr


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_group_quant_has_the_same_bits(tmp_path, bits, dtype):
    """Weights that are arguments, constants, and constants with integer zero points; and zero points alone constant."""
    n, k = 20, 72
    rng = np.random.default_rng(0)
    codes = torch.from_numpy(rng.integers(0, 256, (n, k * bits // 8)).astype(np.uint8)).view(dtype)
    scales = torch.from_numpy(rng.uniform(0.5, 1.5, (n, 3, 1))).half()
    fractions, integers = torch.rand(n, 3, 1).half(), torch.from_numpy(rng.integers(0, 8, (n, 3, 1))).half()
    cases = [
        (False, fractions, [codes, scales, fractions]),
        (True, fractions, []),
        (True, integers, []),
        (["zps"], integers, [codes, scales]),
    ]
    text = ""
    for i, (constant, zps, _) in enumerate(cases):
        function = modules.group_quant("[?,72],f32", 32, bits, codes, scales, zps, constant=constant)
        text += function.replace("@forward", f"@f{i}")

    module = parse(text)
    libqmm.mlir.compile(module, tmp_path / "python.so")
    legalize(module)
    mine = compile_by_qmm_opt(tmp_path, module.operation.get_asm(print_generic_op_form=True))
    theirs, x = Compiled(tmp_path / "python.so"), modules.x_of(3, k)
    for i, (*_, given) in enumerate(cases):
        results = [getattr(by, f"f{i}")([(torch.float32, 2)], x, *given)[0] for by in (mine, theirs)]
        assert torch.equal(*results), i
        assert results[0].any()
    text = (tmp_path / "passes.mlir").read_text()
    called = re.findall(r"call @(qmm_\w+)\(", text)
    assert called == ["qmm_matmul_grouped_f32", "qmm_matmul_packed", "qmm_matmul_packed", "qmm_matmul_grouped_f32"]
    blobs = re.findall(r"llvm\.mlir\.global .*\{.*alignment = (\d+).*\} : !llvm\.array<(\d+) x i8>", text)
    assert [alignment for alignment, size in blobs if int(size) > n * k // 2] == ["64", "64"]


@pytest.mark.parametrize("lhs", ["f32", "s8"])
def test_text_of_jax_gives_the_bits_of_xla(tmp_path, lhs):
    w = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    packed = libqmm.pack(libqmm.quantize(w, bits=4, group=32))
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    x[1] *= np.float32(1e-38)  # subnormals among them, which XLA flushes and libqmm does not
    x[2] *= np.float32(1e-42)
    layer = jax.jit(lambda x, packed: libqmm.jax.quantized_matmul(x, packed, n=32, lhs=lhs))
    module = layer.lower(x, packed).compiler_ir("stablehlo")

    compiled = compile_by_qmm_opt(tmp_path, module.operation.get_asm(print_generic_op_form=True))
    (y,) = compiled.main([(torch.float32, 2)], torch.from_numpy(x), torch.from_numpy(packed))
    assert lhs != "f32" or y.numpy().any(axis=1).all()  # an lhs of 8 bits takes rows too small to scale for zeros
    assert y.numpy().tobytes() == np.asarray(layer(x, packed)).tobytes()


def readme(language, section="### Plain MLIR, and C ahead of time") -> str:
    text = (ROOT / "README.md").read_text().split(section)[1]
    (block, *_) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return block


APP = """\
#include <qmm/qmm.h>
#include <stdio.h>
#include <stdlib.h>
void _mlir_ciface_linear(qmm_memref_f32_2d* y, const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* packed);
int main(int argc, char** argv) {
  static float x[3 * 64];
  static int8_t bytes[1 << 16];
  FILE* file = fopen(argv[argc - 1], "rb");
  int64_t size = (int64_t)fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (int i = 0; i < 3 * 64; ++i) x[i] = (float)(i % 13) - 6;
  qmm_memref_f32_2d rows = {x, x, 0, {3, 64}, {64, 1}}, y;
  qmm_memref_i8_1d packed = {bytes, bytes, 0, {size}, {1}};
  _mlir_ciface_linear(&y, &rows, &packed);
  fwrite(y.aligned, sizeof(float), (size_t)(y.sizes[0] * y.sizes[1]), stdout);
  free(y.allocated);
  return 0;
}
"""


def test_the_example_of_the_readme(tmp_path):
    def run(*command, **kwargs):
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, **kwargs).stdout

    (tmp_path / "linear.mlir").write_text(readme("mlir"))
    (tmp_path / "app.c").write_text(APP)
    head = "cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES C)\nadd_executable(app app.c)\n"
    (tmp_path / "CMakeLists.txt").write_text(head + readme("cmake"))
    run("cmake", "--install", QMM_OPT.parents[2], "--prefix", tmp_path / "prefix")
    run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}")
    run("cmake", "--build", "build")

    w = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    packed = libqmm.pack(libqmm.quantize(w, bits=4, group=32))
    packed.tofile(tmp_path / "packed.bin")
    x = np.array([i % 13 - 6 for i in range(3 * 64)], np.float32).reshape(3, 64)
    assert run("build/app", "packed.bin") == libqmm.matmul(x, packed, lhs="s8").tobytes()

    # By the plugin as by qmm-opt.
    options = ["linear.mlir", "--allow-unregistered-dialect", "--pass-pipeline=builtin.module(qmm-lower-to-llvm)"]
    plugin = f"--load-pass-plugin={QMM_OPT.parent / 'libqmm_mlir.so'}"
    assert run("mlir-opt-19", *options, plugin) == run(QMM_OPT, *options)
