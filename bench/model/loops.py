# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bounds the hot loops of the kernels, as they stand in the machine code: loops.py objdump objects-of-libqmm

Prints the MACs a cycle of each on each CPU that has its ISA, all instructions of the loop counted. Fails where the
model does not know an instruction, by its name, and where it finds no hot loop.
"""

import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import hot_loops
from operations import X86, AArch64, Operation, UnknownInstruction, parse_all
from plans import Kernel
from ports import read_cpus

MACHINES = {"elf64-x86-64": X86(), "elf64-littleaarch64": AArch64()}


def machine_of(code: hot_loops.Code) -> X86 | AArch64:
    return next(m for form, m in MACHINES.items() if hot_loops.MACHINES.get(form) is code.machine)


# Products of an instruction in 16 bytes. Where several of these are in a loop, the first is what it multiplies by, and
# the others end its sums.
MACS = {
    "vpdpbusd": 16,
    "vpdpbssd": 16,
    "vpmaddubsw": 16,
    "vpmaddwd": 8,
    "vfmadd231ps": 4,
    "vfmadd132ps": 4,
    "vfmadd213ps": 4,
    "sdot": 16,
    "smmla": 32,
    "smlal": 8,
    "smlal2": 8,
    "smull": 8,
    "smull2": 8,
    "fmla": 4,
}
PARTS = {"x": 1, "y": 2, "z": 4, "v": 1}
TILE_MACS = 16 * 16 * 64


def macs_of(mix: Counter[Operation], sve_bytes: int = 0) -> float:
    """Returns how many products the operations of a loop make, 0 if it has no multiplies."""
    tiles = sum(n for op, n in mix.items() if op.kind == "tile_product")
    if tiles:
        return tiles * TILE_MACS
    name = next((name for name in MACS if any(op.name == name for op in mix)), None)
    if name is None:
        return 0
    # SMULL begins a sum that SMLAL goes on with, and the second halves are apart.
    family = {name.removesuffix("2").replace("mull", "mlal")}
    counted = {op: n for op, n in mix.items() if op.name.removesuffix("2").replace("mull", "mlal") in family}
    return sum(
        n * MACS[op.name] * (sve_bytes / 16 if op.width == "z" and sve_bytes else PARTS[op.width])
        for op, n in counted.items()
        if op.name in MACS
    )


def read_loop(code: hot_loops.Code, blocks: list[hot_loops.Block]) -> Counter[Operation]:
    return Counter(op for block in blocks for op in parse_all(machine_of(code), [i.text for i in block]) if op)


def main(objdump: str, *objects: str) -> list[str]:
    cpus, faults, found = read_cpus(), [], 0
    for path in sorted(map(Path, objects)):
        name = path.name.split(".")[0]
        if not re.match(r"qmm_f32_", name) or name.endswith("_scalar"):
            continue
        kernel = Kernel.of(name)
        code = hot_loops.read_object(objdump, path)
        pattern = hot_loops.main_multiply(code.machine, hot_loops.is_of_floats(name))
        print(name)
        for function in code.functions:
            for blocks in hot_loops.find_hot_loops(hot_loops.find_loops(code.machine, function), pattern):
                found += 1
                try:
                    mix = read_loop(code, blocks)
                    speeds = [
                        f"{cpu.name} {macs_of(mix, cpu.sve_bytes) / bound.cycles:.1f} {bound.by}"
                        for cpu in cpus
                        if kernel.isa in cpu.isas and (bound := cpu.bound(mix))
                    ]
                except UnknownInstruction as e:
                    faults.append(f"{name}: the port model does not know {e}")
                    continue
                print(f"  {blocks[0][0].address:6x}: {', '.join(speeds)}")
    return faults if found else ["no hot loop found"]


if __name__ == "__main__":
    found = main(*sys.argv[1:])
    print("\n".join(found))
    sys.exit(bool(found))
