# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of README.md, as a reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import libqmm
from contract import assert_same_bits
from libqmm import _c
from test_jax import run_hlo

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LIBRARY = _c.library_path


def example(heading: str, language: str) -> str:
    """The only block in a language under a heading, before the next one."""
    (section,) = re.findall(rf"^#+ {heading}\n(.*?)(?=^##|\Z)", README, re.DOTALL | re.MULTILINE)
    (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return block


def test_c_example(tmp_path):
    (tmp_path / "example.c").write_text(example("From C", "c"))
    include = ROOT / "abi" / "include"
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{include}", f"-Wl,-rpath,{LIBRARY.parent}"]
    subprocess.run(["cc", *flags, "example.c", str(LIBRARY), "-o", "example"], cwd=tmp_path, check=True)
    printed = subprocess.run(["./example"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    # The same weights and activations, by numpy.
    x = np.array([[i % 7 - 3 for i in range(64)]], np.float32)
    w = np.array([(i % 11) / 10 - 0.5 for i in range(32 * 64)], np.float32).reshape(32, 64)
    y = libqmm.matmul(x, libqmm.pack(libqmm.quantize(w, bits=4, group=32)), lhs="s8")
    assert printed == "{:g} {:g} {:g} ...\n".format(*y[0])


def test_python_example(tmp_path):
    subprocess.run([sys.executable, "-c", example("From PyTorch", "python")], cwd=tmp_path, check=True)
    assert (tmp_path / "linear.so").exists()
    assert "_mlir_ciface_forward" in (tmp_path / "linear.h").read_text()


def test_jax_examples():
    names = {}
    exec(example("JAX and XLA", "python"), names)
    x = np.ones((4, 576), np.float32)
    want = libqmm.matmul(x, names["packed"], "s8")
    np.testing.assert_allclose(np.asarray(names["y"]), want / (1 + np.exp(-want)), rtol=1e-5)
    assert_same_bits(run_hlo(example("JAX and XLA", "mlir"), x, names["packed"])[0], want)
