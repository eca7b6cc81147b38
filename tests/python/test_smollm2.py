# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The native SmolLM2 against PyTorch (bench/smollm2/check.py), its tokenizer, and what it refuses.

The programs are built into the folder SMOLLM2_BUILD, build/smollm2 unless set, and kept there.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import jinja2
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "smollm2"))
from tokenizers import Tokenizer

import check
import libqmm
import libqmm.gguf
import weights
from build import _hash, _here, build
from checkpoint import CHUNK, CONTEXT, PART, Config, gguf_path
from reference import Reference
from tokenizer import chat, read_tokenizer


@pytest.fixture(scope="module")
def reference():
    return Reference(gguf_path())


@pytest.fixture(scope="module")
def s8():
    return build("s8")


@pytest.fixture(scope="module")
def tokenizer(s8):
    return Tokenizer.from_file(str(s8.tokenizer))


def test_lhs_f32_is_what_pytorch_computes(reference, tokenizer, capsys):
    with capsys.disabled():
        print("\n" + check.check_f32(build("f32"), reference, tokenizer))


def test_lhs_s8_changes_little(reference, s8, tokenizer, capsys):
    with capsys.disabled():
        print("\n" + check.check_s8(s8, reference, tokenizer))


@pytest.mark.full
def test_a_long_continuation(reference, tokenizer, capsys):
    with capsys.disabled():
        print("\n" + check.check_f32(build("f32"), reference, tokenizer, 256))


@pytest.mark.full
@pytest.mark.parametrize(("lhs", "least"), [("s8", 0.95), ("s8_token", 0.85)])
def test_a_long_text(reference, tokenizer, capsys, lhs, least):
    text = (Path(__file__).parents[2] / "LICENSE").read_text()[:6000]  # 1177 tokens
    with capsys.disabled():
        print("\n" + check.check_s8(build(lhs), reference, tokenizer, text, lhs, least))


def test_what_is_generated_is_compared(reference, tokenizer, monkeypatch):
    """The check fails where the executable writes other tokens than its logits say."""
    generate = check.native_continuation
    monkeypatch.setattr(check, "native_continuation", lambda *args: generate(*args).roll(1))
    with pytest.raises(AssertionError, match="the executable generates"):
        check.check_f32(build("f32"), reference, tokenizer, 16)


def test_a_source_that_is_missing_is_an_error():
    with pytest.raises(FileNotFoundError):
        [_hash(path) for path in _here("model", "absent")]


def test_parts_make_no_difference(tokenizer):
    ids = torch.tensor(tokenizer.encode(check.TEXT).ids[: PART + 1])  # two parts on one thread
    built = build("f32")
    whole, pieces = (check.native_logits(built, ids, prefill) for prefill in (PART + 1, 5))
    assert (whole - pieces).abs().max() <= check.TOLERANCE


def test_a_prompt_of_two_chunks(reference, tokenizer):
    ids = torch.tensor(tokenizer.encode(check.TEXT * 2).ids[: CHUNK + 23])
    built, eager = build("f32"), reference(ids)
    one, two = (check.native_logits(built, ids, len(ids), threads) for threads in (1, 2))
    assert torch.equal(one, two)
    assert (one - eager).abs().max() <= check.TOLERANCE


def test_a_second_build_makes_nothing(s8):
    folder = s8.weights.parent
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert build("s8") == s8
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def run(built, *options, ids, weights=None):
    command = [built.executable, weights or built.weights, *options]
    return subprocess.run(list(map(str, command)), input=" ".join(map(str, ids)), text=True, capture_output=True)


def test_threads_change_no_token(s8, tokenizer):
    ids = tokenizer.encode(chat("What is the capital of France, and why is it famous?")).ids
    one, two = (run(s8, "--max-tokens", 12, "--threads", threads, ids=ids) for threads in (1, 2))
    answer = tokenizer.decode(list(map(int, one.stdout.split())))
    assert "Paris" in answer
    assert one.stdout == two.stdout
    assert "tokens/s" in one.stderr
    assert "kernel   qmm_f32_s8_" in one.stderr


def test_timings(s8, tokenizer, tmp_path):
    ids = tokenizer.encode(check.TEXT).ids[:150]
    done = run(s8, "--timings", tmp_path / "timings", "--prefill", 140, "--threads", 2, ids=ids)
    assert done.returncode == 0, done.stderr
    timings = json.loads((tmp_path / "timings").read_text())
    config = Config.of(libqmm.gguf.File(gguf_path()))
    for phase, tokens, times in (("prefill", 140, 2), ("decode", 10, 10)):
        of = timings[phase]
        assert of["tokens"] == tokens
        calls = {(m["n"], m["k"]): m["calls"] for m in of["matmuls"]}
        head = {(config.vocabulary, config.width): 1 if phase == "prefill" else tokens}
        assert calls == dict.fromkeys(config.matrices.values(), times * config.layers) | head
        assert 0 < of["attention_ns"] + sum(m["ns"] for m in of["matmuls"]) < of["ns"] * timings["threads"]


@pytest.mark.parametrize("prefill", [0, 3, 4])
def test_timings_of_no_prompt_or_no_answer_are_refused(s8, tmp_path, prefill):
    done = run(s8, "--timings", tmp_path / "timings", "--prefill", prefill, ids=[1, 2, 3])
    assert done.returncode == 1
    assert "--prefill from 1 to 2" in done.stderr


def test_bench(tmp_path):
    command = [sys.executable, Path(check.__file__).with_name("bench.py"), "--alone", "--rounds", "1", "--threads", "1"]
    subprocess.run([*command, "--cpu", "native", "--out", tmp_path / "out.json"], check=True)
    results = json.loads((tmp_path / "out.json").read_text())
    names = ["smollm2/prefill:512/qmm_s8", "smollm2/decode:128/qmm_s8"]
    for key in ("benchmarks", "shares"):
        assert [row["name"] for row in results[key]] == names
    for row in results["shares"]:
        assert row["kernels"] + row["attention"] + row["rest"] == pytest.approx(1)
        assert min(row["kernels"], row["attention"], row["rest"]) > 0


def test_matrices_of_different_formats_do_not_become_one():
    w = np.ones((4, 64), np.float32)
    parts = [libqmm.quantize(w, 4, 32, "mins"), libqmm.quantize(w, 4, 32)]
    with pytest.raises(ValueError, match="different formats can not be one"):
        weights.stack(parts)


def test_demo():
    command = [sys.executable, Path(check.__file__).with_name("demo.py")]  # with its own prompt
    done = subprocess.run([*command, "--max-tokens", "8", "--threads", "1"], capture_output=True, text=True, check=True)
    assert "Paris" in done.stdout
    assert "threads  1\n" in done.stderr


def test_a_prompt_longer_than_the_cache_is_refused(s8):
    done = run(s8, ids=[1] * (CONTEXT + 1))
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"the prompt has {CONTEXT + 1} tokens; the cache holds {CONTEXT}" in done.stderr


def test_generation_stops_where_the_cache_ends(s8, tokenizer):
    ids = tokenizer.encode("one two three four " * CONTEXT).ids[: CONTEXT - 3]
    done = run(s8, ids=ids)
    assert done.returncode == 0
    # 3 tokens fit; one more is known, though its place in the cache is not there.
    assert len(done.stdout.split()) == 4
    assert f"the cache holds {CONTEXT} tokens and is full" in done.stderr


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [([], "no token ids"), ([49152], "token 49152"), ([-1], "'-1'"), (["x"], "'x'"), (["9" * 30], "'999")],
)
def test_bad_tokens_are_refused(s8, ids, sentence):
    done = run(s8, ids=ids)
    assert done.returncode == 1
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--threads", "0"], "'0'"), (["--nonsense", "1"], "'--nonsense'"), (["--threads"], "'--threads'")],
)
def test_bad_options_are_refused(s8, options, sentence):
    done = run(s8, *options, ids=[1])
    assert done.returncode == 1
    assert sentence in done.stderr


def damaged(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


ENTRY = 64 + 64  # the second entry of the index


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: os.truncate(path, 0), "too few"),
        (lambda path: os.truncate(path, 63), "too few"),
        (lambda path: os.truncate(path, 64), "its header says"),
        (lambda path: os.truncate(path, path.stat().st_size - 1), "its header says"),
        (lambda path: damaged(path, 0, b"GGUF"), "does not start with"),
        (lambda path: damaged(path, 8, struct.pack("<I", 2)), "version 2"),
        (lambda path: damaged(path, 12, struct.pack("<I", 2**32 - 1)), "its index does not fit"),
        (lambda path: damaged(path, 12, struct.pack("<I", 5)), "it has no blob"),
        (lambda path: damaged(path, ENTRY, b"x" * 40), "entry 1 of its index is damaged"),
        (lambda path: damaged(path, ENTRY + 40, struct.pack("<Q", 2**64 - 64)), "entry 1 of its index is damaged"),
        (lambda path: damaged(path, ENTRY + 40, struct.pack("<Q", 65)), "entry 1 of its index is damaged"),
        (lambda path: damaged(path, ENTRY + 48, struct.pack("<Q", 2**63)), "entry 1 of its index is damaged"),
        (lambda path: damaged(path, ENTRY + 48, struct.pack("<Q", 4)), "it must be f32 [576]"),
        (lambda path: damaged(path, 64 + 48, struct.pack("<Q", 1000)), "only 1000 are given"),
    ],
)
def test_a_damaged_weight_file_is_refused(s8, tmp_path, damage, sentence):
    path = tmp_path / "weights.bin"
    subprocess.run(["cp", "--reflink=auto", s8.weights, path], check=True)
    damage(path)
    done = run(s8, ids=[1], weights=path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert sentence in done.stderr


def test_a_weight_file_that_is_not_there_is_refused(s8, tmp_path):
    assert "can not be opened" in run(s8, ids=[1], weights=tmp_path / "none").stderr


def test_names_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="room for 39"):
        weights.write(tmp_path / "weights", [("n" * 40, np.zeros(1, np.float32))])


TEXTS = [
    "",
    "Hello world",
    "  x  = 12345 + 3.14;\n\n\tfoo(bar)\r\n",
    "naïve café — «quotes» 日本語 🙂 e\u0301",
    "I'm you're WE'LL it's",
    "1st 2nd 100,000 ½ ² ٣ ",
    "a\u00a0b\u200bc",
    "x\n \n  y   ",
    "snake_case CamelCase kebab-case",
    "<|im_start|>user\nhi<|im_end|>\n",
    chat("Hi there, 42!"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_decode_to_the_text(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_tokens_are_those_of_llama_cpp(tokenizer):
    llama_cpp = pytest.importorskip("llama_cpp")
    other = llama_cpp.Llama(str(gguf_path()), vocab_only=True, verbose=False)
    for text in TEXTS:
        assert tokenizer.encode(text).ids == other.tokenize(text.encode(), add_bos=False, special=True), text


def test_the_chat_format_is_that_of_the_file():
    file = libqmm.gguf.File(gguf_path())
    template = jinja2.Template(file.fields["tokenizer.chat_template"].contents())
    messages = [{"role": "user", "content": "Hi!"}]
    assert template.render(messages=messages, add_generation_prompt=True) == chat("Hi!")
    assert read_tokenizer(file).token_to_id("<|im_end|>") == 2
