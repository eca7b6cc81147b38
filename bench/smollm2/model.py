# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SmolLM2-135M-Instruct (the LLaMA architecture) on packed weights, as three programs and a host loop over the layers.

One layer is compiled once and called for each: a single function of 30 layers compiles 50 times slower. Weights are
arguments, so that they can be mapped from a file.
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
    """ids i64 [T], packed embedding [vocabulary, width] -> x f32 [T, width]"""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config

    def forward(self, ids: Tensor, embedding: Tensor) -> Tensor:
        return torch.ops.quantized.embedding.packed(ids, embedding, self.config.width)


class Head(torch.nn.Module):
    """x f32 [T, width], norm f32 [width], packed embedding -> logits f32 [T, vocabulary]"""

    def __init__(self, config: Config, lhs: str):
        super().__init__()
        self.config, self.lhs = config, lhs

    def forward(self, x: Tensor, norm: Tensor, embedding: Tensor) -> Tensor:
        x = rms_norm(x, norm, self.config.norm_epsilon)
        return torch.ops.quantized.matmul.packed(x, embedding, self.config.vocabulary, self.lhs)


class Layer(torch.nn.Module):
    """x f32 [T, width] at positions pos .. pos+T-1 -> x f32 [T, width]

    k_cache f32 [kv_heads, head_dim, CONTEXT] and v_cache f32 [kv_heads, CONTEXT, head_dim] are written in place at
    pos .. pos+T-1. Keys lie transposed, so that both products of attention run along a contiguous axis.
    """

    def __init__(self, config: Config, lhs: str):
        super().__init__()
        self.config, self.lhs = config, lhs
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        self.register_buffer("frequencies", (config.rope_base**-exponents).float())

    def matmul(self, x: Tensor, packed: Tensor, n: int) -> Tensor:
        return torch.ops.quantized.matmul.packed(x, packed, n, self.lhs)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # GGUF orders the rows of q and k so that pairs are neighbours. Pairs are read, halves written: q k^T does not
        # see a permutation that both share.
        pairs = x.reshape(*x.shape[:-1], self.config.head_dim // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(
        self,
        x,
        pos: int,
        k_cache,
        v_cache,
        attn_q,
        attn_k,
        attn_v,
        attn_output,
        ffn_gate,
        ffn_up,
        ffn_down,
        attn_norm,
        ffn_norm,
    ) -> Tensor:
        c = self.config
        tokens, end = x.shape[0], pos + x.shape[0]
        positions = torch.arange(tokens) + pos
        angles = positions.float()[:, None] * self.frequencies[None]
        cos, sin = torch.cos(angles)[:, None], torch.sin(angles)[:, None]

        h = rms_norm(x, attn_norm, c.norm_epsilon)
        q = self.rotate(self.matmul(h, attn_q, c.width).reshape(tokens, c.heads, c.head_dim), cos, sin)
        k = self.rotate(self.matmul(h, attn_k, c.kv_width).reshape(tokens, c.kv_heads, c.head_dim), cos, sin)
        v = self.matmul(h, attn_v, c.kv_width).reshape(tokens, c.kv_heads, c.head_dim)
        k_cache[:, :, pos:end] = k.permute(1, 2, 0)
        v_cache[:, pos:end] = v.permute(1, 0, 2)

        # The query heads that share a key head become rows of one matrix.
        shared = c.heads // c.kv_heads
        q = (q * c.head_dim**-0.5).reshape(tokens, c.kv_heads, shared, c.head_dim).permute(1, 2, 0, 3)
        scores = torch.bmm(q.reshape(c.kv_heads, shared * tokens, c.head_dim), k_cache[:, :, :end])
        if not (isinstance(tokens, int) and tokens == 1):
            future = torch.arange(end)[None] > positions[:, None]
            scores = scores.reshape(c.kv_heads, shared, tokens, end).masked_fill(future, -math.inf)
            scores = scores.reshape(c.kv_heads, shared * tokens, end)
        # Softmax, with the division after the product: there it touches head_dim values, not `end`.
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        attention = torch.bmm(weights, v_cache[:, :end]) / weights.sum(-1, keepdim=True)
        attention = attention.reshape(c.kv_heads, shared, tokens, c.head_dim).permute(2, 0, 1, 3)
        x = x + self.matmul(attention.reshape(tokens, c.width), attn_output, c.width)

        h = rms_norm(x, ffn_norm, c.norm_epsilon)
        gate = self.matmul(h, ffn_gate, c.ffn)
        return x + self.matmul(gate * torch.sigmoid(gate) * self.matmul(h, ffn_up, c.ffn), ffn_down, c.width)
