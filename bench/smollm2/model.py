# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SmolLM2-135M-Instruct (the LLaMA architecture) on packed weights, as programs that a host calls layer by layer.

One layer is compiled once and called for each: a single function of 30 layers compiles 50 times slower. Weights are
arguments, so that they can be mapped from a file. Attention is a program of its own, for one key head and a block of
tokens: the host runs several of them at a time, and none of them looks at keys beyond its last token.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

import libqmm.torch  # noqa: F401  (registers torch.ops.quantized.*.packed)
from checkpoint import Config


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * weight


class Embed(torch.nn.Module):
    """ids i64 [T], packed embedding [vocabulary, width] -> x f32 [T, width]; cos and sin f32 [T, head_dim / 2] of the
    angles by which heads turn at positions pos .. pos+T-1
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        self.register_buffer("frequencies", (config.rope_base**-exponents).float())

    def forward(self, ids: Tensor, pos: int, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.ops.quantized.embedding.packed(ids, embedding, self.config.width)
        angles = (torch.arange(ids.shape[0]) + pos).float()[:, None] * self.frequencies[None]
        return x, torch.cos(angles), torch.sin(angles)


class Head(torch.nn.Module):
    """x f32 [T, width], norm f32 [width], packed embedding -> logits f32 [T, vocabulary]"""

    def __init__(self, config: Config, lhs: str):
        super().__init__()
        self.config, self.lhs = config, lhs

    def forward(self, x: Tensor, norm: Tensor, embedding: Tensor) -> Tensor:
        x = rms_norm(x, norm, self.config.norm_epsilon)
        return torch.ops.quantized.matmul.packed(x, embedding, self.config.vocabulary, self.lhs)


class Project(torch.nn.Module):
    """The first part of a layer: x f32 [T, width] at positions pos .. pos+T-1 becomes queries, keys and values.

    Written in place: queries f32 [kv_heads, >= T * shared, head_dim], its first T * shared rows, token by token those
    of the query heads that share the key head; k_cache f32 [kv_heads, head_dim, CONTEXT] and v_cache f32 [kv_heads,
    CONTEXT, head_dim] at pos .. pos+T-1. Keys lie transposed, so that both products of attention run along a contiguous
    axis.
    """

    def __init__(self, config: Config, lhs: str):
        super().__init__()
        self.config, self.lhs = config, lhs

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # GGUF orders the rows of q and k so that pairs are neighbours. Pairs are read, halves written: q k^T does not
        # see a permutation that both share.
        pairs = x.reshape(*x.shape[:-1], self.config.head_dim // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x, cos, sin, pos: int, queries, k_cache, v_cache, attn_qkv, attn_norm) -> None:
        c = self.config
        tokens, end = x.shape[0], pos + x.shape[0]
        h = rms_norm(x, attn_norm, c.norm_epsilon)
        qkv = torch.ops.quantized.matmul.packed(h, attn_qkv, c.width + 2 * c.kv_width, self.lhs)
        q, k, v = qkv.split([c.width, c.kv_width, c.kv_width], -1)
        cos, sin = cos[:, None], sin[:, None]
        q = self.rotate(q.reshape(tokens, c.heads, c.head_dim), cos, sin) * c.head_dim**-0.5
        k = self.rotate(k.reshape(tokens, c.kv_heads, c.head_dim), cos, sin)
        v = v.reshape(tokens, c.kv_heads, c.head_dim)
        q = q.reshape(tokens, c.kv_heads, c.shared, c.head_dim).permute(1, 0, 2, 3)
        queries[:, : tokens * c.shared] = q.reshape(c.kv_heads, tokens * c.shared, c.head_dim)
        k_cache[:, :, pos:end] = k.permute(1, 2, 0)
        v_cache[:, pos:end] = v.permute(1, 0, 2)


class Attend(torch.nn.Module):
    """rows f32 [R, head_dim], queries at positions pos .. pos+R/shared-1, become what they attend to, in place.

    k f32 [head_dim, CONTEXT] and v f32 [CONTEXT, head_dim] are those of one head; end >= pos + R/shared says how many
    are read. Where it is a multiple of a tile, no remainder is left to plain loops.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config

    def forward(self, rows, pos: int, end: int, k, v) -> None:
        positions = torch.arange(rows.shape[0], dtype=torch.int32) // self.config.shared + pos
        future = torch.arange(end, dtype=torch.int32)[None] > positions[:, None]
        scores = (rows @ k[:, :end]).masked_fill(future, -math.inf)
        # Softmax, with the division after the product: there it touches head_dim values, not `end`.
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        rows[:] = (weights @ v[:end]) / weights.sum(-1, keepdim=True)


class Finish(torch.nn.Module):
    """The last part of a layer: x f32 [T, width] and what it attends to, as Attend left it, -> x f32 [T, width]"""

    def __init__(self, config: Config, lhs: str):
        super().__init__()
        self.config, self.lhs = config, lhs

    def matmul(self, x: Tensor, packed: Tensor, n: int) -> Tensor:
        return torch.ops.quantized.matmul.packed(x, packed, n, self.lhs)

    def forward(self, x, attention, attn_output, ffn_gate_up, ffn_down, ffn_norm) -> Tensor:
        c, tokens = self.config, x.shape[0]
        attention = attention[:, : tokens * c.shared].reshape(c.kv_heads, tokens, c.shared, c.head_dim)
        x = x + self.matmul(attention.permute(1, 0, 2, 3).reshape(tokens, c.width), attn_output, c.width)
        h = rms_norm(x, ffn_norm, c.norm_epsilon)
        gate, up = self.matmul(h, ffn_gate_up, 2 * c.ffn).chunk(2, -1)
        return x + self.matmul(gate * torch.sigmoid(gate) * up, ffn_down, c.width)
