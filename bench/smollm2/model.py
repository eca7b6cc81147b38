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
    """ids i64 [T] at positions pos .. pos+T-1, packed embedding [vocabulary, width]

    Written: x f32 [T, width]; cos and sin f32 [T, head_dim / 2] of the angles by which heads turn.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        self.register_buffer("frequencies", (config.rope_base**-exponents).float())

    def forward(self, ids, pos: int, x, cos, sin, embedding) -> None:
        x[:] = torch.ops.quantized.embedding.packed(ids, embedding, self.config.width)
        angles = (torch.arange(ids.shape[0]) + pos).float()[:, None] * self.frequencies[None]
        cos[:], sin[:] = torch.cos(angles), torch.sin(angles)


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

    Written: queries f32 [kv_heads, ROOM, shared, head_dim] at tokens first .. first+T-1; k_cache [kv_heads, head_dim,
    CONTEXT] and v_cache [kv_heads, CONTEXT, head_dim] at positions pos .. pos+T-1. Keys lie transposed, so that both
    products of attention run along a contiguous axis.
    """

    def __init__(self, config: Config, lhs: str):
        super().__init__()
        self.config, self.lhs = config, lhs

    def forward(self, x, cos, sin, pos: int, first: int, queries, k_cache, v_cache, attn_qkv, attn_norm) -> None:
        c, tokens = self.config, x.shape[0]
        h = rms_norm(x, attn_norm, c.norm_epsilon)
        qkv = torch.ops.quantized.matmul.packed(h, attn_qkv, c.width + 2 * c.kv_width, self.lhs)
        q, k, v = qkv.split([c.width, c.kv_width, c.kv_width], -1)
        q = self.rotate(q.reshape(tokens, c.kv_heads, c.shared, c.head_dim), cos[:, None, None], sin[:, None, None])
        k = self.rotate(k.reshape(tokens, c.kv_heads, c.head_dim), cos[:, None], sin[:, None])
        for half, q_half, k_half in zip(self.halves, q, k, strict=True):
            queries[:, first : first + tokens, :, half] = (q_half * c.head_dim**-0.5).permute(1, 0, 2, 3)
            k_cache[:, half, pos : pos + tokens] = k_half.permute(1, 2, 0).to(k_cache.dtype)
        v = v.reshape(tokens, c.kv_heads, c.head_dim).permute(1, 0, 2)
        v_cache[:, pos : pos + tokens] = v.to(v_cache.dtype)

    @property
    def halves(self) -> tuple[slice, slice]:
        middle = self.config.head_dim // 2
        return slice(0, middle), slice(middle, 2 * middle)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Turns heads [..., head_dim], whose halves are the real and imaginary parts. Returns the halves."""
        a, b = (x[..., half] for half in self.halves)
        return a * cos - b * sin, a * sin + b * cos


class Attend(torch.nn.Module):
    """rows f32 [R, head_dim], queries at positions pos .. pos+R/shared-1, become what they attend to, in place.

    k [head_dim, CONTEXT] and v [CONTEXT, head_dim] are those of one head; end >= pos + R/shared says how many are read.
    Where it is a multiple of a tile, no remainder is left to plain loops.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config

    def forward(self, rows, pos: int, end: int, k, v) -> None:
        scores = rows @ k[:, :end].float()
        # What lies in the future: only keys from `pos` on can.
        key = torch.arange(end - pos, dtype=torch.float32)
        token = torch.arange(rows.shape[0] // self.config.shared, dtype=torch.float32).repeat_interleave(
            self.config.shared
        )
        scores[:, pos:] = scores[:, pos:].masked_fill(key[None] > token[:, None], -math.inf)
        # Softmax, with the division after the product: there it touches head_dim values, not `end`.
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        rows[:] = (weights @ v[:end].float()) / weights.sum(-1, keepdim=True)


class Finish(torch.nn.Module):
    """The last part of a layer: adds to x f32 [T, width] what it attends to, and the feed-forward network, in place.

    attention f32 [kv_heads, ROOM, shared, head_dim] is what Attend made of the queries, at tokens first .. first+T-1.
    """

    def __init__(self, config: Config, lhs: str):
        super().__init__()
        self.config, self.lhs = config, lhs

    def matmul(self, x: Tensor, packed: Tensor, n: int) -> Tensor:
        return torch.ops.quantized.matmul.packed(x, packed, n, self.lhs)

    def forward(self, x, first: int, attention, attn_output, ffn_gate_up, ffn_down, ffn_norm) -> None:
        c, tokens = self.config, x.shape[0]
        attention = attention[:, first : first + tokens].permute(1, 0, 2, 3).reshape(tokens, c.width)
        y = x + self.matmul(attention, attn_output, c.width)
        h = rms_norm(y, ffn_norm, c.norm_epsilon)
        gate, up = self.matmul(h, ffn_gate_up, 2 * c.ffn).chunk(2, -1)
        x[:] = y + self.matmul(gate * torch.sigmoid(gate) * up, ffn_down, c.width)
