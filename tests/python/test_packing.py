# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constant weights: packed when a program is compiled, once each, aligned and run in place, or in a file beside it."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import libqmm
import libqmm.mlir
import libqmm.torch
from compiled import Compiled

quantized = torch.ops.quantized
F32_2D = (torch.float32, 2)
N, K = 48, 72


def x_of(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def weights_of(bits=4, offset="zeros", scale_dtype="f16", seed=0, n=N):
    w = np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)
    return libqmm.quantize(w, bits, 32, offset, scale_dtype)


class Canonical(nn.Module):
    """A layer that holds canonical weights."""

    def __init__(self, weights, lhs="s8"):
        super().__init__()
        self.form = weights.bits, weights.group
        self.lhs = lhs
        scales = torch.from_numpy(weights.scales)
        bf16 = weights.scales.dtype == np.uint16
        self.codes = nn.Buffer(torch.from_numpy(weights.codes))
        self.scales = nn.Buffer(scales.view(torch.bfloat16) if bf16 else scales)
        self.zeros = None if weights.zeros is None else nn.Buffer(torch.from_numpy(weights.zeros))
        mins = None if weights.mins is None else torch.from_numpy(weights.mins)
        self.mins = None if mins is None else nn.Buffer(mins.view(torch.bfloat16) if bf16 else mins)

    def forward(self, x):
        return quantized.matmul.grouped(x, self.codes, self.scales, self.zeros, *self.form, self.mins, self.lhs)


def places(path: Path, blob: np.ndarray) -> list[int]:
    """Where a blob stands in a file."""
    data, found, at = path.read_bytes(), [], -1
    while (at := data.find(blob.tobytes(), at + 1)) >= 0:
        found.append(at)
    return found


def undefined(path: Path) -> set[str]:
    printed = subprocess.run(["nm", "-u", path], capture_output=True, text=True, check=True).stdout
    return set(printed.split()) - {"U", "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("scale_dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("offset", ["symmetric", "zeros", "mins"])
@pytest.mark.parametrize("bits", [4, 8])
def test_canonical_constants_are_packed(tmp_path, bits, offset, scale_dtype):
    weights = weights_of(bits, offset, scale_dtype)
    model, x = Canonical(weights), x_of(3, K)
    libqmm.mlir.compile(torch.export.export(model, (x,)), tmp_path / "model.so")
    (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], x)
    assert torch.equal(got, model(x))
    (place,) = places(tmp_path / "model.so", libqmm.pack(weights))
    assert place % 64 == 0
    assert not places(tmp_path / "model.so", weights.codes)


class Computed(nn.Module):
    """Weights that the program computes of what it holds."""

    def __init__(self, weights):
        super().__init__()
        self.codes = nn.Buffer(torch.from_numpy(weights.codes).flip(0))
        self.scales = nn.Buffer(torch.from_numpy(weights.scales.astype(np.float32)).T.contiguous())
        self.zeros = nn.Buffer(torch.from_numpy(weights.zeros.astype(np.int32)))

    def forward(self, x):
        scales, zeros = self.scales.T.half(), torch.cat([self.zeros[:, :1], self.zeros[:, 1:]], 1).to(torch.int8)
        return quantized.matmul.grouped(x, self.codes.flip(0), scales, zeros, 4, 32)


def test_weights_computed_of_constants_are_packed(tmp_path):
    weights = weights_of(4, "zeros")
    model, x = Computed(weights), x_of(3, K)
    libqmm.mlir.compile(torch.export.export(model, (x,)), tmp_path / "model.so")
    (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], x)
    assert torch.equal(got, model(x))
    (place,) = places(tmp_path / "model.so", libqmm.pack(weights))
    assert place % 64 == 0


def test_packed_weights_among_other_bytes(tmp_path):
    """A column of a matrix, with zeros after the weights, which are cut to their size."""
    packed = libqmm.pack(weights_of())
    padded = np.zeros(len(packed) + 64, np.uint8)
    padded[: len(packed)] = packed

    class Column(nn.Module):
        def __init__(self):
            super().__init__()
            self.columns = nn.Buffer(torch.from_numpy(np.stack([padded, padded], 1)))

        def forward(self, x):
            return quantized.matmul.packed(x, self.columns[:, 1], N)

    model, x = Column(), x_of(3, K)
    libqmm.mlir.compile(torch.export.export(model, (x,)), tmp_path / "model.so")
    (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], x)
    assert torch.equal(got, quantized.matmul.packed(x, torch.from_numpy(packed), N))


def test_long_chains_of_constants_are_computed_once(tmp_path):
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.codes = nn.Buffer(torch.from_numpy(weights_of().codes))
            self.scales = nn.Buffer(torch.ones(N, 3))

        def forward(self, x):
            scales = self.scales
            for _ in range(64):  # twice as much each time, if values that are used twice were computed twice
                scales = scales * scales
            return quantized.matmul.grouped(x, self.codes, scales, None, 4, 32)

    model, x = Chain(), x_of(3, K)
    libqmm.mlir.compile(torch.export.export(model, (x,)), tmp_path / "model.so")
    (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], x)
    assert torch.equal(got, model(x))


def test_random_weights_are_none_of_the_program(tmp_path):
    class Random(nn.Module):
        def forward(self, x, codes):
            return quantized.matmul.grouped(x, codes, torch.rand_like(torch.ones(8, 3)), None, 4, 32)

    arguments = x_of(3, K), torch.from_numpy(weights_of(n=8).codes)
    libqmm.mlir.compile(torch.export.export(Random(), arguments), tmp_path / "model.so")
    assert "_mlir_ciface_qmm_matmul_grouped_f32" in undefined(tmp_path / "model.so")


def test_a_blob_is_there_once_and_read_in_place(tmp_path):
    weights = weights_of()
    packed = torch.from_numpy(libqmm.pack(weights))

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.canonical, self.linear = Canonical(weights), libqmm.torch.QuantizedLinear(packed, lhs="f32")
            self.table = nn.Buffer(packed.clone())

        def forward(self, x):
            rows = quantized.embedding.packed(torch.arange(2), self.table, K)
            return self.canonical(x), self.linear(x), rows

    model, x = Both(), x_of(3, K)
    programs = {"one": torch.export.export(model, (x,)), "two": torch.export.export(model, (x[:1],))}
    libqmm.mlir.compile(programs, tmp_path / "model.so")
    libqmm.mlir.compile(programs["one"], tmp_path / "object.o")
    for name, rows in (("one", x), ("two", x[:1])):
        got = getattr(Compiled(tmp_path / "model.so"), name)([F32_2D] * 3, rows)
        for result, want in zip(got, model(rows), strict=True):
            assert torch.equal(result, want)
    assert len(places(tmp_path / "model.so", packed.numpy())) == 1
    allowed = {"_mlir_ciface_qmm_matmul_packed", "_mlir_ciface_qmm_rows_packed", "malloc", "free"}
    assert undefined(tmp_path / "object.o") <= allowed  # no memcpy


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.small, self.large = Canonical(weights_of(seed=1, n=8)), Canonical(weights_of(8, seed=2))

    def forward(self, x, twice: int):
        return self.large(x), self.small(x) * twice, self.large(x + 1)


def test_outputs_that_would_share_a_header_are_refused(tmp_path):
    program = torch.export.export(nn.Identity(), (x_of(2, 3),))
    (tmp_path / "model.o").write_bytes(b"")
    sentence = r"^model\.o lies beside model\.so, and model\.h would describe both; give another stem$"
    with pytest.raises(FileExistsError, match=sentence):
        libqmm.mlir.compile(program, tmp_path / "model.so")
    assert [path.name for path in tmp_path.iterdir()] == ["model.o"]


def compile_with_file(tmp_path, name="model.so"):
    model, x = Two(), x_of(3, K)
    small, large = (libqmm.pack(layer) for layer in (weights_of(seed=1, n=8), weights_of(8, seed=2)))
    program = torch.export.export(model, (x, 3), dynamic_shapes=(None, torch.export.Dim.DYNAMIC))
    libqmm.mlir.compile(program, tmp_path / name, max_embedded=len(small))
    return model, x, small, large


def test_large_weights_go_to_a_file(tmp_path):
    model, x, small, large = compile_with_file(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.h", "model.packed", "model.so"]
    assert places(tmp_path / "model.packed", large) == [64]
    assert (tmp_path / "model.packed").stat().st_size == 64 + len(large)
    assert not places(tmp_path / "model.so", large)
    assert len(places(tmp_path / "model.so", small)) == 1
    header = (tmp_path / "model.h").read_text()
    assert "the file model.packed" in header

    (tmp_path / "elsewhere").mkdir()
    for name in ("model.so", "model.packed"):
        shutil.move(tmp_path / name, tmp_path / "elsewhere" / name)
    compiled = Compiled(tmp_path / "elsewhere" / "model.so")
    for _ in range(2):
        for result, want in zip(compiled.forward([F32_2D] * 3, x, 5), model(x, 5), strict=True):
            assert torch.equal(result, want)


class Some(nn.Module):
    """Layers of different sizes, in some order."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        return [layer(x) for layer in self.layers]


def test_a_file_of_several_blobs(tmp_path):
    """Entries find each blob, at a multiple of 64 whatever the sizes, in an order other than that of the file."""
    weights = [weights_of(8, "symmetric", "f16", seed, n) for seed, n in enumerate((5, 21, 40))]
    a, b, c = map(Canonical, weights)
    models, x = {"one": Some(a, b), "two": Some(c, b, a)}, x_of(3, K)
    programs = {name: torch.export.export(model, (x,)) for name, model in models.items()}
    libqmm.mlir.compile(programs, tmp_path / "model.so", max_embedded=0)
    for name, model in models.items():
        got = getattr(Compiled(tmp_path / "model.so"), name)([F32_2D] * len(model.layers), x)
        for result, want in zip(got, model(x), strict=True):
            assert torch.equal(result, want)
    found = [places(tmp_path / "model.packed", libqmm.pack(w)) for w in weights]
    assert all(len(at) == 1 and at[0] % 64 == 0 for at in found)


def test_files_of_the_same_size_are_told_apart(tmp_path):
    x = x_of(3, K)
    for name, seed in (("a", 1), ("b", 2)):
        program = torch.export.export(Canonical(weights_of(seed=seed)), (x,))
        libqmm.mlir.compile(program, tmp_path / f"{name}.so", max_embedded=0)
    a, b = ((tmp_path / f"{name}.packed").read_bytes() for name in "ab")
    assert len(a) == len(b)
    assert a[16:24] == b[16:24]
    assert a[:64] != b[:64]  # which is compared


def test_a_square_and_its_transpose_are_two_constants(tmp_path):
    class Square(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.from_numpy(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
            self.t = self.w.T

        def forward(self, x):
            return x @ self.w, x @ self.t

    model, x = Square(), x_of(3, 8)
    libqmm.mlir.compile(torch.export.export(model, (x,)), tmp_path / "model.so")
    for result, want in zip(Compiled(tmp_path / "model.so").forward([F32_2D] * 2, x), model(x), strict=True):
        torch.testing.assert_close(result, want)


def test_the_name_of_a_file_may_hold_any_character(tmp_path):
    model, x, _, large = compile_with_file(tmp_path, 'a"b\\c{d}\n%41.so')
    (path,) = tmp_path.glob("*.so")
    assert places(path.with_suffix(".packed"), large) == [64]
    for result, want in zip(Compiled(path).forward([F32_2D] * 3, x, 5), model(x, 5), strict=True):
        assert torch.equal(result, want)


def test_weights_are_the_same_file_each_time(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        compile_with_file(tmp_path / name)
    assert (tmp_path / "a/model.packed").read_bytes() == (tmp_path / "b/model.packed").read_bytes()


def test_a_file_that_does_not_fit_is_refused(tmp_path):
    """By the entry, each time that it is called; the default handler aborts."""
    compile_with_file(tmp_path)
    script = f"""
import ctypes, re
from compiled import Compiled
from test_packing import *
path = Path({str(tmp_path / "model.packed")!r})
good = path.read_bytes()
library, compiled = ctypes.CDLL(str(libqmm._c.library_path)), Compiled(path.with_suffix(".so"))
seen = []
handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)(lambda c, s, t: seen.append(t))
library.qmm_set_error_handler(handler, None)
for content, sentence in (
    (good[:-1], "model.packed has [0-9]+ bytes; the code was compiled with [0-9]+"),
    (good + b"0", "model.packed has"),
    (b"", "model.packed has 0 bytes"),
    (bytes([1]) + good[1:], "model.packed holds other weights"),
    (None, "model.packed: No such file or directory"),
):
    path.write_bytes(content) if content is not None else path.unlink()
    compiled._library._mlir_ciface_forward(None, None, 5)
    assert re.search(sentence, seen.pop().decode()) and not seen, sentence
library.qmm_set_error_handler(None, None)
print("refused", flush=True)
compiled._library._mlir_ciface_forward(None, None, 5)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr
    assert done.returncode == -signal.SIGABRT
    assert "libqmm: qmm_map_packed_file: " in done.stderr
    assert "model.packed: No such file" in done.stderr


def test_an_executable_finds_its_file(tmp_path):
    model, x, _, _ = compile_with_file(tmp_path, "model.o")
    (tmp_path / "x.h").write_text(f"static float x[3 * {K}] = {{{', '.join(f'{v:.9g}f' for v in x.flatten())}}};\n")
    (tmp_path / "main.c").write_text(
        f"""
#include <stdio.h>
#include "model.h"
#include "x.h"
int main(void) {{
  qmm_tensor_f32_2d in = {{x, x, 0, {{3, {K}}}, {{{K}, 1}}}};
  forward_results out;
  _mlir_ciface_forward(&out, &in, 5);
  fwrite(out.result0.aligned, sizeof(float), (size_t)(out.result0.sizes[0] * out.result0.sizes[1]), stdout);
  return 0;
}}
"""
    )
    library = libqmm._c.library_path
    flags = ["-Wall", "-Wextra", "-Werror", "-o", "main", f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["cc", "main.c", "model.o", str(library), "-lm", *flags], cwd=tmp_path, check=True)
    for call in ([tmp_path / "main"], ["env", f"PATH={tmp_path}", "main"]):
        done = subprocess.run(call, cwd="/", capture_output=True, check=True)
        assert done.stdout == model(x, 5)[0].numpy().tobytes()


@pytest.mark.parametrize("size", ["1", 1.5])
def test_a_size_that_is_no_integer_is_refused(tmp_path, size):
    program = torch.export.export(Canonical(weights_of()), (x_of(3, K),))
    with pytest.raises(ValueError, match=f"max_embedded is {size!r}; it must be a number of bytes or None"):
        libqmm.mlir.compile(program, tmp_path / "model.o", max_embedded=size)


def test_a_negative_size_is_refused(tmp_path):
    program = torch.export.export(Canonical(weights_of()), (x_of(3, K),))
    with pytest.raises(ValueError, match="max_embedded is -1; it must not be negative"):
        libqmm.mlir.compile(program, tmp_path / "model.o", max_embedded=-1)


def test_zeros_that_no_code_can_have_are_refused(tmp_path):
    model = Canonical(weights_of())
    model.zeros += 20
    program = torch.export.export(model, (x_of(3, K),))
    with pytest.raises(ValueError, match=r"quantized::matmul\.grouped: .*zero"):
        libqmm.mlir.compile(program, tmp_path / "model.o")
    assert not any(tmp_path.iterdir())
