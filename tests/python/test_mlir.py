# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs compiled by libqmm.mlir against the same programs in eager PyTorch: the same C ABI, so the same bits."""

import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

import libqmm
import libqmm.mlir
import libqmm.torch
from compiled import Compiled
from libqmm.mlir.entries import Entry
from libqmm.mlir.lowering import lower_ops
from libqmm.mlir.objects import write_object
from libqmm.mlir.packing import Blobs

ROOT = Path(__file__).parents[2]
F32_2D, F32_3D = (torch.float32, 2), (torch.float32, 3)
quantized = torch.ops.quantized


def packed(n=48, k=64, bits=4, group=32, offset="symmetric", seed=0) -> Tensor:
    w = np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)
    return torch.from_numpy(libqmm.pack(libqmm.quantize(w, bits, group, offset)))


def x_of(*shape, seed=1) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def build(tmp_path, model, *args, dynamic_shapes=None, name="forward") -> Compiled:
    program = torch.export.export(model, args, dynamic_shapes=dynamic_shapes)
    libqmm.mlir.compile(program, tmp_path / "model.so", name=name)
    return Compiled(tmp_path / "model.so")


def same(got, want) -> None:
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)


class Matmul(nn.Module):
    def __init__(self, n=48, lhs="f32"):
        super().__init__()
        self.n, self.lhs = n, lhs

    def forward(self, x, packed):
        return quantized.matmul.packed(x, packed, self.n, self.lhs)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("lhs", ["f32", "s8", "s8_token"])
def test_static_shape(tmp_path, lhs, bits):
    x, w = x_of(5, 64), packed(bits=bits)
    model = Matmul(lhs=lhs)
    same(build(tmp_path, model, x, w).forward([F32_2D], x, w), [model(x, w)])


@pytest.mark.parametrize("lhs", ["f32", "s8"])
def test_dynamic_rows_and_weights(tmp_path, lhs):
    model = Matmul(lhs=lhs)
    compiled = build(tmp_path, model, x_of(5, 64), packed(), dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    for rows, bits, offset in ((2, 4, "zeros"), (7, 8, "symmetric"), (129, 4, "mins")):
        x, w = x_of(rows, 64), packed(bits=bits, offset=offset)
        same(compiled.forward([F32_2D], x, w), [model(x, w)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("lhs", ["f32", "s8"])
def test_half_precision(tmp_path, lhs, dtype):
    model = Matmul(lhs=lhs)
    x, w = x_of(2, 3, 64) * torch.tensor([1, 1e-6, 1e-39])[:, None], packed()
    x = x.to(dtype)
    compiled = build(tmp_path, model, x, w, dynamic_shapes=({0: Dim.DYNAMIC}, None))
    want = model(x, w)
    if dtype == torch.bfloat16 and lhs == "f32":
        assert (want[want != 0].abs() < torch.finfo(dtype).tiny).any()
    same(compiled.forward([(dtype, 3)], x, w), [want])


@pytest.mark.parametrize("shape", [(64,), (1, 64), (2, 3, 64), (2, 1, 3, 64), (0, 64)])
def test_rank(tmp_path, shape):
    x, w, model = x_of(*shape), packed(), Matmul()
    same(build(tmp_path, model, x, w).forward([(torch.float32, len(shape))], x, w), [model(x, w)])


def test_dynamic_leading_extents(tmp_path):
    model, w = Matmul(), packed()
    dynamic = ({0: Dim("batch", min=2, max=64), 1: Dim.DYNAMIC}, None)
    compiled = build(tmp_path, model, x_of(2, 3, 64), w, dynamic_shapes=dynamic)
    for shape in ((2, 3, 64), (5, 2, 64), (3, 17, 64)):
        x = x_of(*shape)
        same(compiled.forward([F32_3D], x, w), [model(x, w)])


class Grouped(nn.Module):
    def __init__(self, bits, group):
        super().__init__()
        self.bits, self.group = bits, group

    def forward(self, x, codes, scales, zeros, mins):
        return quantized.matmul.grouped(x, codes, scales, zeros, self.bits, self.group, mins, "s8")


@pytest.mark.parametrize("scale_dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("offset", ["symmetric", "zeros", "mins"])
@pytest.mark.parametrize("bits", [4, 8])
def test_canonical_weights(tmp_path, bits, offset, scale_dtype):
    w = np.random.default_rng(2).standard_normal((24, 40)).astype(np.float32)
    weights = libqmm.quantize(w, bits, 16, offset, scale_dtype)

    def tensor(array):
        if array is None:
            return None
        return torch.from_numpy(array).view(torch.bfloat16) if array.dtype == np.uint16 else torch.from_numpy(array)

    arrays = [tensor(array) for array in (weights.codes, weights.scales, weights.zeros, weights.mins)]
    x, model = x_of(3, 40), Grouped(bits, 16)
    compiled = build(tmp_path, model, x, *arrays)
    same(compiled.forward([F32_2D], x, *(a for a in arrays if a is not None)), [model(x, *arrays)])


def test_canonical_weights_of_any_n(tmp_path):
    class AnyN(nn.Module):
        def forward(self, x, codes, scales):
            return quantized.matmul.grouped(x, codes, scales, None, 8, 8)

    def weights(n):
        generator = np.random.default_rng(n)
        codes = torch.from_numpy(generator.integers(-128, 128, (n, 16), np.int8))
        return codes, torch.from_numpy(generator.random((n, 2), np.float32))

    model, n = AnyN(), {0: Dim("n", min=2, max=1000)}
    compiled = build(tmp_path, model, x_of(2, 4, 16), *weights(5), dynamic_shapes=({1: Dim.DYNAMIC}, n, n))
    for rows, columns in ((3, 7), (9, 100)):
        x, (codes, scales) = x_of(2, rows, 16), weights(columns)
        same(compiled.forward([F32_3D], x, codes, scales), [model(x, codes, scales)])


@pytest.mark.parametrize(("shape", "dtype"), [((7,), torch.int64), ((2, 3), torch.int32), ((), torch.int64)])
def test_embedding(tmp_path, shape, dtype):
    class Embedding(nn.Module):
        def forward(self, ids, packed):
            return quantized.embedding.packed(ids, packed, 64)

    ids, w, model = (
        torch.randint(0, 48, shape, generator=torch.Generator().manual_seed(0), dtype=dtype),
        packed(bits=8),
        Embedding(),
    )
    same(build(tmp_path, model, ids, w).forward([(torch.float32, len(shape) + 1)], ids, w), [model(ids, w)])


def test_views_of_x_and_of_weights(tmp_path):
    """Offsets and strides, of arguments of our calls inside the program, that are not those of dense tensors."""

    class Views(nn.Module):
        def forward(self, x, w, blobs):
            columns = quantized.matmul.packed(x[1:, 8:72], w, 48, "s8")
            every_other = quantized.matmul.packed(x[:, ::2][::3], blobs[64:], 48)
            transposed = quantized.matmul.packed(x.t()[:, :64], w, 48, "s8")
            repeated = quantized.matmul.packed(x[0, :64].expand(3, 64), w, 48)
            return columns, every_other, transposed, repeated

    w, x, model = packed(), x_of(128, 128), Views()
    blobs = torch.cat([torch.zeros(64, dtype=torch.uint8), w])
    same(build(tmp_path, model, x, w, blobs).forward([F32_2D] * 4, x, w, blobs), model(x, w, blobs))


def every_other(t: Tensor) -> Tensor:
    """A tensor whose [..., ::2] is `t`."""
    return torch.stack([t, torch.zeros_like(t)], -1).flatten(-2)


def test_weights_with_strides_are_copied(tmp_path):
    class Views(nn.Module):
        def forward(self, x, spread, stacked, ids, codes, scales, zeros):
            return (
                quantized.matmul.packed(x, spread[::2], 48),
                quantized.matmul.packed(x, spread.view(-1, 2)[:, 0], 48),
                quantized.matmul.packed(x, stacked[1], 48),
                quantized.matmul.packed(x, stacked.t()[:, 1], 48),
                quantized.embedding.packed(ids[::2], spread[::2], 64),
                quantized.matmul.grouped(x, codes[:, ::2], scales[:, ::2], zeros[:, ::2], 8, 32),
                quantized.matmul.grouped(
                    x, codes.view(48, 64, 2)[..., 0], scales[:, ::2], zeros.view(48, 2, 2)[..., 0], 8, 32
                ),
                quantized.matmul.grouped(x, codes[::2, ::2], scales[2:26, ::2], zeros[1:25, ::2], 8, 32),
            )

    w, x, model = packed(), x_of(3, 64), Views()
    weights = libqmm.quantize(np.random.default_rng(2).standard_normal((48, 64)).astype(np.float32), 8, 32, "zeros")
    canonical = [every_other(torch.from_numpy(a)) for a in (weights.codes, weights.scales, weights.zeros)]
    arguments = x, every_other(w), torch.stack([w.flip(0), w]), torch.arange(6), *canonical
    same(build(tmp_path, model, *arguments).forward([F32_2D] * 8, *arguments), model(*arguments))


def test_views_of_x_are_not_copied(tmp_path):
    class View(nn.Module):
        def forward(self, x, packed):
            return quantized.matmul.packed(x[:, 64:], packed, 48)

    program = torch.export.export(View(), (x_of(4096, 128), packed()))
    libqmm.mlir.compile(program, tmp_path / "model.o")
    undefined = subprocess.run(["nm", "-u", tmp_path / "model.o"], capture_output=True, text=True, check=True).stdout
    assert set(undefined.split()) <= {"U", "_GLOBAL_OFFSET_TABLE_", "_mlir_ciface_qmm_matmul_packed", "malloc"}


def test_unused_results_and_repeated_calls(tmp_path):
    class Repeats(nn.Module):
        def forward(self, x, w):
            quantized.matmul.packed(x, w, 48)
            y = quantized.matmul.packed(x, w, 48, "s8")
            return y, quantized.matmul.packed(x, w, 48, "s8"), y

    x, w, model = x_of(3, 64), packed(), Repeats()
    same(build(tmp_path, model, x, w).forward([F32_2D] * 3, x, w), model(x, w))


def test_packed_weights_as_a_constant(tmp_path):
    model = libqmm.torch.QuantizedLinear(packed(), x_of(48))
    x = x_of(3, 64)
    same(build(tmp_path, model, x).forward([F32_2D], x), [model(x)])


def test_results_share_no_memory_and_arguments_are_only_read(tmp_path):
    class Aliases(nn.Module):
        def forward(self, x, y):
            w = torch.slice_scatter(x, y, 0, 1, 3)
            return x, w, w, w[1:], x[2:], y.t(), w.view(-1)[3:]

    x, y, model = x_of(4, 5), x_of(2, 5, seed=2), Aliases()
    given = x.clone()
    results = model(x, y)
    same(build(tmp_path, model, x, y).forward([(torch.float32, r.dim()) for r in results], given, y), results)
    assert torch.equal(given, x)


@pytest.mark.parametrize(
    "views",
    [
        lambda y: (y, y.view(-1)),
        lambda y: (y, y[0:2]),
        lambda y: (y.view(-1), y.unsqueeze(0)),
        lambda y: (y.unsqueeze(0), y, y[1:3], y.view(2, -1)[1], y.t()),
    ],
)
@pytest.mark.parametrize("function", [lambda x, w: x + 1, lambda x, w: quantized.matmul.packed(x, w, 48)])
def test_results_that_view_each_other_are_freed_apart(tmp_path, function, views):
    class Views(nn.Module):
        def forward(self, x, w):
            return views(function(x, w))

    x, w = x_of(4, 64), packed()
    want = Views()(x, w)
    same(build(tmp_path, Views(), x, w).forward([(torch.float32, r.dim()) for r in want], x, w), want)


def test_elementwise_arithmetic_stays_as_it_is(tmp_path):
    class Rounds(nn.Module):
        def forward(self, x, y):
            rounded = (x + 12582912.0) - 12582912.0
            return rounded, x * y + x, x / y / 3, rounded.sum(-1)

    x, y, model = x_of(3, 64) * 10, x_of(3, 64, seed=2), Rounds()
    same(build(tmp_path, model, x, y).forward([F32_2D] * 3 + [(torch.float32, 1)], x, y), model(x, y))


@pytest.mark.parametrize("name", ["main", "malloc", "free", "memcpy", "expf"])
def test_entries_may_be_called_as_functions_of_libc(tmp_path, name):
    class Exp(nn.Module):
        def forward(self, x):
            return x, torch.exp(x) + 1

    x = x_of(5)
    compiled = build(tmp_path, Exp(), x, name=name)
    copy, _ = getattr(compiled, name)([(torch.float32, 1)] * 2, x)
    assert torch.equal(copy, x)


class Cache(nn.Module):
    def forward(self, x, packed, cache, pos: int):
        end = pos + x.shape[0]
        before = cache[0] + 1
        cache[pos:end] = quantized.matmul.packed(x, packed, 48, "s8")
        return cache[:end].sum(0), cache, before


def test_arguments_are_written_in_place(tmp_path):
    dynamic = {"x": {0: Dim("tokens", min=2, max=16)}, "packed": None, "cache": None, "pos": Dim.DYNAMIC}
    model, w = Cache(), packed()
    compiled = build(tmp_path, model, x_of(4, 64), w, torch.zeros(32, 48), 3, dynamic_shapes=dynamic)
    eager, native = torch.zeros(32, 48), torch.zeros(32, 48)
    for tokens, pos in ((3, 0), (2, 3), (16, 5)):
        x = x_of(tokens, 64, seed=pos)
        want = model(x, w, eager, pos)
        total, *rest = compiled.forward([(torch.float32, 1), F32_2D, (torch.float32, 1)], x, w, native, pos)
        torch.testing.assert_close(total, want[0], rtol=1e-5, atol=1e-5)
        same([*rest, native], [*want[1:], eager])


def test_assignments_broadcast_and_convert(tmp_path):
    class Assigns(nn.Module):
        def forward(self, row, rows, cache, half, pos: int):
            end = pos + rows.shape[0]
            cache[pos:end] = row
            cache[pos:end, :2] = 1
            half[:, pos:end] = rows.T
            half[0, :] = rows[0, 0]

    dynamic = (None, {0: Dim("tokens", min=2, max=8)}, None, None, Dim.DYNAMIC)

    def state():
        return torch.zeros(16, 5), torch.zeros(5, 16, dtype=torch.float16)

    compiled = build(tmp_path, Assigns(), x_of(1, 5), x_of(3, 5), *state(), 4, dynamic_shapes=dynamic)
    for tokens, pos in ((2, 0), (8, 8), (3, 5)):
        row, rows, eager, native = x_of(1, 5), x_of(tokens, 5), state(), state()
        Assigns()(row, rows, *eager, pos)
        compiled.forward([], row, rows, *native, pos)
        same(native, eager)


def flip(a, b):
    a.copy_(a.flip(0))
    return a.sum(0)


def swap(a, b):
    kept = a.clone()
    a.copy_(b)
    b.copy_(kept)


def keep_the_old(a, b):
    old, view = a * 2, a.clone()[1:]
    a[1:3] = b[:2]
    return old + a, view, a[2:], a


def shift(a, b):
    a[1:] = a[:-1].clone()
    return b


def write_both(a, b):
    a[0] = b[0]
    b[1] = a[1]
    return a + b


def write_the_same(a, b):
    both = a + b
    a.copy_(both)
    b.copy_(both)
    return both, both[1:]


def transposed(a, b):
    a.t()[2] = b[:, 0]


def fill(a, b):
    a.zero_()
    b.fill_(torch.nan)


@pytest.mark.parametrize("function", [flip, swap, keep_the_old, shift, write_both, write_the_same, transposed, fill])
def test_assignments_to_arguments(tmp_path, function):
    class Assigns(nn.Module):
        def forward(self, a, b):
            return function(a, b)

    arguments = x_of(6, 5), x_of(6, 5, seed=2)
    compiled = build(tmp_path, Assigns(), *arguments)
    eager, native = ([a.clone() for a in arguments] for _ in range(2))
    results = function(*eager)
    results = [] if results is None else [results] if isinstance(results, Tensor) else list(results)
    got = compiled.forward([(r.dtype, r.dim()) for r in results], *native)
    for a, b in zip([*native, *got], [*eager, *results], strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)


class Attention(nn.Module):
    """What is tiled and vectorized."""

    def forward(self, q, k, v, w):
        mask = torch.arange(q.shape[1])[:, None] >= torch.arange(k.shape[1])[None]
        scores = torch.bmm(q, k.transpose(1, 2)).masked_fill(~mask, -torch.inf)
        return torch.bmm(torch.softmax(scores, -1), v) @ w


@pytest.mark.parametrize("tokens", [1, 2, 5, 16, 37, None])
def test_float_matmuls(tmp_path, tokens):
    def arguments(n):
        return x_of(3, n, 24), x_of(3, n, 24, seed=2), x_of(3, n, 24, seed=3), x_of(24, 10, seed=4)

    n = {1: Dim("tokens", min=2, max=512)}
    model, dynamic = Attention(), None if tokens else (n, n, n, None)
    compiled = build(tmp_path, model, *arguments(tokens or 9), dynamic_shapes=dynamic)
    for count in (tokens,) if tokens else (2, 3, 8, 16, 17, 90):
        (got,) = compiled.forward([F32_3D], *arguments(count))
        torch.testing.assert_close(got, model(*arguments(count)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_matmuls_of_other_dtypes(tmp_path, dtype):
    class Product(nn.Module):
        def forward(self, a, b):
            return torch.bmm(a, b), a[0] @ b[0]

    a, b = (x_of(3, 7, 20) * 5).to(dtype), (x_of(3, 20, 33, seed=2) * 5).to(dtype)
    got = build(tmp_path, Product(), a, b).forward([(dtype, 3), (dtype, 2)], a, b)
    for result, want in zip(got, Product()(a, b), strict=True):
        torch.testing.assert_close(result, want)


def test_other_layers(tmp_path):
    class Layers(nn.Module):
        def forward(self, image, w, x, v):
            attention = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
            return (
                nn.functional.conv2d(image, w, padding=1),
                torch.einsum("bhqd,bhkd->bhqk", x, attention),
                nn.functional.linear(x, v),
                nn.functional.gelu(nn.functional.layer_norm(x, (8,))),
                torch.cat([x, x[..., 1:] * 2], -1).mean(0),
            )

    arguments = x_of(1, 3, 8, 8), x_of(4, 3, 3, 3), x_of(2, 3, 5, 8), x_of(6, 8)
    want = Layers()(*arguments)
    got = build(tmp_path, Layers(), *arguments).forward([(r.dtype, r.dim()) for r in want], *arguments)
    for result, expected in zip(got, want, strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_exp(tmp_path):
    class Exp(nn.Module):
        def forward(self, x):
            return torch.exp(x)

    special = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 88.7, 88.8, -87.4, -103.0, -104.5, 1e30, -1e30]
    x = torch.cat([torch.linspace(-110, 95, 100_001), torch.tensor(special)])
    (got,) = build(tmp_path, Exp(), x).forward([(torch.float32, 1)], x)
    want = torch.exp(x.double()).float()
    assert torch.equal(got.isnan(), want.isnan())
    np.testing.assert_array_max_ulp(got[~want.isnan()].numpy(), want[~want.isnan()].numpy(), 2)


def test_scalars_and_constants(tmp_path):
    class Scalars(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.arange(4.0))
            self.register_buffer("not_saved", torch.arange(4.0) * 2, persistent=False)

        def forward(self, x, twice: int, options: dict):
            return x * twice + self.kept + self.not_saved + options["bias"], None, 7

    x, bias, model = x_of(3, 4), x_of(4), Scalars()
    compiled = build(tmp_path, model, x, 2, {"bias": bias})
    same(compiled.forward([F32_2D], x, bias), [model(x, 2, {"bias": bias})[0]])


def test_two_programs_in_one_binary(tmp_path):
    """Entries are all that the objects show to the linker; their headers go together, in C and in C++."""
    w = packed()
    for stem, shape in (("decode", (1, 64)), ("prefill", (7, 64))):
        program = torch.export.export(Matmul(lhs="s8"), (x_of(*shape), w))
        other = torch.export.export(nn.Identity(), (x_of(2),))
        libqmm.mlir.compile({f"{stem}_matmul": program, f"{stem}_copy": other}, tmp_path / f"{stem}.o")
        symbols = subprocess.run(
            ["nm", "-g", tmp_path / f"{stem}.o"], capture_output=True, text=True, check=True
        ).stdout
        defined = set(re.findall(r" [A-TV-Z] (\w+)", symbols))
        assert defined == {f"_mlir_ciface_{stem}_matmul", f"_mlir_ciface_{stem}_copy"}

    x = x_of(8, 64)
    (tmp_path / "x.h").write_text(f"static float x[8 * 64] = {{{', '.join(f'{v:.9g}f' for v in x.flatten())}}};\n")
    (tmp_path / "w.h").write_text(f"static unsigned char w[{len(w)}] = {{{', '.join(map(str, w.tolist()))}}};\n")
    (tmp_path / "main.c").write_text(
        """
#include <stdio.h>
#include <stdlib.h>
#include "decode.h"
#include "prefill.h"
#include "w.h"
#include "x.h"
int main(void) {
  qmm_tensor_u8_1d packed = {w, w, 0, {sizeof w}, {1}};
  qmm_tensor_f32_2d one = {x, x, 0, {1, 64}, {64, 1}}, seven = {x + 64, x + 64, 0, {7, 64}, {64, 1}}, y[2];
  _mlir_ciface_decode_matmul(&y[0], &one, &packed);
  _mlir_ciface_prefill_matmul(&y[1], &seven, &packed);
  for (int i = 0; i < 2; i++) {
    fwrite(y[i].aligned, sizeof(float), (size_t)(y[i].sizes[0] * y[i].sizes[1]), stdout);
    free(y[i].allocated);
  }
  return 0;
}
"""
    )
    library = libqmm._c.library_path
    want = Matmul(lhs="s8")(x, w).numpy().tobytes()
    for compiler in (["cc", "-std=c99"], ["c++", "-x", "c++"]):
        flags = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-c", "main.c", "-o", "main.o"]
        subprocess.run([*compiler, *flags], cwd=tmp_path, check=True)
        link = [
            "cc",
            "main.o",
            "decode.o",
            "prefill.o",
            str(library),
            f"-Wl,-rpath,{library.parent}",
            "-lm",
            "-o",
            "main",
        ]
        subprocess.run(link, cwd=tmp_path, check=True)
        assert subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout == want


def test_the_header_says_what_is_passed(tmp_path):
    dynamic = {"x": {0: Dim("tokens", min=2, max=16)}, "packed": None, "cache": None, "pos": Dim.DYNAMIC}
    program = torch.export.export(Cache(), (x_of(4, 64), packed(), torch.zeros(32, 48), 3), dynamic_shapes=dynamic)
    libqmm.mlir.compile(program, tmp_path / "model.o", name="step")
    header = (tmp_path / "model.h").read_text()
    assert "the caller keeps pos + T within its extent" in header
    assert "[in, out] cache  f32 [32, 48]" in header
    assert re.search(r"@param pos  i64$", header, re.MULTILINE)
    assert re.search(r"2 <= s\d+ <= 16$", header, re.MULTILINE)
    assert "void _mlir_ciface_step(" in header


def test_parameters_of_any_name_make_a_header(tmp_path):
    class Names(nn.Module):
        def forward(self, result, results, double, double_, linux, int64_t, qmm_tensor_f32_1d, ä, ö):
            return result + results, double * double_ - linux + int64_t + qmm_tensor_f32_1d + ä + ö

    class OneResult(nn.Module):
        def forward(self, result, final, delete: int):
            return result + final * delete

    x = [x_of(2, seed=i) for i in range(9)]
    programs = {
        "names": torch.export.export(Names(), tuple(x)),
        "one": torch.export.export(OneResult(), (x[0], x[1], 3), dynamic_shapes=(None, None, Dim.DYNAMIC)),
    }
    libqmm.mlir.compile(programs, tmp_path / "model.o")
    for compiler in (["gcc", "-std=gnu99"], ["c++", "-x", "c++", "-std=gnu++20"]):
        flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-include", "model.h", "/dev/null"]
        subprocess.run([*compiler, *(["-x", "c"] if compiler[0] == "gcc" else []), *flags], cwd=tmp_path, check=True)
    header = (tmp_path / "model.h").read_text()
    assert "@param delete_  i64" in header
    assert re.search(r"<= delete_\b", header)


def test_a_compilation_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    def fail(module, entries, path, cpu):
        path.write_text("half")
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(libqmm.mlir, "write_object", fail)
    before = {"model.o": "old object", "model.h": "old header"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(RuntimeError, match="the disk is full"):
        libqmm.mlir.compile(torch.export.export(nn.Identity(), (x_of(2),)), tmp_path / "model.o")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_the_temporary_folder_may_have_a_space_in_its_name(tmp_path, monkeypatch):
    (tmp_path / "a b").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a b"))
    x = x_of(2)
    same(build(tmp_path, nn.Identity(), x).forward([(torch.float32, 1)], x), [x])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels are those of x86-64")
@pytest.mark.parametrize(
    ("cpu", "vectors", "too_long", "needs"),
    [
        ("x86-64-v2", "xmm", "ymm", ()),
        ("x86-64-v3", "ymm", "zmm", ("avx2",)),
        ("x86-64-v4", "zmm", "none", ("avx512",)),
    ],
)
def test_code_for_another_cpu(tmp_path, cpu, vectors, too_long, needs):
    class Softmax(nn.Module):
        def forward(self, x, w):
            return torch.softmax(x @ w, -1)

    x, w = x_of(6, 64), x_of(64, 32)
    libqmm.mlir.compile(torch.export.export(Softmax(), (x, w)), tmp_path / "model.so", cpu=cpu)
    code = subprocess.run(["objdump", "-d", tmp_path / "model.so"], capture_output=True, text=True, check=True).stdout
    assert vectors in code
    assert too_long not in code
    if set(needs) <= set(libqmm.cpu_features()):
        (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], x, w)
        torch.testing.assert_close(got, Softmax()(x, w), rtol=1e-5, atol=1e-6)


def test_a_cpu_that_is_not_known_is_refused(tmp_path):
    program = torch.export.export(nn.Identity(), (x_of(2),))
    with pytest.raises(ValueError, match="cpu is 'pentium'; it must be one of 'native'"):
        libqmm.mlir.compile(program, tmp_path / "model.o", cpu="pentium")


@pytest.mark.parametrize("output", ["model", "model.c", "model.obj"])
def test_other_outputs_are_refused(tmp_path, output):
    program = torch.export.export(nn.Identity(), (x_of(2),))
    with pytest.raises(ValueError, match=r"must end in \.o or \.so"):
        libqmm.mlir.compile(program, tmp_path / output)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        libqmm.mlir.compile(torch.export.export(nn.Identity(), (x_of(2),)), tmp_path / "none" / "model.o")


@pytest.mark.parametrize("name", ["", "two words", "3d", "a-b", "ä", "double", "qmm_matmul_packed"])
def test_names_that_are_none_in_c_are_refused(tmp_path, name):
    program = torch.export.export(nn.Identity(), (x_of(2),))
    with pytest.raises(ValueError, match="can not name an entry"):
        libqmm.mlir.compile(program, tmp_path / "model.o", name=name)


def replace_argument(program, position, value):
    """Changes an argument of our op behind the back of torch.export, which would have refused it."""
    (node,) = [n for n in program.graph.nodes if n.op == "call_function" and "quantized" in str(n.target)]
    arguments = list(node.args)
    arguments[position] = value
    node.args = tuple(arguments)


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        (((3, 40), (24, 21), (24, 3)), r"codes \[24, 21\] do not fit x \[3, 40\]"),
        (((3, 40), (24, 20), (24, 4)), r"scales \[24, 4\] must be \[24, 3\]"),
        (((3, 40), (24, 20), (23, 3)), r"scales \[23, 3\] must be \[24, 3\]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(tmp_path, shapes, sentence):
    x, codes, scales = shapes
    arguments = torch.zeros(x), torch.zeros(codes, dtype=torch.uint8), torch.zeros(scales)
    with pytest.raises(ValueError, match=rf"quantized::matmul\.grouped: {sentence}"):
        torch.export.export(Grouped(4, 16), (*arguments, None, None))


@pytest.mark.parametrize(
    ("position", "value", "sentence"),
    [(5, 12, "group is 12"), (5, 48, "group is 48"), (4, 3, "bits is 3"), (7, "s4", "lhs is 's4'")],
)
def test_compile_checks_again(tmp_path, position, value, sentence):
    arguments = torch.zeros(3, 40), torch.zeros(24, 20, dtype=torch.uint8), torch.zeros(24, 3)
    program = torch.export.export(Grouped(4, 16), (*arguments, None, None))
    replace_argument(program, position, value)
    with pytest.raises(ValueError, match=rf"quantized::matmul\.grouped: {sentence}"):
        libqmm.mlir.compile(program, tmp_path / "model.o")
    assert not (tmp_path / "model.o").exists()


GROUPED = (
    'torch.operator "torch.quantized.matmul.grouped"(%x, %codes, %scales, %none, %bits, %group, %none, %lhs) : '
    "(!torch.vtensor<[3,40],f32>, !torch.vtensor<{codes}>, !torch.vtensor<{scales}>, !torch.none, !torch.int, "
    "!torch.int, !torch.none, !torch.str) -> !torch.vtensor<[3,24],f32>"
)


@pytest.mark.parametrize(
    ("codes", "scales", "sentence"),
    [
        ("[24,21],ui8", "[24,3],f32", r"codes \[24, 21\] do not fit x \[3, 40\]"),
        ("[24,20],ui8", "[24,4],f32", r"scales \[24, 4\] must be \[24, 3\]"),
        ("[24,20],ui8", "[23,3],f32", r"scales \[23, 3\] must be \[24, 3\]"),
        ("[24,20],ui8", "[72],f32", r"scales has rank 1, shape \[72\]"),
        ("[24,20],f32", "[24,3],f32", "codes is f32; it must be u8"),
        ("[24,20],ui8", "[24,3],f64", "scales is f64; it must be f32 or f16 or bf16"),
    ],
)
def test_the_lowering_refuses_shapes_that_do_not_fit(codes, scales, sentence):
    """torch.export and its decompositions have refused them before: this calls the lowering itself."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    module = ir.Module.parse(
        f"""
func.func @forward(%x: !torch.vtensor<[3,40],f32>, %codes: !torch.vtensor<{codes}>, %scales: !torch.vtensor<{scales}>)
    -> !torch.vtensor<[3,24],f32> {{
  %none = torch.constant.none
  %bits = torch.constant.int 4
  %group = torch.constant.int 16
  %lhs = torch.constant.str "f32"
  %y = {GROUPED.format(codes=codes, scales=scales)}
  return %y : !torch.vtensor<[3,24],f32>
}}""",
        context,
    )
    with pytest.raises(ValueError, match=rf"quantized::matmul\.grouped: {sentence}"):
        lower_ops(module, Blobs())


class Holds(nn.Module):
    def __init__(self, packed, how, call):
        super().__init__()
        self.call = call
        if how == "parameter":
            self.packed = nn.Parameter(packed, requires_grad=False)
        elif how == "constant":
            self.packed = packed
        else:
            self.register_buffer("packed", packed, persistent=how == "buffer")

    def forward(self, x):
        return self.call(x, self.packed)


@pytest.mark.parametrize("how", ["parameter", "buffer", "buffer that is not saved", "constant"])
def test_packed_weights_of_the_program_are_opened(tmp_path, how):
    def matmul(x, w):
        return quantized.matmul.packed(x, w.contiguous(), 48)

    for w, call, x, sentence in (
        (packed(), matmul, x_of(3, 32), r"quantized::matmul\.packed: the packed weights are \[48, 64\]; x \[3, 32\]"),
        (packed(n=32), matmul, x_of(3, 64), r"are \[32, 64\]; x \[3, 64\] and n = 48 need \[48, 64\]"),
        (packed()[:300], matmul, x_of(3, 64), r"quantized::matmul\.packed: packed \[300\]: .*300"),
        (
            packed(),
            lambda ids, w: quantized.embedding.packed(ids, w, 72),
            torch.arange(3),
            r"quantized::embedding\.packed: k is 72; the packed weights are \[48, 64\]",
        ),
    ):
        program = torch.export.export(Holds(w, how, call), (x,))
        with pytest.raises(ValueError, match=sentence):
            libqmm.mlir.compile(program, tmp_path / "model.o")
    assert not any(tmp_path.iterdir())
    program = torch.export.export(Holds(packed(), how, matmul), (x_of(3, 64),), dynamic_shapes=({0: Dim.DYNAMIC},))
    libqmm.mlir.compile(program, tmp_path / "model.o")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 5, 6, 13])
def test_matmuls_by_half_precision(tmp_path, rows, dtype):
    """The right side is widened before the matmul or, where rows are few, in it."""

    class Product(nn.Module):
        def forward(self, x, w, batch, u, end: int):
            return x @ w[:, :end].float(), torch.bmm(batch, u.float()), x @ w.T[:end].T.float()

    w, u = x_of(24, 50).to(dtype), x_of(2, 24, 17).to(dtype)
    x, batch = x_of(rows, 24), x_of(2, rows, 24)
    dynamic = (None, None, None, None, Dim.DYNAMIC)
    compiled = build(tmp_path, Product(), x, w, batch, u, 9, dynamic_shapes=dynamic)
    for end in (2, 33, 50):
        got = compiled.forward([F32_2D, F32_3D, F32_2D], x, w, batch, u, end)
        for result, expected in zip(got, Product()(x, w, batch, u, end), strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize(
    ("call", "shapes", "name"),
    [
        (torch.bmm, ((2, 3, 4), (2, 4, 5)), "bmm"),
        (torch.matmul, ((3, 4), (4, 5)), "mm"),
        (nn.functional.linear, ((3, 4), (5, 4)), "mm"),
        (torch.addmm, ((3, 5), (3, 4), (4, 5)), "mm"),
        (nn.functional.conv2d, ((1, 3, 8, 8), (4, 3, 3, 3)), "convolution"),
    ],
)
def test_products_of_8_bit_integers_are_refused(tmp_path, call, shapes, name, dtype):
    class Product(nn.Module):
        def forward(self, *arguments):
            return call(*arguments)

    program = torch.export.export(Product(), tuple(torch.zeros(shape, dtype=dtype) for shape in shapes))
    with pytest.raises(NotImplementedError, match=rf"aten\.{name}\.default of {dtype}"):
        libqmm.mlir.compile(program, tmp_path / "model.o")


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("math.sin %x : f32", NotImplementedError, r"nothing lowers math\.sin"),
        ("llvm.call @nowhere(%x) : (f32) -> f32", RuntimeError, "nowhere"),
    ],
)
def test_what_llvm_does_not_take_is_named(tmp_path, text, error, sentence):
    module = ir.Module.parse(
        f"""
llvm.func @nowhere(f32) -> f32
llvm.func @_mlir_ciface_entry.f(%x: f32) -> f32 {{
  %y = {text}
  llvm.return %y : f32
}}""",
        ir.Context(),
    )
    with pytest.raises(error, match=sentence):
        write_object(module, [Entry("f", (), (), (), ())], tmp_path / "model.o", "native")


def test_a_shared_library_that_lacks_a_function_is_refused(tmp_path, monkeypatch):
    def write(module, entries, path, cpu):
        source = "void nowhere(void); void entry(void) { nowhere(); }"
        subprocess.run(["cc", "-fPIC", "-c", "-x", "c", "-", "-o", path], input=source, text=True, check=True)

    monkeypatch.setattr(libqmm.mlir.objects, "write_object", write)
    with pytest.raises(RuntimeError, match="nowhere"):
        libqmm.mlir.compile(torch.export.export(nn.Identity(), (x_of(2),)), tmp_path / "model.so")
    assert not any(tmp_path.iterdir())


def test_an_op_that_nothing_lowers_is_named(tmp_path):
    @torch.library.custom_op("libqmm_test::unknown", mutates_args=())
    def unknown(x: Tensor) -> Tensor:
        return x + 1

    unknown.register_fake(torch.empty_like)

    class Unknown(nn.Module):
        def forward(self, x):
            return unknown(x)

    program = torch.export.export(Unknown(), (x_of(2),))
    with pytest.raises(NotImplementedError, match=r"libqmm_test\.unknown"):
        libqmm.mlir.compile(program, tmp_path / "model.o")


def test_a_torch_op_that_nothing_lowers_is_named(tmp_path):
    class Sort(nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    program = torch.export.export(Sort(), (x_of(3, 3),))
    with pytest.raises(NotImplementedError, match="svd"):
        libqmm.mlir.compile(program, tmp_path / "model.o")


def test_state_in_buffers_is_refused(tmp_path):
    class State(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count += x
            return self.count * 2

    program = torch.export.export(State(), (x_of(2),))
    with pytest.raises(NotImplementedError, match="'count'"):
        libqmm.mlir.compile(program, tmp_path / "model.o")


def test_weights_that_do_not_fit_stop_the_program(tmp_path):
    """Packed weights are known at run time only: the call itself refuses them."""
    program = torch.export.export(Matmul(), (x_of(3, 64), packed()), dynamic_shapes=(None, {0: Dim.DYNAMIC}))
    libqmm.mlir.compile(program, tmp_path / "model.so")
    script = f"""
import torch, libqmm.torch
from compiled import Compiled
from test_mlir import packed, x_of
Compiled({str(tmp_path / "model.so")!r}).forward([(torch.float32, 2)], x_of(3, 64), packed(k=32))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode != 0
    assert "libqmm: qmm_matmul_packed: x is [3, 64], the weights [48, 32]" in done.stderr
