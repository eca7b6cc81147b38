# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SmolLM2 in plain fp32 PyTorch on dequantized weights: shares no code with libqmm and the compiled programs."""

from __future__ import annotations

from pathlib import Path

import gguf
import torch
import torch.nn.functional as F
from torch import Tensor


class Reference:
    """The model of the GGUF file at `path`, called on token ids i64 [T]: logits f32 [T, vocabulary]."""

    def __init__(self, path: Path):
        reader = gguf.GGUFReader(str(path))
        field = {name: reader.get_field(f"llama.{name}").contents() for name in self._FIELDS}
        self.layers, self.heads, self.kv_heads, self.base, self.epsilon = field.values()
        self.weights = {
            tensor.name.removesuffix(".weight"): torch.from_numpy(
                gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy()
            )
            for tensor in reader.tensors
        }

    _FIELDS = (
        "block_count",
        "attention.head_count",
        "attention.head_count_kv",
        "rope.freq_base",
        "attention.layer_norm_rms_epsilon",
    )

    @torch.no_grad()
    def __call__(self, ids: Tensor) -> Tensor:
        w = self.weights
        x = w["token_embd"][ids]
        for layer in range(self.layers):
            block = f"blk.{layer}."
            h = self._norm(x, w[block + "attn_norm"])
            q = self._rotate(self._heads(h @ w[block + "attn_q"].T, self.heads))
            k = self._rotate(self._heads(h @ w[block + "attn_k"].T, self.kv_heads))
            v = self._heads(h @ w[block + "attn_v"].T, self.kv_heads)
            attention = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + attention.transpose(0, 1).reshape(x.shape) @ w[block + "attn_output"].T
            h = self._norm(x, w[block + "ffn_norm"])
            x = x + (F.silu(h @ w[block + "ffn_gate"].T) * (h @ w[block + "ffn_up"].T)) @ w[block + "ffn_down"].T
        return self._norm(x, w["output_norm"]) @ w["token_embd"].T

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.epsilon)

    @staticmethod
    def _heads(x: Tensor, heads: int) -> Tensor:
        return x.reshape(len(x), heads, -1).transpose(0, 1)  # [heads, T, head_dim]

    def _rotate(self, x: Tensor) -> Tensor:
        """Turns each pair of neighbours, as a complex number, by its position times its frequency."""
        _, tokens, dim = x.shape
        frequencies = self.base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles = torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies)
        turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(pairs * turns).reshape(x.shape)
