# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules written by hand, through torch-mlir's own pipelines with our extra library, to calls that are executed."""

import re

import numpy as np
import pytest
import torch
from torch_mlir import ir, passmanager
from torch_mlir.dialects import torch as torch_dialect

import libqmm
import libqmm.mlir
import libqmm.torch
from compiled import Compiled
from libqmm.mlir.contract import legalize
from libqmm.mlir.packing import read_constant
from libqmm.ops import OPS

quantized = torch.ops.quantized
F32_2D, F32_3D = (torch.float32, 2), (torch.float32, 3)
EXPORTED = f"torchdynamo-export-to-torch-backend-pipeline{{extra-library='{libqmm.mlir.EXTRA_LIBRARY}'}}"


def parse(text) -> ir.Module:
    context = ir.Context()
    torch_dialect.register_dialect(context)
    return ir.Module.parse(text, context)


def weights_of(n, k, bits=4, group=32, offset="symmetric", scale_dtype="f16", seed=0):
    w = np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)
    return libqmm.quantize(w, bits, group, offset, scale_dtype)


def packed(*args, **kwargs):
    return torch.from_numpy(libqmm.pack(weights_of(*args, **kwargs)))


def x_of(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def torch_script(name, layers=1, x="[?,64],f32"):
    """A TorchScript module, layers deep, whose tensors have no types but where they come in."""
    body, value = [], "%arg0"
    for i in range(layers):
        body.append(
            f'%y{i} = torch.operator "{name}"({value}, %arg1, %n, %lhs)'
            " : (!torch.tensor, !torch.tensor, !torch.int, !torch.str) -> !torch.tensor"
        )
        body.append(f"%z{i} = torch.aten.relu %y{i} : !torch.tensor -> !torch.tensor")
        value = f"%z{i}"
    body = "\n    ".join(body)
    return f"""
module attributes {{torch.debug_module_name = "M"}} {{
  torch.class_type @__torch__.M {{
    torch.method "forward", @__torch__.M.forward
  }}
  func.func private @__torch__.M.forward(
      %self: !torch.nn.Module<"__torch__.M">,
      %arg0: !torch.tensor {{torch.type_bound = !torch.vtensor<{x}>}},
      %arg1: !torch.tensor {{torch.type_bound = !torch.vtensor<[?],ui8>}}) -> !torch.tensor {{
    %n = torch.constant.int 64
    %lhs = torch.constant.str "s8"
    {body}
    return {value} : !torch.tensor
  }}
  %module = torch.nn_module {{
  }} : !torch.nn.Module<"__torch__.M">
}}"""


PACKED_NAMES = OPS[0].mlir_names


def test_the_op_of_the_rfc_is_there():
    assert "quantized.matmul" in PACKED_NAMES


@pytest.mark.parametrize("name", PACKED_NAMES)
def test_a_torch_script_module(tmp_path, name):
    module = parse(torch_script(name))
    before = str(module)
    libqmm.mlir.compile(module, tmp_path / "model.so")
    assert str(module) == before
    assert "f32 [?, 64]" in (tmp_path / "model.h").read_text()
    w = packed(64, 64)
    for rows in (1, 5, 0):
        x = x_of(rows, 64)
        (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], x, w)
        assert torch.equal(got, torch.relu(quantized.matmul.packed(x, w, 64, "s8")))


@pytest.mark.parametrize(
    ("x", "result"),
    [
        ("[5,64],f32", "[5,64],f32"),
        ("[?,64],f16", "[?,64],f16"),
        ("[2,?,3,64],bf16", "[2,?,3,64],bf16"),
        ("[64],f32", "[64],f32"),
        ("[?,?],f32", "[?,64],f32"),
    ],
)
def test_shapes_and_dtypes_are_refined(x, result):
    module = parse(torch_script("quantized.matmul", x=x))
    legalize(module)
    (operator,) = re.findall(r'torch\.operator "quantized\.matmul".*-> (\S+)', str(module))
    assert operator == f"!torch.vtensor<{result}>"


GROUPED = """
func.func @forward(%x: !torch.vtensor<[?,?,72],f32>, %codes: !torch.vtensor<[?,36],ui8>,
                   %scales: !torch.vtensor<[?,3],f16>, %zeros: !torch.vtensor<[?,3],si8>) -> {result} {{
  %bits = torch.constant.int 4
  %group = torch.constant.int 32
  %lhs = torch.constant.str "f32"
  %none = torch.constant.none
  %y = torch.operator "{name}"(%x, %codes, %scales, %zeros, %bits, %group, %none, %lhs)
    : (!torch.vtensor<[?,?,72],f32>, !torch.vtensor<[?,36],ui8>, !torch.vtensor<[?,3],f16>, !torch.vtensor<[?,3],si8>,
       !torch.int, !torch.int, !torch.none, !torch.str) -> {result}
  return %y : {result}
}}"""

EMBEDDING = """
func.func @forward(%ids: !torch.vtensor<[?],si64>, %packed: !torch.vtensor<[?],ui8>) -> {result} {{
  %k = torch.constant.int 72
  %y = torch.operator "{name}"(%ids, %packed, %k)
    : (!torch.vtensor<[?],si64>, !torch.vtensor<[?],ui8>, !torch.int) -> {result}
  return %y : {result}
}}"""


@pytest.mark.parametrize("name", OPS[1].mlir_names)
def test_functions_of_canonical_weights(tmp_path, name):
    module = parse(GROUPED.format(name=name, result="!torch.vtensor"))
    legalize(module)
    assert f'"{name}"' in str(module)
    assert "-> !torch.vtensor<[?,?,?],f32>" in str(module)

    libqmm.mlir.compile(parse(GROUPED.format(name=name, result="!torch.vtensor")), tmp_path / "model.so")
    weights = weights_of(20, 72, offset="zeros")
    arrays = [torch.from_numpy(array) for array in (weights.codes, weights.scales, weights.zeros)]
    x = x_of(2, 3, 72)
    (got,) = Compiled(tmp_path / "model.so").forward([F32_3D], x, *arrays)
    assert torch.equal(got, quantized.matmul.grouped(x, *arrays, 4, 32))


@pytest.mark.parametrize("name", OPS[2].mlir_names)
def test_functions_of_embeddings(tmp_path, name):
    libqmm.mlir.compile(parse(EMBEDDING.format(name=name, result="!torch.vtensor")), tmp_path / "model.so")
    ids, w = torch.tensor([3, 19, 0]), packed(20, 72)
    (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], ids, w)
    assert torch.equal(got, quantized.embedding.packed(ids, w, 72))


@pytest.mark.parametrize("name", [name for op in OPS for name in op.mlir_names if name.startswith("torch.")])
def test_the_pipeline_of_exported_programs_takes_the_library(name):
    text, result = (GROUPED, "[?,?,?]") if "grouped" in name else (EMBEDDING, "[?,72]")
    if name in PACKED_NAMES:
        text, result = MATMUL, "[?,48]"
    module = parse(text.format(name=name, result=f"!torch.vtensor<{result},f32>"))
    with module.context:
        passmanager.PassManager.parse(f"builtin.module({EXPORTED})").run(module.operation)
    assert f'torch.operator "{name}"' in str(module)


MATMUL = """
func.func @forward(%x: !torch.vtensor<[?,64],f32>, %packed: !torch.vtensor<[?],ui8>) -> {result} {{
  %n = torch.constant.int 48
  %lhs = torch.constant.str "f32"
  %y = torch.operator "{name}"(%x, %packed, %n, %lhs)
    : (!torch.vtensor<[?,64],f32>, !torch.vtensor<[?],ui8>, !torch.int, !torch.str) -> {result}
  return %y : {result}
}}"""


CHOSEN = """
func.func @forward(%ids: !torch.vtensor<[?,2],si64>, %packed: !torch.vtensor<[?],ui8>, %first: !torch.bool)
    -> !torch.vtensor<[?,72],f32> {
  %k = torch.constant.int 72
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %rows = torch.prim.If %first -> (!torch.vtensor<[?],si64>) {
    %a = torch.aten.select.int %ids, %1, %0
      : !torch.vtensor<[?,2],si64>, !torch.int, !torch.int -> !torch.vtensor<[?],si64>
    torch.prim.If.yield %a : !torch.vtensor<[?],si64>
  } else {
    %b = torch.aten.select.int %ids, %1, %1
      : !torch.vtensor<[?,2],si64>, !torch.int, !torch.int -> !torch.vtensor<[?],si64>
    torch.prim.If.yield %b : !torch.vtensor<[?],si64>
  }
  %y = torch.operator "quantized.embedding.packed"(%rows, %packed, %k)
    : (!torch.vtensor<[?],si64>, !torch.vtensor<[?],ui8>, !torch.int) -> !torch.vtensor<[?,72],f32>
  return %y : !torch.vtensor<[?,72],f32>
}"""


def test_columns_that_a_branch_chooses(tmp_path):
    """Entry points take ids that lie side by side; that these do not, only their memory tells."""
    libqmm.mlir.compile(parse(CHOSEN), tmp_path / "model.so")
    ids, w = torch.tensor([[3, 18], [0, 7], [5, 5]]), packed(20, 72)
    for column in (0, 1):
        (got,) = Compiled(tmp_path / "model.so").forward([F32_2D], ids, w, 1 - column)
        assert torch.equal(got, quantized.embedding.packed(ids[:, column], w, 72))


def test_functions_that_call_each_other(tmp_path):
    """Whatever calls an op with constant weights: in the end it is an entry."""
    codes, scales = torch.full((8, 36), 0x5A, dtype=torch.uint8), torch.ones(8, 3, 1)
    text = group_quant("[?,72],f32", 32, 4, codes, scales, scales, constant=True)
    text = text.replace("@forward", "private @helper").replace("-> !torch.vtensor ", "-> !torch.vtensor<[?,8],f32> ")
    text = text.replace("-> !torch.vtensor\n", "-> !torch.vtensor<[?,8],f32>\n").replace(
        "return %y : !torch.vtensor", "return %y : !torch.vtensor<[?,8],f32>"
    )
    for name, callee in (("public @one", "helper"), ("@two", "one"), ("nested @three", "helper")):
        text += f"""
func.func {name}(%x: !torch.vtensor<[?,72],f32>) -> !torch.vtensor<[?,8],f32> {{
  %y = func.call @{callee}(%x) : (!torch.vtensor<[?,72],f32>) -> !torch.vtensor<[?,8],f32>
  return %y : !torch.vtensor<[?,8],f32>
}}"""
    libqmm.mlir.compile(parse(text), tmp_path / "model.so", max_embedded=0)
    assert re.findall(r"_mlir_ciface_(\w+)", (tmp_path / "model.h").read_text()) == ["one", "two"]
    x = x_of(3, 72)
    results = [getattr(Compiled(tmp_path / "model.so"), name)([F32_2D], x)[0] for name in ("one", "two")]
    assert torch.equal(*results)
    w = torch.tensor([0xA - 1.0, 0x5 - 1.0]).repeat(36).expand(8, 72)
    torch.testing.assert_close(results[0], x @ w.T, rtol=1e-4, atol=1e-3)
    assert (tmp_path / "model.packed").stat().st_size < 4096  # once


def test_a_function_that_the_library_lacks_is_named(tmp_path):
    text = MATMUL.format(name="quantized.matmul.unknown", result="!torch.vtensor")
    missing = ", ".join(
        f"@__torch_mlir_{kind}_fn.quantized.matmul.unknown" for kind in ("has_value_semantics", "shape", "dtype")
    )
    with pytest.raises(NotImplementedError, match=rf"^quantized\.matmul\.unknown: the extra library has no {missing}$"):
        libqmm.mlir.compile(parse(text), tmp_path / "model.o")


def test_an_op_on_what_has_no_type_is_named(tmp_path):
    text = MATMUL.replace("[?,64],f32", "*,f32").format(name="quantized.matmul", result="!torch.vtensor")
    with pytest.raises(NotImplementedError, match=r"nothing lowers quantized\.matmul$"):
        libqmm.mlir.compile(parse(text), tmp_path / "model.o")


def test_ops_of_others_are_named(tmp_path):
    """All of them, and without a word about our library."""
    text = """
func.func @forward(%x: !torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32> {
  %y = torch.operator "torch.theirs.op"(%x) : (!torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32>
  %z = torch.operator "mine.op"(%y) : (!torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32>
  return %z : !torch.vtensor<[?,64],f32>
}"""
    sentence = r"^mine\.op is not an op of libqmm; torch\.theirs\.op is not an op of libqmm$"
    with pytest.raises(NotImplementedError, match=sentence):
        libqmm.mlir.compile(parse(text), tmp_path / "model.o")


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (("%packed, %n", "%packed, %lhs"), ValueError, r"n is a !torch\.str; it must be a !torch\.int"),
        (("[?,64],f32", "[?,64],f64"), ValueError, "x is f64; it must be f32 or f16 or bf16"),
        (("[?],ui8", "[?],si8"), ValueError, "packed is i8; it must be u8"),
        (("[?,64],f32", "[],f32"), ValueError, "x has rank 0; it must have at least rank 1"),
        (("[?],ui8", "[],ui8"), ValueError, r"packed has rank 0, shape \[\]; it must have rank 1"),
        (("int 48", "int -1"), ValueError, "n is -1; it must not be negative"),
        (('"f32"', '"f16"'), ValueError, "lhs is 'f16'"),
        (("vtensor<[?,48],f32>", "vtensor<[?,50],f32>"), ValueError, r"the result is .*\[\?,48\].*says .*\[\?,50\]"),
        (("vtensor<[?,48],f32>", "vtensor<[?,48],f64>"), ValueError, "the result is .*f32.*says .*f64"),
        (("@forward", "@double"), ValueError, "'double' can not name an entry"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, change, error, sentence):
    text = MATMUL.format(name="quantized.matmul", result="!torch.vtensor<[?,48],f32>").replace(*change)
    if change[1].startswith("%packed, %lhs"):
        text = text.replace("!torch.int, !torch.str", "!torch.str, !torch.str")
    with pytest.raises(error, match=sentence):
        libqmm.mlir.compile(parse(text), tmp_path / "model.o")
    assert not any(tmp_path.iterdir())


def test_a_bound_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="x has rank 0; it must have at least rank 1"):
        legalize(parse(torch_script("quantized.matmul", x="[],f32")))


def test_an_entry_beside_a_torch_script_module_is_refused():
    tensor = "!torch.vtensor<[2],f32>"
    function = f"func.func @two(%x: {tensor}) -> {tensor} {{\n return %x : {tensor}\n}}\n"
    text = torch_script("quantized.matmul").replace("  %module =", function + "  %module =")
    with pytest.raises(ValueError, match=r"^@two is no method of the TorchScript module, .*; make it private$"):
        legalize(parse(text))
    legalize(parse(text.replace("@two", "private @two")))


@pytest.mark.parametrize("x", ["[?],f32", "[?,?],f32", "[2,?,?],f32"])
def test_any_k(tmp_path, x):
    text = MATMUL.replace("[?,64],f32", x).format(name="quantized.matmul", result="!torch.vtensor")
    libqmm.mlir.compile(parse(text), tmp_path / "model.so")
    rank, w = x.count(","), packed(48, 64)
    rows = x_of(*[2, 3, 64][-rank:])
    (got,) = Compiled(tmp_path / "model.so").forward([(torch.float32, rank)], rows, w)
    assert torch.equal(got, quantized.matmul.packed(rows, w, 48))


def test_another_number_of_operands_is_refused(tmp_path):
    text = MATMUL.format(name="torch.quantized.matmul.packed", result="!torch.vtensor<[?,48],f32>")
    text = text.replace("%packed, %n, %lhs", "%packed, %n").replace("!torch.int, !torch.str)", "!torch.int)")
    with pytest.raises(ValueError, match="3 operands; it takes 4"):
        libqmm.mlir.compile(parse(text), tmp_path / "model.o")


@pytest.mark.parametrize("layers", [64])
def test_many_layers_reach_the_contract(layers):
    module = parse(torch_script("quantized.matmul", layers))
    legalize(module)
    assert str(module).count('torch.operator "quantized.matmul"') == layers
    assert "-> !torch.vtensor<[?,64],f32>" in str(module)
    assert not re.search(r"!torch\.vtensor[ )]|!torch\.tensor", str(module))


GROUP_QUANT = """
func.func @forward(%x: !torch.vtensor<{x}>{arguments}) -> !torch.vtensor {{
  {constants}
  %bits = torch.constant.int {bits}
  %group = torch.constant.int {group}
  %y = torch.operator "quant.matmul_rhs_group_quant"(%x, %codes, %scales, %zps, %bits, %group)
    : (!torch.vtensor<{x}>, {types}, !torch.int, !torch.int) -> !torch.vtensor
  return %y : !torch.vtensor
}}"""
MLIR_DTYPES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.uint8: "ui8",
    torch.int8: "si8",
}


def group_quant(x, group, bits, *weights, constant):
    """The op on weights (codes, scales, zps) that are arguments, or constants of the module: all, or those named."""
    names = ("codes", "scales", "zps")
    held = constant if isinstance(constant, list) else names if constant else ()
    builtin = [f"{'x'.join(map(str, w.shape))}x{MLIR_DTYPES[w.dtype]}" for w in weights]
    types = [f"!torch.vtensor<[{','.join(map(str, w.shape))}],{MLIR_DTYPES[w.dtype]}>" for w in weights]
    constants = []
    for name, w, dense, type in zip(names, weights, builtin, types, strict=True):
        if name not in held:
            continue
        data = w.contiguous().view(torch.uint8).numpy().tobytes().hex().upper()
        constants.append(f'%{name} = torch.vtensor.literal(dense<"0x{data}"> : tensor<{dense}>) : {type}')
    return GROUP_QUANT.format(
        x=x,
        bits=bits,
        group=group,
        types=", ".join(types),
        arguments="".join(f", %{n}: {t}" for n, t in zip(names, types, strict=True) if n not in held),
        constants="\n  ".join(constants),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("codes_dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("bits", [4, 8])
def test_group_quant(tmp_path, bits, codes_dtype, dtype):
    """K is no multiple of the group; the rank of x, dtypes, and signs are whatever they are."""
    n, k, group = 9, 72, 32
    rng = np.random.default_rng(0)
    codes = torch.from_numpy(rng.integers(0, 256, (n, k * bits // 8)).astype(np.uint8)).view(codes_dtype)
    scales = torch.from_numpy(rng.uniform(0.5, 1.5, (n, 3, 1)).astype(np.float32)).to(dtype)
    zps = torch.from_numpy(rng.uniform(-4, 12, (n, 3, 1)).astype(np.float32)).to(dtype)
    nibbles = codes.view(torch.uint8)
    values = torch.stack([nibbles & 15, nibbles >> 4], -1).reshape(n, k) if bits == 4 else nibbles
    values = values.double()
    if codes_dtype == torch.int8:
        values = torch.where(values >= 2 ** (bits - 1), values - 2**bits, values)
    of = torch.arange(k) // group
    w = (values - zps[:, of, 0].double()) * scales[:, of, 0].double()

    element = MLIR_DTYPES[dtype]
    for shape, known in (((k,), f"[{k}]"), ((3, k), f"[?,{k}]"), ((2, 2, k), f"[2,?,{k}]")):
        x = x_of(*shape).to(dtype)
        want = (x.double() @ w.T).to(dtype)
        results = []
        for constant in (False, True):
            text = group_quant(f"{known},{element}", group, bits, codes, scales, zps, constant=constant)
            libqmm.mlir.compile(parse(text), tmp_path / f"model{len(shape)}{constant}.so")
            arguments = (x,) if constant else (x, codes, scales, zps)
            compiled = Compiled(tmp_path / f"model{len(shape)}{constant}.so")
            results += compiled.forward([(dtype, len(shape))], *arguments)
        assert torch.equal(*results)
        torch.testing.assert_close(results[0], want, rtol=1.6e-2 if dtype == torch.bfloat16 else 1e-3, atol=2e-2)
        if dtype == torch.float32:
            torch.testing.assert_close(results[0], want, rtol=1e-5, atol=2e-4)


def test_group_quant_refuses_what_does_not_fit(tmp_path):
    codes, scales = torch.zeros(9, 36, dtype=torch.uint8), torch.zeros(9, 3, 1)
    for bits, group, codes_, scales_, sentence in (
        (4, 2, codes, torch.zeros(9, 36, 1), "group is 2; it must be a multiple of 8"),
        (3, 32, codes, scales, "bits is 3; it must be 4 or 8"),
        (8, 32, codes, scales, r"codes \[9, 36\] do not fit x \[\?, 72\]: k = 72 at 8 bits"),
        (4, 32, codes, scales[:, :2], r"scales \[9, 2, 1\] must be \[9, 3, 1\]"),
        (4, 32, codes, scales[:, :, 0], r"scales has rank 2, shape \[9, 3\]; it must have rank 3"),
    ):
        text = group_quant("[?,72],f32", group, bits, codes_, scales_, scales_, constant=False)
        with pytest.raises(ValueError, match=rf"quant::matmul_rhs_group_quant: {sentence}"):
            libqmm.mlir.compile(parse(text), tmp_path / "model.o")


@pytest.mark.parametrize(("bits", "k", "group", "packs"), [(4, 71, 32, False), (4, 71, 71, True), (8, 71, 32, True)])
def test_constants_beside_an_x_of_any_k(tmp_path, bits, k, group, packs):
    rng = np.random.default_rng(0)
    codes = torch.from_numpy(rng.integers(0, 256, (9, (k * bits + 7) // 8)).astype(np.uint8))
    scales, zps = (torch.from_numpy(rng.random((9, -(-k // group), 1), np.float32)) for _ in range(2))
    x, results = x_of(2, k), []
    for known, constant in ((f"[?,{k}]", False), ("[?,?]", True)):
        text = group_quant(f"{known},f32", group, bits, codes, scales, zps, constant=constant)
        libqmm.mlir.compile(parse(text), tmp_path / f"{constant}.so")
        results += Compiled(tmp_path / f"{constant}.so").forward(
            [F32_2D], x, *(() if constant else (codes, scales, zps))
        )
    assert torch.equal(*results)
    assert (b"qmm_matmul_packed" in (tmp_path / "True.so").read_bytes()) == packs


@pytest.mark.parametrize(
    ("type", "text", "want"),
    [
        ("f16", "dense<[[1.5, 0x7C00], [0x7E00, -2.0]]>", [1.5, np.inf, np.nan, -2]),
        ("bf16", "dense<[[1.5, 0x7F80], [0x7FC0, -2.0]]>", [1.5, np.inf, np.nan, -2]),
        ("bf16", "dense<0x7FC0>", [np.nan] * 4),
        ("f32", "dense<[[1.5, 0x7F800000], [0xFFC00000, 1.0e-45]]>", [1.5, np.inf, np.nan, 1e-45]),
        ("ui8", "dense<[[1, 200], [255, 0]]>", [1, 200, 255, 0]),
        ("si8", "dense<[[1, -2], [-128, 127]]>", [1, -2, -128, 127]),
        ("si8", "dense<-3>", [-3] * 4),
    ],
)
def test_literals_are_read(type, text, want):
    element = type.removeprefix("s")  # as it may be
    literal = f"torch.vtensor.literal({text} : tensor<2x2x{element}>) : !torch.vtensor<[2,2],{type}>"
    module = parse(f"func.func @f() {{\n%0 = {literal}\nreturn\n}}")
    with module.context, ir.Location.unknown():
        (literal, _) = module.body.operations[0].regions[0].blocks[0].operations
        got = read_constant(literal.operation.results[0])
    assert got.dtype == {name: dtype for dtype, name in MLIR_DTYPES.items()}[type]
    assert torch.equal(got.flatten().nan_to_num(7), torch.tensor(want).to(got.dtype).nan_to_num(7))


@pytest.mark.parametrize(("bits", "dtype", "zp"), [(4, torch.uint8, 8), (4, torch.uint8, 3), (8, torch.int8, 5)])
def test_integer_zero_points_stay_integers(tmp_path, bits, dtype, zp):
    """Codes that all equal it give zeros, however large x is; through mins they give inf - inf."""
    codes = torch.full((9, 64 * bits // 8), zp | zp << 4 if bits == 4 else zp, dtype=dtype)
    scales, zps = torch.ones(9, 2, 1), torch.full((9, 2, 1), float(zp))
    x = torch.full((2, 64), 3e37)
    for name, constant in (("all", True), ("zps", ["zps"])):
        text = group_quant("[?,64],f32", 32, bits, codes, scales, zps, constant=constant)
        libqmm.mlir.compile(parse(text), tmp_path / f"{name}.so")
    for name, weights in (("all", ()), ("zps", (codes, scales))):
        (got,) = Compiled(tmp_path / f"{name}.so").forward([F32_2D], x, *weights)
        assert torch.equal(got, torch.zeros(2, 9))
