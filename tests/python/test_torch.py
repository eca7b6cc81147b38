# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The torch ops: eager, compiled and exported give the bits of the contract, and refuse what does not fit."""

import numpy as np
import pytest
import torch

import contract
import libqmm
import libqmm.torch
from contract import assert_same_bits, random_weights
from libqmm.ops import OPS
from libqmm.torch import QuantizedLinear, load_gguf_linear
from test_gguf import random_blocks, write

matmul, embedding = torch.ops.quantized.matmul, torch.ops.quantized.embedding
LHS_KINDS = ("f32", "s8", "s8_token")
OFFSETS = ("symmetric", "zeros", "mins")
N, K, GROUP = 20, 72, 32


def rng():
    return np.random.default_rng(0)


def random_x(*shape):
    return torch.from_numpy(rng().standard_normal(shape).astype(np.float32))


def packed_and_weights(bits=4, offset="zeros", scale_dtype="f16", n=N, k=K, group=GROUP):
    weights = random_weights(rng(), n, k, bits, group, offset, scale_dtype)
    return torch.from_numpy(libqmm.pack(weights)), weights


def tensors(weights):
    """The arguments of matmul.grouped after x, positional up to mins."""
    scales = torch.from_numpy(weights.scales)
    scales = scales.view(torch.bfloat16) if weights.scales.dtype == np.uint16 else scales
    zeros = None if weights.zeros is None else torch.from_numpy(weights.zeros)
    mins = None if weights.mins is None else torch.from_numpy(weights.mins).view(scales.dtype)
    return torch.from_numpy(weights.codes), scales, zeros, weights.bits, weights.group, mins


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


@pytest.mark.parametrize("scale_dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_eager_gives_the_bits_of_the_contract(lhs, bits, offset, scale_dtype):
    packed, weights = packed_and_weights(bits, offset, scale_dtype)
    x = random_x(3, K)
    want = contract.matmul(x.numpy(), weights, lhs)
    assert_same_bits(matmul.packed(x, packed, N, lhs).numpy(), want)
    assert_same_bits(matmul.grouped(x, *tensors(weights), lhs).numpy(), want)
    ids = torch.tensor([[0, N - 1], [7, 7]])
    for given in (ids, ids.int()):
        assert_same_bits(embedding.packed(given, packed, K).numpy(), contract.dequantize(weights)[ids.numpy()])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_half_precision_is_widened_and_rounded_once(lhs, dtype):
    packed, weights = packed_and_weights(scale_dtype="f32")
    x = (random_x(2, 3, 2 * K) * torch.tensor([1, 1e-6, 1e-39])[:, None]).to(dtype)[..., ::2]
    want = contract.matmul(x.float().numpy().reshape(6, K), weights, lhs)
    want = torch.from_numpy(want).to(dtype).reshape(2, 3, N)
    for op, arguments in ((matmul.packed, (packed, N)), (matmul.grouped, tensors(weights))):
        got = op(x, *arguments, lhs)
        assert got.dtype == dtype
        assert torch.equal(got, want)
        assert op(x.to("meta"), *arguments, lhs).dtype == dtype


def test_the_overload_of_pytorch_is_still_there():
    assert str(torch.ops.quantized.matmul.default._schema).startswith("quantized::matmul(Tensor qa, Tensor qb, float")
    for op in (op for op in OPS if op.namespace == "quantized"):
        overload = getattr(getattr(torch.ops.quantized, op.name), op.overload)
        assert str(overload._schema).replace('"', "'") == f"{op.torch_name}{op.schema}"


@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_every_layout_of_x_gives_the_same(lhs):
    packed, weights = packed_and_weights()
    x = random_x(2, 3, K)
    want = matmul.packed(x.reshape(6, K), packed, N, lhs).reshape(2, 3, N)
    wide = torch.full((2, 3, K + 5), torch.nan)
    wide[..., 2 : K + 2] = x
    columns = torch.full((2, 3, 2 * K), torch.nan)
    columns[..., 1::2] = x
    transposed = x.transpose(0, 1).contiguous().transpose(0, 1)
    mixed = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    for layout in (x, wide[..., 2 : K + 2], columns[..., 1::2], transposed, mixed):
        assert torch.equal(layout, x)
        assert torch.equal(matmul.packed(layout, packed, N, lhs), want)
        assert torch.equal(matmul.grouped(layout, *tensors(weights), lhs), want)
    assert torch.equal(matmul.packed(x[1, 2], packed, N, lhs), want[1, 2])
    assert torch.equal(matmul.packed(x[0, :1].expand(4, K), packed, N, lhs), want[0, :1].expand(4, N))
    flat = torch.tensor(0.5).expand(2, K)
    assert torch.equal(matmul.packed(flat, packed, N, lhs), matmul.packed(flat.contiguous(), packed, N, lhs))
    for shape in ((0, K), (2, 0, K)):
        assert matmul.packed(torch.empty(shape), packed, N, lhs).shape == (*shape[:-1], N)
        assert matmul.grouped(torch.empty(shape), *tensors(weights), lhs).shape == (*shape[:-1], N)


def test_x_and_weights_are_not_copied(monkeypatch):
    packed, weights = packed_and_weights()
    x = torch.zeros(4, 3, 2 * K)[..., ::2]
    seen = []
    call = libqmm._c.qmm_matmul
    monkeypatch.setattr(libqmm._c, "qmm_matmul", lambda args: (seen.append(args), call(args)))
    matmul.packed(x, packed, N)
    assert (seen[0].x, seen[0].rhs.contents.packed) == (x.data_ptr(), packed.data_ptr())
    assert (seen[0].m, seen[0].x_row_stride, seen[0].x_col_stride) == (12, 2 * K, 2)
    codes, scales, zeros, *rest = tensors(weights)
    matmul.grouped(x, codes, scales, zeros, *rest)
    arrays = seen[1].weights.contents
    assert (arrays.codes, arrays.scales, arrays.offsets) == (codes.data_ptr(), scales.data_ptr(), zeros.data_ptr())


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this CPU can not flush denormals")
def test_flushing_denormals_changes_nothing_and_stays_set():
    packed, weights = packed_and_weights(scale_dtype="f32")
    x = random_x(3, K) * 1e-38
    want = contract.matmul(x.numpy(), weights, "f32")
    assert (np.abs(want[want != 0]) < 1.2e-38).any()
    try:
        torch.set_flush_denormal(True)
        got = matmul.packed(x, packed, N)
        flushed = torch.tensor([1e-38]) * torch.tensor([0.5])
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(got.numpy(), want)
    assert flushed.item() == 0


def test_weights_with_strides():
    packed, weights = packed_and_weights()
    spread = torch.zeros(2 * len(packed), dtype=torch.uint8)
    spread[::2] = packed
    x, ids = random_x(2, K), torch.arange(12).reshape(3, 4)
    assert torch.equal(matmul.packed(x, spread[::2], N), matmul.packed(x, packed, N))
    want = contract.dequantize(weights)[ids.t().numpy()]
    assert_same_bits(embedding.packed(ids.t(), spread[::2], K).numpy(), want)


def test_canonical_weights_with_strides():
    _, weights = packed_and_weights()
    codes, scales, zeros, bits, group, _ = tensors(weights)
    x = random_x(2, K)
    want = matmul.grouped(x, codes, scales, zeros, bits, group)
    wide = torch.full((N, 5), torch.nan, dtype=torch.float16)
    wide[:, :3] = scales
    for s, z in (
        (wide[:, :3], zeros),
        (scales.t().contiguous().t(), zeros.t().contiguous().t()),
        (scales, zeros.view(torch.uint8)),
    ):
        assert torch.equal(matmul.grouped(x, codes, s, z, bits, group), want)


def test_eight_bit_codes_are_bytes():
    _, weights = packed_and_weights(bits=8)
    codes, *rest = tensors(weights)
    x = random_x(2, K)
    want = matmul.grouped(x, codes, *rest)
    assert codes.dtype == torch.int8
    assert torch.equal(matmul.grouped(x, codes.view(torch.uint8), *rest), want)


OPCHECK = {
    "packed": lambda packed, weights: (matmul.packed, (random_x(3, K), packed, N)),
    "packed s8 rank 3": lambda packed, weights: (matmul.packed, (random_x(2, 3, K), packed, N, "s8")),
    "packed strided": lambda packed, weights: (matmul.packed, (random_x(K, 3).t(), packed, N, "s8_token")),
    "grouped": lambda packed, weights: (matmul.grouped, (random_x(3, K), *tensors(weights))),
    "grouped s8 rank 1": lambda packed, weights: (matmul.grouped, (random_x(K), *tensors(weights), "s8")),
    "embedding": lambda packed, weights: (embedding.packed, (torch.tensor([[1, 5, 5]]), packed, K)),
}


@pytest.mark.parametrize("case", OPCHECK)
def test_opcheck(case):
    op, arguments = OPCHECK[case](*packed_and_weights())
    results = torch.library.opcheck(op, arguments)
    assert results
    assert set(results.values()) == {"SUCCESS"}


class Model(torch.nn.Module):
    """All of the ops, with ordinary ones around them."""

    def __init__(self):
        super().__init__()
        packed, _ = packed_and_weights(8, "symmetric", n=30)
        self.register_buffer("table", packed)
        self.up = QuantizedLinear(packed_and_weights()[0], random_x(N), "s8")
        codes, scales, zeros, bits, group, _ = tensors(packed_and_weights(4, "zeros", n=9, k=N, group=N)[1])
        self.codes, self.scales, self.zeros = (torch.nn.Buffer(t) for t in (codes, scales, zeros))
        self.form = bits, group

    def forward(self, ids):
        x = embedding.packed(ids, self.table, K)
        x = torch.relu(self.up(x * 2))
        return matmul.grouped(x, self.codes, self.scales, self.zeros, *self.form) + 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend):
    model = Model()
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    for shape in ((2, 3), (4, 7), (3, 5)):
        ids = torch.arange(shape[0] * shape[1]).reshape(shape)
        assert torch.equal(compiled(ids), model(ids))


@pytest.mark.parametrize("dynamic", [False, True])
def test_export(dynamic):
    model, ids = Model(), torch.arange(6).reshape(2, 3)
    shapes = {"ids": {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}} if dynamic else None
    program = torch.export.export(model, (ids,), dynamic_shapes=shapes)
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {"quantized.matmul.packed", "quantized.matmul.grouped", "quantized.embedding.packed"} <= targets
    assert torch.equal(program.module()(ids), model(ids))
    if dynamic:
        more = torch.arange(20).reshape(4, 5)
        assert torch.equal(program.module()(more), model(more))


def test_export_refuses_shapes_that_do_not_fit():
    _, weights = packed_and_weights()

    class Grouped(torch.nn.Module):
        def forward(self, x):
            return matmul.grouped(x, *tensors(weights))

    with pytest.raises(Exception, match=r"quantized::matmul\.grouped: codes \[20, 36\] do not fit x \[2, 70\]"):
        torch.export.export(Grouped(), (random_x(2, 70),))


def test_a_backward_pass_is_refused_not_wrong():
    packed, weights = packed_and_weights()
    x = random_x(2, K).requires_grad_()
    all_but_backward = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(matmul.packed, (x, packed, N), test_utils=all_but_backward)
    for y in (matmul.packed(x, packed, N), matmul.grouped(x, *tensors(weights)), QuantizedLinear(packed)(x)):
        with pytest.raises(NotImplementedError, match=r"quantized::matmul\.\w+ is for inference"):
            (y.sum() + x.sum()).backward()
        assert x.grad is None
    with torch.no_grad():
        assert not matmul.packed(x, packed, N).requires_grad


def test_arguments_that_do_not_fit_are_refused():
    packed, weights = packed_and_weights()
    codes, scales, zeros, bits, group, _ = tensors(weights)
    x = random_x(2, K)
    damaged = packed.clone()
    damaged[4] ^= 0x10
    for arguments, sentence in (
        ((x.double(), packed, N), "x is torch.float64; it must be torch.float32"),
        ((x.long(), packed, N), "x is torch.int64; it must be torch.float32 or torch.float16 or torch.bfloat16"),
        ((x, packed.view(torch.int8), N), "packed is torch.int8"),
        ((x, packed, N + 1), rf"\[{N}, {K}\].*n = {N + 1}"),
        ((x, packed, -1), "n is -1"),
        ((x, packed, 2**50), rf"\[{N}, {K}\].*n = {2**50}"),  # more than could be allocated
        ((x, packed, 2**62), rf"\[{N}, {K}\].*n = {2**62}"),
        ((x[:, 1:], packed, N), rf"\[{N}, {K}\].*\[2, {K - 1}\]"),
        ((x, packed, N, "s4"), "'s4'"),
        ((x[0, 0], packed, N), "rank 0"),
        ((x, packed[None], N), "rank 2"),
        ((x, packed[:-1], N), f"{len(packed) - 1}"),
        ((x, packed[:10], N), "10"),
        ((x, packed[:0], N), r"\w+ \w+ \w+"),
        ((x, damaged, N), "mark of packed weights"),
    ):
        with pytest.raises(ValueError, match=sentence):
            matmul.packed(*arguments)
    for arguments, sentence in (
        ((x.double(), codes, scales, zeros, bits, group), "x is torch.float64"),
        ((x, codes.view(torch.int8), scales, zeros, bits, group), "codes is torch.int8; it must be torch.uint8"),
        ((x[:, :36], codes, scales[:, :2], zeros[:, :2].view(torch.uint8), 8, 32), "zeros is torch.uint8"),
        ((x, codes, scales.double(), zeros, bits, group), "scales is torch.float64"),
        ((x, codes, scales, zeros.int(), bits, group), "zeros is torch.int32"),
        ((x, codes, scales, None, bits, group, scales.float()), "mins is torch.float32; it must be torch.float16"),
        ((x, codes, scales, zeros, bits, group, scales), "not both"),
        ((x, codes, scales, zeros, 5, group), "bits is 5"),
        ((x, codes, scales, zeros, bits, 12), "group is 12"),
        ((x, codes, scales, zeros, bits, 0), "group is 0"),
        ((x, codes, scales[:, :2], zeros, bits, group), r"scales \[20, 2\] must be \[20, 3\]"),
        ((x, codes, scales, zeros[:5], bits, group), r"zeros \[5, 3\]"),
        ((x, codes, scales[:, :0], zeros, bits, group), r"scales \[20, 0\]"),
        ((x, codes[:, :-1], scales, zeros, bits, group), r"codes \[20, 35\]"),
        ((x, codes, scales, zeros + 20, bits, group), "zero"),
    ):
        with pytest.raises(ValueError, match=sentence):
            matmul.grouped(*arguments)
    for arguments, sentence in (
        ((torch.tensor([0, N]), packed, K), str(N)),
        ((torch.tensor([-1]), packed, K), "-1"),
        ((torch.tensor([0]), packed, K + 8), f"k is {K + 8}"),
        ((torch.tensor([0]), packed, 2**50), f"k is {2**50}"),
        ((torch.tensor([0], dtype=torch.int16), packed, K), "torch.int16; it must be torch.int64 or torch.int32"),
    ):
        with pytest.raises(ValueError, match=sentence):
            embedding.packed(*arguments)


@pytest.mark.parametrize("lhs", LHS_KINDS)
def test_quantized_linear_from_linear(lhs):
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 24)
    quantized = QuantizedLinear.from_linear(linear, 4, 16, "mins", "f32", lhs)
    weights = libqmm.quantize(linear.weight.detach().numpy(), 4, 16, "mins", "f32")
    x = random_x(2, 3, 64)
    want = contract.matmul(x.numpy().reshape(6, 64), weights, lhs, linear.bias.detach().numpy())
    assert_same_bits(quantized(x).numpy(), want.reshape(2, 3, 24))
    assert (quantized.in_features, quantized.out_features) == (64, 24)
    assert "bits=4, group=16, mins" in repr(quantized)
    assert QuantizedLinear.from_linear(torch.nn.Linear(8, 8, bias=False), group=8).bias is None
    half = QuantizedLinear.from_linear(linear.half(), 8, 64)
    assert [half(x.to(dtype)).dtype for dtype in (torch.float32, torch.float16)] == [torch.float32, torch.float16]


def test_quantized_linear_keeps_its_state(tmp_path):
    module = QuantizedLinear(packed_and_weights()[0], random_x(N))
    torch.save(module.state_dict(), tmp_path / "state.pt")
    other = QuantizedLinear(
        torch.from_numpy(libqmm.pack(random_weights(np.random.default_rng(9), N, K, 4, GROUP, "zeros"))), torch.zeros(N)
    )
    x = random_x(2, K)
    assert not torch.equal(other(x), module(x))
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(other(x), module(x))
    assert list(module.parameters()) == []


def test_quantized_linear_refuses():
    packed, _ = packed_and_weights()
    x = random_x(3, K - 8)
    for call in (lambda module: module(x), lambda module: torch.export.export(module, (x,))):
        with pytest.raises(ValueError, match=rf"x is \[3, {K - 8}\], the weights \[{N}, {K}\]"):
            call(QuantizedLinear(packed))
    with pytest.raises(ValueError, match="bias"):
        QuantizedLinear(packed, torch.zeros(N + 1))
    with pytest.raises(ValueError, match="float16"):
        QuantizedLinear(packed, torch.zeros(N).half())
    with pytest.raises(ValueError, match="'s4'"):
        QuantizedLinear(packed, lhs="s4")
    with pytest.raises(ValueError, match="100 bytes"):
        QuantizedLinear(packed[:100])


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_load_gguf_linear(tmp_path, kind):
    path = write(tmp_path / "a.gguf", {"w": (kind, random_blocks(kind, 19, 96))})
    weights = libqmm.gguf.File(path)["w"]
    x, bias = random_x(2, 96), random_x(19)
    for source in (path, libqmm.gguf.File(path)):
        module = load_gguf_linear(source, "w", bias, "s8")
        with np.errstate(over="ignore", invalid="ignore"):
            assert_same_bits(module(x).numpy(), contract.matmul(x.numpy(), weights, "s8", bias.numpy()))
    with pytest.raises(ValueError, match="no tensor 'v'"):
        load_gguf_linear(path, "v")
