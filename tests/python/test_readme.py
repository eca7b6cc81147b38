# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of README.md, as a reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import libqmm
import libqmm.torch
from compiled import Compiled
from contract import assert_same_bits
from libqmm import _c
from test_jax import run_hlo

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LIBRARY = _c.library_path


def examples(section: str, language: str) -> list[str]:
    (text,) = re.findall(rf"^#+ {section}\n(.*?)(?=^##|\Z)", README, re.DOTALL | re.MULTILINE)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_c_example(tmp_path):
    (tmp_path / "example.c").write_text(examples("From C", "c")[0])
    include = ROOT / "abi" / "include"
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{include}", f"-Wl,-rpath,{LIBRARY.parent}"]
    subprocess.run(["cc", *flags, "example.c", str(LIBRARY), "-o", "example"], cwd=tmp_path, check=True)
    printed = subprocess.run(["./example"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    # The same weights and activations, by numpy.
    x = np.array([[i % 7 - 3 for i in range(64)]], np.float32)
    w = np.array([(i % 11) / 10 - 0.5 for i in range(32 * 64)], np.float32).reshape(32, 64)
    y = libqmm.matmul(x, libqmm.pack(libqmm.quantize(w, bits=4, group=32)), lhs="s8")
    assert printed == "{:g} {:g} {:g} ...\n".format(*y[0])


def run_python(folder, section):
    for text in examples(section, "python"):
        subprocess.run([sys.executable, "-c", text], cwd=folder, check=True)


def test_python_example(tmp_path):
    run_python(tmp_path, "From PyTorch")
    assert (tmp_path / "linear.so").exists()
    assert "_mlir_ciface_forward" in (tmp_path / "linear.h").read_text()


def test_torch_mlir_examples(tmp_path):
    run_python(tmp_path, "torch-mlir")
    made = {path.name for path in tmp_path.iterdir()}
    names = ("matmul.so", "matmul.h", "group_quant.so", "group_quant.h", "linear.so", "linear.h", "linear.packed")
    assert made == set(names)
    quantized = libqmm.quantize(np.random.default_rng(0).standard_normal((1536, 576)).astype(np.float32))
    weights = torch.from_numpy(libqmm.pack(quantized))
    (y,) = Compiled(tmp_path / "matmul.so").forward([(torch.float32, 2)], torch.ones(3, 576), weights)
    assert torch.equal(y, torch.ops.quantized.matmul.packed(torch.ones(3, 576), weights, 1536, "s8"))
    codes, scales = torch.from_numpy(quantized.codes), torch.from_numpy(quantized.scales)[..., None]
    x = torch.ones(3, 576).half()
    (y,) = Compiled(tmp_path / "group_quant.so").forward([(torch.float16, 2)], x, codes, scales)
    assert torch.equal(y, torch.ops.quantized.matmul.packed(x, weights, 1536))


def test_jax_examples():
    in_jax, from_torch = ({}, {})
    for text, names in zip(examples("JAX and XLA", "python"), (in_jax, from_torch), strict=True):
        exec(text, names)
    x = np.ones((4, 576), np.float32)
    want = libqmm.matmul(x, in_jax["packed"], "s8")
    np.testing.assert_allclose(np.asarray(in_jax["y"]), want / (1 + np.exp(-want)), rtol=1e-5)
    (module,) = examples("JAX and XLA", "mlir")
    assert_same_bits(run_hlo(module, x, in_jax["packed"])[0], want)
    eager = from_torch["linear"](torch.ones(4, 576)).numpy()
    assert_same_bits(np.asarray(from_torch["y"]), eager)
