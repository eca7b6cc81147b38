# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CPUs, and the least cycles that operations take on them."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import tomllib
from operations import NOTHING, Operation, UnknownInstruction

CPUS = Path(__file__).resolve().parent / "cpus"
ISSUE = "issue"

Ports = frozenset[str]


def parse_ports(text: str) -> Counter[Ports]:
    """Reads micro-operations, as in "2*p01+p5": two on port 0 or 1, and one on port 5."""
    uops = Counter()
    for term in filter(None, text.split("+")):
        count, _, ports = term.rpartition("*")
        letters = re.findall(r"([a-z])([0-9A-F]+)", ports)
        uops[frozenset(letter + number for letter, numbers in letters for number in numbers)] += int(count or 1)
    return uops


def show_ports(ports: Ports) -> str:
    letters = sorted({port[0] for port in ports})
    return "".join(letter + "".join(sorted(p[1:] for p in ports if p[0] == letter)) for letter in letters)


@dataclass(frozen=True)
class Bound:
    cycles: float
    by: str  # the ports, or ISSUE


def bound_by_ports(uops: Mapping[Ports, float]) -> Bound:
    """Returns the least cycles in which ports, each one micro-operation a cycle, execute all.

    Some set of ports is full all the time: those that may go nowhere else, divided by its ports. It is a union of what
    single micro-operations may go to, so that all unions are tried.
    """
    kinds = [kind for kind, count in uops.items() if count]
    unions = set()
    for n in range(1, len(kinds) + 1):
        for chosen in combinations(kinds, n):
            unions.add(frozenset().union(*chosen))
    best = Bound(0, "nothing")
    for ports in sorted(unions, key=lambda ports: (len(ports), show_ports(ports))):
        cycles = sum(count for kind, count in uops.items() if kind <= ports) / len(ports)
        if cycles > best.cycles * (1 + 1e-9):
            best = Bound(cycles, show_ports(ports))
    return best


class Cpu:
    """A file of cpus/."""

    def __init__(self, path: Path):
        table = tomllib.loads(path.read_text())
        self.file: str = path.stem
        self.name: str = table["name"]
        self.isas: list[str] = table["isas"]
        self.issue: int = table["issue"]
        self.one_slot: bool = table["slots"] == "one"
        self.sve_bytes: int = table.get("sve_bytes", 0)
        self.closed_by_zmm: Ports = frozenset().union(*parse_ports(table.get("closed_by_zmm", "")))
        self.load: dict[str, str] = table["load"]
        self.broadcast: dict[str, str] = table.get("broadcast", {})
        self.store: dict[str, str] = table["store"]
        self.writeback: str = table.get("writeback", "")
        self.ports: dict[str, dict[str, str]] = {}
        for entry in table["ports"]:
            for kind in entry["classes"].split():
                if kind in self.ports:
                    raise ValueError(f"{path.name}: {kind} stands there twice")
                self.ports[kind] = entry

    def look_up(self, widths: Mapping[str, str], width: str) -> str | None:
        # xmm is executed as ymm is, where nothing else is said.
        for key in (width, "y" if width == "x" else width, "all"):
            if key in widths:
                return widths[key]
        return None

    def compute(self, op: Operation) -> str:
        if op.kind == NOTHING:
            return ""
        entry = self.ports.get(op.kind, {})
        found = (self.look_up(entry, op.width + "_load") or entry.get("all_load")) if op.load else None
        found = found or self.look_up(entry, op.width)
        if found is None:
            raise UnknownInstruction(f"{self.name} has no ports for {op.name}: {op.kind}, width {op.width}")
        return found

    def cost(self, op: Operation) -> tuple[Counter[Ports], int]:
        """Returns the micro-operations of an operation, and the slots of issue that it takes."""
        uops = parse_ports(self.compute(op))
        slots = self.ports.get(op.kind, {}).get("slots", 1 if self.one_slot else max(1, uops.total()))
        if op.load:
            text = self.look_up(self.broadcast, op.width) if op.load == "b" else None
            text = text or self.look_up(self.load, "r" if op.load == "b" else op.load)
            for ports, count in parse_ports(text).items():
                uops[ports] += count * op.loads
            slots += not self.one_slot and op.split
        if op.store:
            for ports, count in parse_ports(self.look_up(self.store, op.store)).items():
                uops[ports] += count * op.stores
        if op.writeback:
            uops += parse_ports(self.writeback)
        return uops, slots

    def bound(self, mix: Mapping[Operation, float]) -> Bound:
        """Returns the least cycles in which the operations are issued and executed."""
        wide = any(op.width == "z" for op in mix) and self.closed_by_zmm
        uops: Counter[Ports] = Counter()
        issued = 0.0
        for op, count in mix.items():
            taken, slots = self.cost(op)
            issued += slots * count
            for ports, n in taken.items():
                # Only what computes on vectors is kept away.
                open_ports = ports - self.closed_by_zmm if wide and op.width in "xyz" else ports
                uops[open_ports or ports] += n * count
        best = bound_by_ports(uops)
        by_issue = issued / self.issue
        return best if best.cycles >= by_issue else Bound(by_issue, ISSUE)


def read_cpus() -> list[Cpu]:
    return [Cpu(path) for path in sorted(CPUS.glob("*.toml"))]
