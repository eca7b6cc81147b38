# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the machine code of the kernels, and fails where a hot loop spills: hot_loops.py c++ objdump objects-of-libqmm

A hot loop is one that holds the kernel's main multiplies. A compiler that runs out of registers there stores vectors to
the stack and loads them again, without a word, and may halve the speed. Besides, a kernel may not hold instructions of
another ISA, and may call nothing but memcpy and memset; nor may a quantizer. Scalar ones are not looked at.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
KERNELS = TESTS.parent / "kernels/kernels.inc"
CALLABLE = {"memcpy", "memset"}


@dataclass(frozen=True)
class Machine:
    """What to know of an architecture: regular expressions on instructions as objdump prints them."""

    options: tuple[str, ...]  # of objdump
    forbidden: dict[str, str]  # ISA: what its kernels must not hold
    vector: str  # a vector register
    stack: str  # a vector in memory, on the stack
    frame: str  # makes a frame pointer, where a function has one
    frame_stack: str  # one relative to that
    jump: str  # a jump, and the address it goes to
    leave: str  # does not go on to the next instruction
    multiplies: tuple[str, ...]  # of integers, from narrow ones to wide ones
    fma: str  # of floats


AVX512 = r"zmm|\bk[0-7]\b|[xy]mm(1[6-9]|2\d|3[01])"
OTHER = r"vgf2p8|vpmadd52|vpermi?b\b|vpopcnt|ph\b.*\{rn-sae\}"
MACHINES = {
    "elf64-x86-64": Machine(
        options=("-M", "intel"),
        forbidden={
            "avx2": rf"{AVX512}|vpdp|{OTHER}",
            "avxvnni": rf"{AVX512}|vpdpb(?!usd\b)|vpdpw(?!ssd\b)|{OTHER}",
            "avxvnniint8": rf"{AVX512}|vpdpb(?!usd\b|ssd\b)|vpdpw(?!ssd\b)|{OTHER}",
            "avx512": rf"vpdp|{OTHER}",
            "avx512vnni": rf"vpdpb(?!usd\b)|vpdpw(?!ssd\b)|{OTHER}",
            "amx": rf"vpdpb(?!usd\b)|vpdpw(?!ssd\b)|{OTHER}",
        },
        vector=r"[xyz]mm\d",
        stack=r"[XYZ]MMWORD PTR \[rsp\b[^]]*",
        frame=r"mov +rbp,rsp|lea +rbp,\[rsp\b",
        frame_stack=r"[XYZ]MMWORD PTR \[rbp\b[^]]*",
        jump=r"(?:(?:bnd|notrack) )?j\w+ +([0-9a-f]+)\b",
        leave=r"(?:(?:bnd|notrack) )?(?:jmp|ret|ud2|hlt)\b",
        multiplies=("vpmaddubsw", "vpdpbusd", "vpdpbssd", "tdpb[us][us]d", "vpmaddwd"),
        fma=r"vfmadd\d+ps",
    ),
    "elf64-littleaarch64": Machine(
        options=(),
        forbidden={
            "neon": r"[su]dot\b|mmla\b|\bz\d",
            "neon_dotprod": r"mmla\b|\bz\d",
            "neon_i8mm": r"[su]dot\b|\bz\d",
            "sve": r"mmla\b|dot\s+v",
            "sve_i8mm": r"(?:mmla|dot)\s+v",
        },
        vector=r"\b[vqz]\d",
        stack=r"\[sp\b[^]]*",
        frame=r"mov\s+x29, sp|add\s+x29, sp",
        frame_stack=r"\[x29\b[^]]*",
        jump=r"(?:b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+, #\w+,)\s+([0-9a-f]+)\b",
        leave=r"(?:b|br|ret|brk|udf)\b(?!\.)",
        multiplies=(r"sm(?:ull|lal)2?\b", r"[su]dot\b|smmla\b"),
        fma=r"fmla\b",
    ),
}


@dataclass
class Instruction:
    address: int
    text: str
    relocated: bool = False  # it goes to, or reads, what the linker finds


Block = list[Instruction]  # one that is entered at its begin and left at its end


@dataclass
class Loop:
    blocks: set[int]  # indices, with those of inner loops
    own: list[Block] = field(default_factory=list)  # those of no inner loop


@dataclass
class Code:
    machine: Machine
    functions: list[list[Instruction]]
    undefined: set[str]  # symbols


def read_object(objdump: str, path: Path) -> Code:
    def read(*options: str) -> str:
        return subprocess.run([objdump, *options, path], check=True, capture_output=True, text=True).stdout

    symbols = read("--syms")
    form = re.search(r"file format (\S+)", symbols)[1]
    if form not in MACHINES:
        sys.exit(f"{path} is of format {form}; hot_loops.py knows {', '.join(MACHINES)}")
    machine = MACHINES[form]
    functions: list[list[Instruction]] = []
    for line in read("--disassemble", "--reloc", "--no-show-raw-insn", *machine.options).splitlines():
        if re.match(r"[0-9a-f]+ <.*>:$", line):
            functions.append([])
        elif re.match(r"\s+[0-9a-f]+: R_", line):
            functions[-1][-1].relocated = True
        elif match := re.match(r" *([0-9a-f]+):\t(.*?)(?:<| +(?:#|//) |$)", line):
            functions[-1].append(Instruction(int(match[1], 16), match[2].strip().removeprefix("{vex} ")))
    return Code(machine, functions, set(re.findall(r"\*UND\*\s+\S+\s+(\S+)$", symbols, re.MULTILINE)))


def count(pattern: str, instructions: list[Instruction]) -> int:
    return sum(re.match(pattern, i.text) is not None for i in instructions)


def split_blocks(machine: Machine, function: list[Instruction]) -> tuple[list[Block], set[tuple[int, int]]]:
    """Returns the basic blocks, in order, and which of them may follow which, by index."""
    target = {i.address: int(m[1], 16) for i in function if (m := re.match(machine.jump, i.text)) and not i.relocated}
    blocks: list[Block] = [[]]
    for i in function:
        if blocks[-1] and i.address in target.values():
            blocks.append([])
        blocks[-1].append(i)
        if i.address in target or re.match(machine.leave, i.text):
            blocks.append([])
    blocks = [block for block in blocks if block]
    index = {block[0].address: b for b, block in enumerate(blocks)}
    jumps = {(b, index.get(target.get(block[-1].address))) for b, block in enumerate(blocks)}
    falls = {(b, b + 1) for b, block in enumerate(blocks[:-1]) if not re.match(machine.leave, block[-1].text)}
    return blocks, {(b, to) for b, to in jumps | falls if to is not None}


def find_cycles(within: set[int], edges: set[tuple[int, int]]) -> Iterator[set[int]]:
    """Yields the loops of blocks, and then those within them: an inner one does not pass where the outer is entered."""
    inside = [(b, to) for b, to in edges if b in within and to in within]
    after, before = defaultdict(list), defaultdict(list)
    for b, to in inside:
        after[b].append(to)
        before[to].append(b)

    def reach(b: int, ways: dict[int, list[int]]) -> set[int]:
        found, rest = set(), [b]
        while rest:
            new = set(ways[rest.pop()]) - found
            found |= new
            rest += new
        return found

    rest = set(within)
    while rest:
        b = rest.pop()
        cycle = reach(b, after) & reach(b, before)
        rest -= cycle
        if cycle:
            yield cycle
            entrances = {to for b, to in edges if to in cycle and b not in cycle}
            yield from find_cycles(cycle - (entrances or {min(cycle)}), edges)


def find_loops(machine: Machine, function: list[Instruction]) -> list[Loop]:
    blocks, edges = split_blocks(machine, function)
    loops = sorted(map(Loop, find_cycles(set(range(len(blocks))), edges)), key=lambda loop: len(loop.blocks))
    for b, block in enumerate(blocks):
        if innermost := next((loop for loop in loops if b in loop.blocks), None):
            innermost.own.append(block)
    return loops


def find_hot_loops(loops: list[Loop], main: str) -> list[list[Block]]:
    """Returns the blocks of each hot loop: of an innermost loop that multiplies; and of one around it those that
    multiply more than twice as much, in case that a loop is unrolled there. What multiplies less ends a group."""

    def densest(loop: Loop) -> int:
        return max((count(main, block) for block in loop.own), default=0)

    hot = []
    for loop in loops:
        inner = max((densest(other) for other in loops if other.blocks < loop.blocks), default=0)
        if densest(loop) > 2 * inner:
            hot.append([block for block in loop.own if not inner or count(main, block) > 2 * inner])
    return sorted(hot, key=lambda blocks: blocks[0][0].address)


def find_spills(machine: Machine, stack: str, block: Block) -> list[Instruction]:
    """Returns the instructions that spill in a block of a hot loop: those with a vector on the stack.

    Where multiplies of several widths meet, the wider ones end chains of the narrowest, each in a sum of the group,
    which may well live in memory: a place on the stack for each of them, loaded once and stored once, is no spill."""
    places: dict[str, list[Instruction]] = {}
    for i in block:
        if re.search(machine.vector, i.text) and (place := re.search(stack, i.text)):
            places.setdefault(place[0], []).append(i)
    counts = [n for multiply in (*machine.multiplies, machine.fma) if (n := count(multiply, block))]
    sums = {place for place, users in places.items() if len(users) <= 2}
    if len(sums) > sum(counts[1:]):
        sums = set()
    return [i for place, users in places.items() if place not in sums for i in users]


def check_code(code: Code, isa: str) -> list[str]:
    """Returns what a kernel or quantizer may not do, and this one does."""
    machine = code.machine
    if isa not in machine.forbidden:
        return [f"hot_loops.py does not know the ISA {isa}"]
    everything = [i for function in code.functions for i in function]
    faults = [f"calls {name}" for name in sorted(code.undefined - CALLABLE)]
    if forbidden := [i for i in everything if re.search(machine.forbidden[isa], i.text)]:
        faults.append(f"{len(forbidden)} instructions that {isa} does not have, as {forbidden[0].text}")
    return faults


def main_multiply(machine: Machine, floats: bool) -> str:
    """Returns the pattern of what a kernel, of floats or of integers, multiplies by. What one of integers multiplies as
    floats belongs to the end of a group."""
    return machine.fma if floats else "|".join(machine.multiplies)


def is_of_floats(kernel: str) -> bool:
    return kernel.startswith("qmm_f32_f32_")


def check_loops(code: Code, floats: bool) -> list[str]:
    """Prints the hot loops of a kernel, of floats or of integers; returns what is wrong with them."""
    machine = code.machine
    everything = [i for function in code.functions for i in function]
    faults = []
    main = main_multiply(machine, floats)

    found = in_loops = 0
    for function in code.functions:
        framed = any(re.match(machine.frame, i.text) for i in function)
        stack = f"{machine.stack}|{machine.frame_stack}" if framed else machine.stack
        loops = find_loops(machine, function)
        in_loops += sum(count(main, block) for loop in loops for block in loop.own)
        for blocks in find_hot_loops(loops, main):
            found += 1
            spills = [i for block in blocks for i in find_spills(machine, stack, block)]
            mix = Counter(i.text.split()[0] for block in blocks for i in block)
            most = ", ".join(f"{n} {name}" for name, n in mix.most_common(6))
            print(f"  {blocks[0][0].address:6x}: {len(spills)} spills, {mix.total()} instructions: {most}")
            if spills:
                faults.append(f"a hot loop spills {len(spills)} times, as {spills[0].address:x}: {spills[0].text}")
    if not found:
        faults.append(f"no hot loop found: no loop holds {main}")
    if in_loops != count(main, everything):
        faults.append(f"{count(main, everything) - in_loops} of {count(main, everything)} {main} are in no loop")
    return faults


def check_fixture(compiler: str, objdump: str, rows: int, spills: bool) -> list[str]:
    """Checks the check itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fixture.o")
        command = [compiler, "-O3", f"-DROWS={rows}", "-c", TESTS / "hot_loops_fixture.cc", "-o", path]
        subprocess.run(command, check=True)
        print(f"fixture of {rows} rows")
        faults = check_loops(read_object(objdump, path), floats=False)
    if spills:
        return [] if any("spills" in fault for fault in faults) else ["its spills were not found"]
    return faults


def main(compiler: str, objdump: str, *objects: str) -> list[str]:
    # The preprocessor leaves this machine's rows of the table.
    macros = ["-DQMM_KERNEL(name, ...)=kernel name", "-DQMM_QUANTIZER(name, ...)=quantizer name"]
    command = [compiler, "-E", "-P", *macros, "-x", "c++", KERNELS]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"(kernel|quantizer) (\w+)", table)
    if not rows:
        return [f"no row found in {KERNELS}"]
    rows = [(kind, name) for kind, name in rows if not name.endswith("_scalar")]
    print(f"{len(rows)} rows beyond scalar")
    faults = []
    if rows:
        faults += [f"fixture of 4 rows: {fault}" for fault in check_fixture(compiler, objdump, 4, spills=False)]
        faults += [f"fixture of 8 rows: {fault}" for fault in check_fixture(compiler, objdump, 8, spills=True)]
    paths = {Path(path).name.split(".")[0]: Path(path) for path in objects}
    for kind, name in rows:
        print(name)
        if name not in paths:
            faults.append(f"{name}: no object")
            continue
        code = read_object(objdump, paths[name])
        found = check_code(code, re.search(r"\dx\d+_([a-z]\w*)$", name)[1])
        if kind == "kernel":
            found += check_loops(code, floats=is_of_floats(name))
        faults += [f"{name}: {fault}" for fault in found]
    return faults


if __name__ == "__main__":
    found = main(*sys.argv[1:])
    print("\n".join(found))
    sys.exit(bool(found))
