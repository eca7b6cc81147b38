# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads instructions, as objdump prints them, as operations: what the ports of a CPU have to do."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import tomllib

HERE = Path(__file__).resolve().parent
NOTHING = "nothing"


@dataclass(frozen=True)
class Operation:
    """The part of an instruction that computes, and its loads and stores."""

    kind: str = NOTHING  # a class of x86.toml or aarch64.toml
    width: str = "r"  # of the widest register: x, y, z of x86; v, z (SVE) of Arm; t, a tile; else r
    load: str = ""  # the width of what is loaded, "b" where it is spread to all lanes
    loads: int = 1
    store: str = ""
    stores: int = 1
    split: bool = False  # a load that takes a slot of its own, on a CPU that has the two in one slot otherwise
    writeback: bool = False  # it changes the register of an address
    name: str = ""  # the instruction, for people


class UnknownInstruction(Exception):
    pass


def read_classes(path: Path) -> dict[str, dict[str, str]]:
    """Returns the class of each instruction, by section."""
    sections = tomllib.loads(path.read_text())
    return {
        section: {name: kind for kind, names in classes.items() for name in names.split()}
        for section, classes in sections.items()
    }


def split_operands(text: str) -> list[str]:
    """Splits at commas that are in no brackets."""
    return [part.strip() for part in re.findall(r"(?:\[[^]]*\]|\{[^}]*\}|[^,\[{])+", text)]


class X86:
    objdump = "objdump"
    classes = read_classes(HERE / "x86.toml")
    fused = ("cmp", "test", "add", "sub", "and", "inc", "dec")  # with the jump that follows
    widths = (("t", r"\btmm\d"), ("z", r"\bzmm\d|\bZMMWORD"), ("y", r"\bymm\d|\bYMMWORD"), ("x", r"\bxmm\d|\bXMMWORD"))
    prefixes = r"(?:\{\w+\} |rep[nez]* |lock |cs |ds |data16 |notrack |bnd )*"

    def width(self, text: str) -> str:
        return next((width for width, pattern in self.widths if re.search(pattern, text)), "r")

    def parse(self, text: str) -> Operation:
        name, _, rest = re.sub(f"^{self.prefixes}", "", text).partition(" ")
        for conditional in ("cmov", "set", "j"):
            if name.startswith(conditional):
                name = conditional
        operands = split_operands(rest)
        memory = next((i for i, operand in enumerate(operands) if "[" in operand), None)
        if name in ("lea", "nop"):
            memory = None
        vector = re.search(r"\b[xyzt]mm\d|\bk\d", rest) is not None
        kind = self.classes["vector" if vector else "scalar"].get(name)
        if kind is None:
            raise UnknownInstruction(text)
        op = Operation(kind, self.width(rest), name=name)
        registers = [operand for i, operand in enumerate(operands) if i != memory]

        if kind == "stack":
            return replace(op, kind=NOTHING, **{"store" if name == "push" else "load": "r"})
        if kind == "prefetch":
            return replace(op, kind=NOTHING, load="r")
        if kind in ("tile_load", "tile_store"):
            return op
        if name == "call":
            return replace(op, store="r")
        if name == "ret":
            return replace(op, load="r")
        if memory is None:
            sources = registers[1:]
            zero = kind in ("logic", "add", "integer") and len(set(registers[-2:])) == 1 and len(registers) > 1
            if zero and re.match(r"v?p?(xor|sub)", name):
                return replace(op, kind=NOTHING)
            if kind == "vector_copy" or (name == "mov" and re.match(r"r|e", sources[0])):
                return replace(op, kind=NOTHING) if "{k" not in rest else op
            return op

        where = operands[memory]
        size = self.width(where)
        indexed = re.search(r"[*]\d", where) is not None
        spreads = kind == "broadcast" or "BCST" in where or "{1to" in where
        if spreads:
            size = "b"
        moves = kind in ("copy", "vector_copy", "broadcast") or (kind == "from_integer" and len(operands) == 2)
        if memory == 0 and name not in ("cmp", "test"):
            # A narrow part of a register may take a shuffle on its way out.
            extracts = kind == "permute"
            change = not moves and not extracts
            op = replace(op, kind=NOTHING if moves else kind, store=size if size != "b" else "r")
            return replace(op, load="r") if change else op
        if moves and "{k" not in rest:
            return replace(op, kind=NOTHING, load=size)
        # Three operands and an index are too many for one slot, unless the first is one that is read as well.
        return replace(op, load=size, split=indexed and len(operands) > 2)


class AArch64:
    objdump = "aarch64-linux-gnu-objdump"
    classes = read_classes(HERE / "aarch64.toml")
    fused = ("cmp", "cmn", "tst")
    vector = r"\b[vqdshb]\d+\b(?!\])|\bz\d+"

    def parse(self, text: str) -> Operation:
        name, _, rest = text.partition("\t") if "\t" in text else text.partition(" ")
        rest = rest.strip()
        if name.startswith("b."):
            name = "b"
        if self.classes["scalar"].get(name) == "branch":
            return Operation("branch", name=name)  # the address it goes to may look like a register: d10
        operands = split_operands(rest)
        # An address to go to may look as a register does.
        branch = self.classes["scalar"].get(name) == "branch"
        is_vector = not branch and re.search(self.vector, re.sub(r"\[[^]]*\]", "", rest)) is not None
        width = ("z" if re.search(r"\bz\d+", rest) else "v") if is_vector else "r"
        op = Operation(NOTHING, width, name=name)

        memory = self.classes["memory"].get(name)
        if memory:
            count = 2 if name in ("ldp", "ldnp", "stp", "stnp", "ldpsw") else 1
            if name == "stp" and width == "r":
                count = 1  # of 16 bytes, as LLVM's models have it
            if match := re.match(r"\{([^}]*)\}", rest):
                first, _, last = match[1].partition("-")
                count = len(match[1].split(",")) if not last else self.number(last) - self.number(first) + 1
            writeback = "]!" in rest or re.search(r"\], *[#x]", rest) is not None
            op = replace(op, writeback=writeback)
            if memory == "store":
                return replace(op, store=width, stores=count)
            return replace(op, load="b" if memory == "broadcast" else width, loads=count)

        if is_vector:
            general = [re.match(r"[wx]\d|[wx]zr|sp", operand) is not None for operand in operands]
            kind = self.classes["vector"].get(name)
            if any(general[1:]) and name in ("dup", "mov", "ins", "fmov", "insr"):
                kind = "from_integer"
            elif general and general[0] and name in ("mov", "umov", "smov", "fmov"):
                kind = "to_integer"
        else:
            kind = self.classes["scalar"].get(name)
        if kind is None:
            raise UnknownInstruction(text)
        if kind == "vector_copy" and name == "movi" and re.search(r"#(0x)?0+$", rest):
            return op  # a zero
        return replace(op, kind=kind)

    @staticmethod
    def number(register: str) -> int:
        return int(re.search(r"\d+", register)[0])


def parse_all(machine: X86 | AArch64, texts: Iterable[str]) -> Iterator[Operation | None]:
    """Yields an operation for each instruction, but None for one that is fused with the jump after it."""
    texts = list(texts)
    for text, after in zip(texts, [*texts[1:], ""], strict=True):
        op = machine.parse(text)
        jump = re.match(r"j(?!mp)\w+ |b\.\w+", after)
        yield None if op.name in machine.fused and jump and not op.store else op
