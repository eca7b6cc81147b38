# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports the programs that the native executable calls: decode (one token) and prefill (2 .. CHUNK tokens)."""

from __future__ import annotations

import torch
from torch.export import Dim, ExportedProgram

from checkpoint import CHUNK, CONTEXT, MATRICES, NORMS, Config
from model import Embed, Head, Layer


def export(config: Config, lhs: str, program: str) -> dict[str, ExportedProgram]:
    """Returns the entries of `program`, "decode" or "prefill", by name."""
    tokens = 1 if program == "decode" else 8
    rows = {} if program == "decode" else {0: Dim("tokens", min=2, max=CHUNK)}
    ids = torch.zeros(tokens, dtype=torch.int64)
    x = torch.zeros(tokens, config.width)
    size = {0: Dim.DYNAMIC}  # packed weights of any size

    # Every argument is a tensor of its own: export takes arguments that are the same tensor for one.
    def packed() -> torch.Tensor:
        return torch.zeros(64, dtype=torch.uint8)

    def norm() -> torch.Tensor:
        return torch.ones(config.width)

    caches = {
        "k_cache": torch.zeros(config.kv_heads, config.head_dim, CONTEXT),
        "v_cache": torch.zeros(config.kv_heads, CONTEXT, config.head_dim),
    }
    weights = {**{name: packed() for name in MATRICES}, **{name: norm() for name in NORMS}}
    layer = {"x": x, "pos": 5, **caches, **weights}
    shapes = {
        "x": rows,
        "pos": Dim.DYNAMIC,
        **dict.fromkeys(caches),
        **dict.fromkeys(MATRICES, size),
        **dict.fromkeys(NORMS),
    }
    entries = {
        f"{program}_embed": torch.export.export(
            Embed(config), (), {"ids": ids, "embedding": packed()}, dynamic_shapes={"ids": rows, "embedding": size}
        ),
        f"{program}_layer": torch.export.export(Layer(config, lhs), (), layer, dynamic_shapes=shapes),
    }
    if program == "decode":
        entries["head"] = torch.export.export(
            Head(config, lhs),
            (),
            {"x": x, "norm": norm(), "embedding": packed()},
            dynamic_shapes={"x": None, "norm": None, "embedding": size},
        )
    return entries
