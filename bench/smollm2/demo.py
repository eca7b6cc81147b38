# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answers a prompt with SmolLM2-135M-Instruct as a native executable on libqmm, building it on first use."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

import libqmm
from build import build
from libqmm.ops import LHS_KINDS
from tokenizer import chat

PROMPT = "What is the capital of France, and why is it famous?"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompt", nargs="?", default=PROMPT, help=f"what to ask ({PROMPT!r})")
    parser.add_argument("--lhs", choices=LHS_KINDS, default="s8", help="how activations meet the weights (s8)")
    parser.add_argument("--threads", type=int, default=libqmm.max_threads(), help="threads of the matmuls (all)")
    parser.add_argument("--max-tokens", type=int, default=256, help="the longest answer (256)")
    options = parser.parse_args()

    built = build(options.lhs)
    tokenizer = Tokenizer.from_file(str(built.tokenizer))
    ids = tokenizer.encode(chat(options.prompt)).ids
    command = [built.executable, built.weights, "--threads", options.threads, "--max-tokens", options.max_tokens]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(list(map(str, command)), **pipes, text=True) as process:
        with contextlib.suppress(BrokenPipeError):  # it says why it left
            process.stdin.write(" ".join(map(str, ids)))
            process.stdin.close()
        stream = DecodeStream(skip_special_tokens=True)
        for line in process.stdout:
            print(stream.step(tokenizer, int(line)) or "", end="", flush=True)
        print("\n", flush=True)
        print(process.stderr.read(), end="", file=sys.stderr)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
