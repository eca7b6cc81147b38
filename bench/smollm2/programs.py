# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports the programs that the native executable calls: decode (one token) and prefill (2 .. PART tokens)."""

from __future__ import annotations

import torch
from torch.export import Dim, ExportedProgram

from checkpoint import BLOCK, CONTEXT, PART, ROOM, Config, cache_dtype
from model import Attend, Embed, Finish, Head, Project


def export(config: Config, lhs: str, program: str) -> dict[str, ExportedProgram]:
    """Returns the entries of `program`, "decode" or "prefill", by name."""
    c, decode = config, program == "decode"
    tokens = 1 if decode else 8
    rows = {} if decode else {0: Dim("tokens", min=2, max=PART)}

    # Every argument is a tensor of its own: export takes arguments that are the same tensor for one.
    def f32(*shape: int) -> torch.Tensor:
        return torch.zeros(shape)

    def cache(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype={"f32": torch.float32, "f16": torch.float16}[cache_dtype(lhs)])

    def packed() -> torch.Tensor:
        return torch.zeros(64, dtype=torch.uint8)

    def entry(module: torch.nn.Module, **arguments) -> ExportedProgram:
        """Packed weights have any size, integers any value; x and what goes with it have `rows`."""
        dynamic = {
            name: Dim.DYNAMIC
            if isinstance(value, int)
            else {0: Dim.DYNAMIC}
            if value.dtype == torch.uint8
            else rows
            if name in ("ids", "x", "cos", "sin")
            else None
            for name, value in arguments.items()
        }
        return torch.export.export(module, (), arguments, dynamic_shapes=dynamic)

    x, cos, sin = f32(tokens, c.width), f32(tokens, c.head_dim // 2), f32(tokens, c.head_dim // 2)
    queries = f32(c.kv_heads, ROOM, c.shared, c.head_dim)
    entries = {
        f"{program}_embed": entry(
            Embed(c), ids=torch.zeros(tokens, dtype=torch.int64), pos=5, x=x, cos=cos, sin=sin, embedding=packed()
        ),
        f"{program}_project": entry(
            Project(c, lhs),
            x=x,
            cos=cos,
            sin=sin,
            pos=5,
            first=7,
            queries=queries,
            k_cache=cache(c.kv_heads, c.head_dim, CONTEXT),
            v_cache=cache(c.kv_heads, CONTEXT, c.head_dim),
            attn_qkv=packed(),
            attn_norm=f32(c.width),
        ),
        f"{program}_attend": entry(
            Attend(c),
            rows=f32((1 if decode else BLOCK) * c.shared, c.head_dim),
            pos=5,
            end=32,
            k=cache(c.head_dim, CONTEXT),
            v=cache(CONTEXT, c.head_dim),
        ),
        f"{program}_finish": entry(
            Finish(c, lhs),
            x=x,
            first=7,
            attention=queries,
            attn_output=packed(),
            ffn_gate_up=packed(),
            ffn_down=packed(),
            ffn_norm=f32(c.width),
        ),
    }
    if decode:
        entries["head"] = entry(Head(c, lhs), x=x, norm=f32(c.width), embedding=packed())
    return entries
