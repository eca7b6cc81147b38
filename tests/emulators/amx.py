# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AMX-TILE and AMX-INT8 for bochs.py, as Intel's manual describes them."""

import re
from functools import partial

import numpy as np

ROWS, ROW = 16, 64  # of the largest tile, and bytes of its rows
MNEMONICS = "ldtilecfg|tilerelease|tilezero|tileloadd|tileloaddt1|tilestored|tdpb[su][su]d"
OPERANDS = {"tdpbssd": ("i1", "i1"), "tdpbsud": ("i1", "u1"), "tdpbusd": ("u1", "i1"), "tdpbuud": ("u1", "u1")}


class Fault(Exception):
    """What is an exception on a CPU."""


class Amx:
    def __init__(self, machine, cpu):
        self.machine = machine
        self.cpu = cpu
        self.shapes = []  # (rows, bytes of a row)
        self.tiles = []  # empty: not configured

    def parse(self, text, end):
        """Returns what an instruction (in Intel syntax, `end` is the address after it) does, as a function."""
        name, _, operands = text.split("#")[0].partition(" ")
        tiles = [int(t) for t in re.findall(r"tmm(\d)", operands)]
        if name in OPERANDS:
            return partial(self.multiply, *tiles, *OPERANDS[name])
        if name in ("tileloadd", "tileloaddt1"):
            return partial(self.load, *tiles, *self.address(operands, end))
        if name == "tilestored":
            return partial(self.store, *tiles, *self.address(operands, end))
        if name == "ldtilecfg":
            return partial(self.configure, *self.address(operands, end))
        if name == "tilezero":
            return partial(self.zero, *tiles)
        return self.release

    @staticmethod
    def address(operands, end):
        """Returns base, index and scale, each a register and a number: [rax+rcx*2+0x40], [rip+0x40], ds:0x40."""
        text = re.search(r"\[(.*)\]", operands)
        base, displacement, index, scale = None, 0, None, 1
        for sign, term in re.findall(r"([+-]?)([^+-]+)", text[1] if text else operands.partition("ds:")[2]):
            if term.startswith("0x"):
                displacement += int(sign + term, 16)
            elif term == "rip":
                displacement += end
            elif "*" in term:
                index, scale = term.split("*")[0], int(term.split("*")[1])
            elif term not in ("riz", "eiz"):
                base = term
        return base, displacement, index, scale

    def at(self, base, displacement):
        return (getattr(self.cpu, base) if base else 0) + displacement & (1 << 64) - 1

    def place(self, begin, size):
        self.require(self.machine.present(begin, begin + size), f"{begin:#x} may not be touched")
        return slice(begin, begin + size)

    def require(self, condition, sentence):
        if not condition:
            raise Fault(f"AMX before {self.cpu.rip:#x}: {sentence}")

    def shape(self, tile):
        self.require(self.tiles, "no tiles are configured")
        self.require(all(self.shapes[tile]), f"tmm{tile} is not configured")
        return self.shapes[tile]

    def configure(self, base, displacement, *_):
        at = self.at(base, displacement)
        config = self.machine.memory[self.place(at, 64)]
        palette, start_row, row_bytes, rows = config[0], config[1], np.frombuffer(config, "<u2", 8, 16), config[48:56]
        if palette == 0:
            return self.release()
        self.require(palette == 1, f"palette {palette}")
        self.require(
            not any(config[2:16]) and not any(config[32:48]) and not any(config[56:]), "reserved bytes are set"
        )
        self.require(start_row == 0, f"start row {start_row} is not emulated")
        self.require(max(row_bytes) <= ROW and max(rows) <= ROWS, f"tiles of {list(rows)} rows of {row_bytes} bytes")
        self.shapes = [(int(r), int(b)) for r, b in zip(rows, row_bytes, strict=True)]
        self.tiles = [np.zeros((ROWS, ROW), np.uint8) for _ in rows]
        return None

    def release(self):
        self.tiles = []

    def zero(self, tile):
        self.shape(tile)
        self.tiles[tile][:] = 0

    def rows_in_memory(self, tile, base, displacement, index, scale):
        rows, size = self.shape(tile)
        stride = getattr(self.cpu, index) * scale if index else 0
        for row in range(rows):
            yield row, self.place(self.at(base, displacement + row * stride), size), size

    def load(self, tile, *address):
        self.zero(tile)
        for row, place, size in self.rows_in_memory(tile, *address):
            self.tiles[tile][row, :size] = np.frombuffer(self.machine.memory[place], np.uint8)

    def store(self, tile, *address):
        for row, place, size in self.rows_in_memory(tile, *address):
            self.machine.memory[place] = self.tiles[tile][row, :size].tobytes()

    def multiply(self, c, a, b, type_a, type_b):
        (rows, row_bytes), (rows_a, row_bytes_a), (rows_b, row_bytes_b) = map(self.shape, (c, a, b))
        self.require(len({a, b, c}) == 3, f"tmm{c}, tmm{a}, tmm{b} are not three tiles")
        self.require(
            rows_a == rows and row_bytes_b == row_bytes and row_bytes_a == 4 * rows_b,
            f"shapes {self.shapes[c]} += {self.shapes[a]} x {self.shapes[b]} do not fit",
        )
        k, columns = row_bytes_a, row_bytes // 4
        left = self.tiles[a][:rows, :k].view(type_a).astype(np.int32)
        # Four k of a column are side by side in a row.
        right = self.tiles[b][:rows_b, :row_bytes].view(type_b).reshape(rows_b, columns, 4)
        sums = self.tiles[c][:rows].view(np.int32)[:, :columns] + left @ right.transpose(0, 2, 1).reshape(
            k, columns
        ).astype(np.int32)
        self.zero(c)
        self.tiles[c][:rows].view(np.int32)[:, :columns] = sums
