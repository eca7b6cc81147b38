# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the native SmolLM2 with an eager fp32 model on dequantized weights, token by token.

    python bench/smollm2/check.py

lhs f32 computes the same function: its logits must agree, and so must the greedy continuation where the eager model is
not undecided. lhs s8 rounds activations: how often the most likely token stays the same, and how far the distribution
moves, is what it costs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from build import Built, build
from checkpoint import gguf_path
from reference import Reference
from tokenizer import chat

QUESTION = "How is bread made? Tell me step by step, from the flour to the loaf."
TEXT = (
    "The history of the city begins in the early middle ages, when traders from the north built a harbour at the "
    "mouth of the river. Over the next centuries it grew into a centre of learning; its university, founded in "
    "1409, taught law, medicine and astronomy. In 1755 an earthquake destroyed most of the old town, and the "
    "people who had lost their homes moved to the hills. They planted vines and olive trees, and sold wine and "
    "oil to the ships that came from the south. When the railway arrived, a hundred years later, the harbour was "
    "too small for the new steamers. Water boils at a lower temperature on a mountain because the pressure of "
    "the air falls with height: at 3000 metres it boils at about 90 degrees. A plant makes sugar from water and "
    "carbon dioxide, and gives off oxygen; for this it needs light. If you want to bake bread, mix flour, water, "
    "salt and yeast, let the dough rise for two hours, and put it into a hot oven until the crust is brown. To "
    "sort a list of numbers, compare each pair of neighbours and swap them if they are in the wrong order; "
    "repeat until nothing changes. Write a function that adds two numbers. Here it is:\n\n```python\ndef add(a, "
    "b):\n    return a + b\n```\n\nCall it with two numbers, and it returns their sum. The capital of France is "
    "Paris. It is famous for the Eiffel Tower, the Louvre and its long history as a centre of art, fashion and "
    "learning."
)
PROMPT, CONTINUATION = 32, 64
TOLERANCE = 5e-4  # of logits, lhs f32
LEAD = 2e-3  # a smaller lead of the most likely token may be lost to rounding


def native_logits(built: Built, ids: Tensor, prefill: int, threads: int = 1) -> Tensor:
    """Returns the logits f32 [T, vocabulary] of ids i64 [T]; the first `prefill` in chunks, the rest one by one."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "logits"
        command = [built.executable, built.weights, "--threads", threads, "--logits", output, "--prefill", prefill]
        subprocess.run([str(word) for word in command], input=" ".join(map(str, ids.tolist())), text=True, check=True)
        return torch.from_numpy(np.fromfile(output, np.float32)).reshape(len(ids), -1)


def native_continuation(built: Built, prompt: Tensor, count: int) -> Tensor:
    """Returns the `count` tokens that the executable generates, padded should it stop earlier."""
    command = [built.executable, built.weights, "--max-tokens", count]
    done = subprocess.run(
        [str(word) for word in command],
        input=" ".join(map(str, prompt.tolist())),
        text=True,
        check=True,
        capture_output=True,
    )
    ids = torch.tensor([int(word) for word in done.stdout.split()], dtype=torch.int64)
    return F.pad(ids, (0, count - len(ids)))


def greedy(model: Reference, prompt: Tensor, guess: Tensor) -> Tensor:
    """Returns `prompt` and the greedy continuation of the eager model, as long as `guess`.

    It is the one sequence in which each token is the most likely after those before. A pass over a guess gives a better
    one, right at one more token at least; a right guess takes one pass.
    """
    while True:
        ids = torch.cat([prompt, guess])
        likely = model(ids).argmax(-1)[len(prompt) - 1 : -1]
        if torch.equal(likely, guess):
            return ids
        guess = likely


def check_f32(built: Built, model: Reference, tokenizer: Tokenizer, count: int = CONTINUATION) -> str:
    """Checks lhs f32, generating `count` tokens: AssertionError where it differs. Returns what was found."""
    prompt = torch.tensor(tokenizer.encode(chat(QUESTION)).ids)[-PROMPT:]
    generated = native_continuation(built, prompt, count)
    ids = greedy(model, prompt, generated)
    eager = model(ids)
    native = native_logits(built, ids, PROMPT)

    difference = (native - eager)[:PROMPT].abs().max().item()
    assert difference <= TOLERANCE, f"logits of the prompt differ by {difference:.2e}; {TOLERANCE:.0e} is allowed"

    first, second = eager.topk(2).values.unbind(-1)
    decided = (first - second > LEAD)[PROMPT - 1 : -1]
    same = (native.argmax(-1) == eager.argmax(-1))[PROMPT - 1 : -1]
    assert same[decided].all(), f"{(~same[decided]).sum()} of {decided.sum()} tokens of the continuation differ"
    certain = count if decided.all() else int(decided.long().argmin())  # from there on both may go their own way
    wrote, expected = generated[:certain].tolist(), ids[PROMPT:][:certain].tolist()
    assert wrote == expected, f"the executable generates {wrote}; the model continues {expected}"
    return (
        f"lhs f32: logits of {PROMPT} tokens differ by at most {difference:.1e}; "
        f"the most likely token is the same at {same.sum()} of {len(same)} of the continuation, "
        f"{decided.sum()} of them decided; the first {certain} are what the executable generates"
    )


def check_s8(
    built: Built, model: Reference, tokenizer: Tokenizer, text: str = TEXT, lhs: str = "s8", least: float = 0.95
) -> str:
    """Checks lhs s8 or s8_token: AssertionError where fewer than `least` tokens agree. Returns what was found."""
    ids = torch.tensor(tokenizer.encode(text).ids)
    eager, native = model(ids), native_logits(built, ids, len(ids) // 2)
    same = (native.argmax(-1) == eager.argmax(-1)).float().mean().item()
    expected, actual = eager.log_softmax(-1), native.log_softmax(-1)
    divergence = (expected.exp() * (expected - actual)).sum(-1).mean().item()
    found = (
        f"lhs {lhs}: the most likely token is the same at {same:.1%} of {len(ids)} positions; "
        f"mean KL divergence {divergence:.2e}"
    )
    assert same >= least, f"{found}; at least {least:.0%} must agree"
    return found


def main() -> int:
    model, failed = Reference(gguf_path()), False
    for lhs, check in (("f32", check_f32), ("s8", check_s8)):
        built = build(lhs)
        try:
            print(check(built, model, Tokenizer.from_file(str(built.tokenizer))))
        except AssertionError as error:
            print(f"FAILED, lhs {lhs}: {error}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
