# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tokenizer that the GGUF file describes: byte-level BPE, digits one by one; and the chat format of SmolLM2."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import libqmm.gguf

_CONTROL = 3  # gguf's token type of <|im_start|> and the like
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def read_tokenizer(file: libqmm.gguf.File) -> Tokenizer:
    """Returns the tokenizer of a file whose pre-tokenizer is "smollm"; ValueError for any other."""

    def field(name: str):
        return file.fields[f"tokenizer.ggml.{name}"].contents()

    kind = field("model"), field("pre")
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"the tokenizer is {kind}; it must be ('gpt2', 'smollm')")
    tokens = field("tokens")
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ", 1)) for merge in field("merges")],
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, type in zip(tokens, field("token_type"), strict=True) if type == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def chat(prompt: str, system: str = _SYSTEM) -> str:
    """Returns what the model sees where a user says `prompt`."""
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
