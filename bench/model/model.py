# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The port model: what bounds each kernel on each CPU, by its plan and by its machine code.

    model.py [--keep] --x86-64 count_instructions [--aarch64 count_instructions]

Emulators run tests/count_instructions, a static program, and tell how often each instruction is executed. Prints a
table, and fails where a fraction is not the one kept in results.json, where the counts are not those that
tests/instructions.json keeps, or where the ISA of a kernel is not modelled. --keep writes results.json and results.md,
of all CPUs. Else CPUs for whose emulator a package is missing, and programs that another compiler made, are left out,
and named; with CI=true in the environment that fails.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/emulators"))

import hot_loops
from loops import macs_of
from operations import NOTHING, X86, AArch64, Operation, UnknownInstruction, parse_all
from plans import Kernel, plan
from ports import Bound, Cpu, read_cpus

from run import TIMEOUT, isa_of, missing
from run import table as kernels

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS, TABLE = HERE / "results.json", HERE / "results.md"
KEPT_COUNTS = ROOT / "tests/instructions.json"
COMPILER = "GNU 12"
COMMENT = r"GCC: \(.*\) 12\..*"  # what it leaves in a program
UPDATE = "./dev bench --ports --keep"
GOAL = 0.90
TOLERANCE = 0.02
COUNTED = "avx2"  # by callgrind: Valgrind runs no other ISA of these
DEPTH = 2048  # k of the figures; per channel a group is as long

MACHINES = {"x86-64": X86(), "aarch64": AArch64()}


class Emulated(NamedTuple):
    """A CPU of an emulator, and the ISAs that are counted on it."""

    machine: str
    arguments: tuple[str, ...]  # of counts.py
    isas: tuple[str, ...]
    sve_bytes: int = 0  # of a vector


EMULATED = (
    Emulated("x86-64", ("--cpu", "sapphire_rapids"), ("avx2", "avxvnni", "avx512", "avx512vnni")),
    Emulated("x86-64", ("--cpu", "arrow_lake"), ("avxvnniint8",)),
    Emulated("x86-64", ("--cpu", "sapphire_rapids", "--amx"), ("amx",)),
    # Reading QEMU's line for each instruction takes most of the time, so two run at once.
    Emulated("aarch64", ("--aarch64", "--cpu", "max"), ("neon",)),
    Emulated("aarch64", ("--aarch64", "--cpu", "max"), ("neon_dotprod", "neon_i8mm")),
    *(
        Emulated("aarch64", ("--aarch64", "--cpu", f"max,sve-default-vector-length={n}"), ("sve", "sve_i8mm"), n)
        for n in (16, 32)
    ),
)


class CountFailed(Exception):
    pass


@dataclass(frozen=True)
class Figure:
    """Operations for each MAC of a kernel, as executed and as planned."""

    kernel: Kernel
    group: int
    m: int
    instructions: float
    code: Counter[Operation]
    plan: Counter[Operation]
    loop: Counter[Operation]  # of its main loop alone
    sve_bytes: int = 0  # of a vector

    @property
    def grouping(self) -> str:
        return "per channel" if self.group == DEPTH else f"group {self.group}"


class LazyOperations(dict):
    """The operation at an address. Functions are read when they are asked for: of the others not all is known."""

    def __init__(self, machine: X86 | AArch64, code: hot_loops.Code):
        super().__init__()
        self.machine = machine
        self.function = {i.address: function for function in code.functions for i in function}

    def __missing__(self, address: int) -> Operation | None:
        function = self.function[address]
        at = next(n for n, i in enumerate(function) if i.address == address)
        self[address] = next(parse_all(self.machine, [i.text for i in function[at : at + 2]]))
        return self[address]


def find_main_loop(
    code: hot_loops.Code,
    kernel: Kernel,
    sve_bytes: int,
    table: dict[int, Operation | None],
    executed: dict[int, int],
) -> Counter[Operation]:
    """Returns the operations for each MAC of the hot loop that is executed most, or nothing."""
    functions = [function for function in code.functions if any(i.address in executed for i in function)]
    pattern = hot_loops.main_multiply(code.machine, hot_loops.is_of_floats(kernel.name))
    best, most = Counter(), 0.0
    for function in functions:
        for blocks in hot_loops.find_hot_loops(hot_loops.find_loops(code.machine, function), pattern):
            mix: Counter[Operation] = Counter()
            for i in (i for block in blocks for i in block):
                if op := table[i.address] if executed.get(i.address) else None:
                    mix[op] += executed[i.address]
            if (macs := macs_of(mix, sve_bytes)) > most:
                best, most = mix, macs
    return Counter({op: n / most for op, n in best.items()})


def count(emulated: Emulated, program: Path) -> Iterator[Figure]:
    pattern = f"_({'|'.join(emulated.isas)}), symmetric, .*M (1|4|128)$"
    command = [sys.executable, HERE / "counts.py", *emulated.arguments, program, pattern]
    try:
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise CountFailed(f"counts.py {' '.join(emulated.arguments)} did not end within {TIMEOUT} s") from None
    if process.returncode:  # it has said why
        raise CountFailed(f"counts.py {' '.join(emulated.arguments)} ended with exit status {process.returncode}")
    found = {name: (macs, executed) for name, (macs, executed) in json.loads(process.stdout).items()}
    if not found:
        return
    code = hot_loops.read_object(MACHINES[emulated.machine].objdump, program)
    table = LazyOperations(MACHINES[emulated.machine], code)
    for name, (macs, executed) in found.items():
        kernel_name, _, grouping, rows = name.split(" / ")[0].split(", ")
        kernel, m = Kernel.of(kernel_name), int(rows.removeprefix("M "))
        # Four rows are few to a GEMM; they are for the kernels that one row takes as well.
        if m == 4 and name.replace("M 4", "M 1").split(" / ")[0] not in {n.split(" / ")[0] for n in found}:
            continue
        group = DEPTH if grouping == "per channel" else int(grouping.removeprefix("group "))
        executed = {int(address): n for address, n in executed.items()}
        mix: Counter[Operation] = Counter()
        for address, n in executed.items():
            if op := table[address]:
                mix[op] += n / macs
        planned = plan(kernel, group, m, emulated.sve_bytes)
        for op in planned:
            planned[op] /= m * kernel.nr * group
        loop = find_main_loop(code, kernel, emulated.sve_bytes, table, executed)
        instructions = sum(executed.values()) / macs
        yield Figure(kernel, group, m, instructions, mix, planned, loop, emulated.sve_bytes)


class Cell(NamedTuple):
    code: Bound
    plan: Bound

    @property
    def fraction(self) -> float:
        return self.plan.cycles / self.code.cycles


def bounds(figure: Figure, cpu: Cpu) -> Cell:
    return Cell(cpu.bound(figure.code), cpu.bound(figure.plan))


def runs_on(figure: Figure, cpu: Cpu) -> bool:
    return figure.kernel.isa in cpu.isas and figure.sve_bytes in (0, cpu.sve_bytes)


def parts(mix: Counter[Operation]) -> Counter[str]:
    """What operations consist of, by name: the plan may load apart what the code loads as an operand."""
    found: Counter[str] = Counter()
    for op, n in mix.items():
        if op.load:
            found["load" if op.load != "b" else "broadcast load"] += n * op.loads
        if op.store:
            found["store"] += n * op.stores
        if op.kind != NOTHING:
            found[op.kind] += n
        elif not op.load and not op.store:
            found["copy or nothing"] += n
    return found


def beyond_plan(figure: Figure) -> str:
    more = parts(figure.code)
    more.subtract(parts(figure.plan))
    said = [f"{n * 1000:.1f} {name}" for name, n in more.most_common(6) if n * 1000 >= 0.5]
    return ", ".join(said)


def make_table(figures: list[Figure], cpus: list[Cpu]) -> str:
    lines = [
        "<!-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception -->",
        "# Bounds by ports",
        "",
        f"MACs a cycle at most: of the code that {COMPILER} makes / of the plan, their fraction, what bounds the code.",
        f"Made by `{UPDATE}`. [README](README.md) tells how.",
    ]
    for cpu in cpus:
        mine = [f for f in figures if runs_on(f, cpu)]
        if not mine:
            continue
        lines += [
            "",
            f"## {cpu.name}",
            "",
            "| kernel | M | group 32 | group 128 | per channel | main loop |",
            "|---|---|---|---|---|---|",
        ]
        for kernel, m in dict.fromkeys((f.kernel.name, f.m) for f in mine):
            cells = []
            for group in (32, 128, DEPTH):
                f = next(f for f in mine if (f.kernel.name, f.m, f.group) == (kernel, m, group))
                cell = bounds(f, cpu)
                shown = f"{1 / cell.code.cycles:.1f} / {1 / cell.plan.cycles:.1f} {cell.fraction:.2f} {cell.code.by}"
                cells.append(f"**{shown}**" if cell.fraction < GOAL else shown)
            # Of the last figure, per channel.
            loop = cpu.bound(f.loop)
            cells.append(f"{1 / loop.cycles:.1f} {loop.by}" if f.loop else "")
            lines.append(f"| {kernel.removeprefix('qmm_f32_')} | {m} | {' | '.join(cells)} |")
    lines += ["", f"## Below {GOAL:.2f}", "", "What the code executes beyond its plan, in 1000 MACs.", ""]
    for f in figures:
        low = [cpu.name for cpu in cpus if runs_on(f, cpu) and bounds(f, cpu).fraction < GOAL]
        if low:
            where = f"{f.kernel.name.removeprefix('qmm_f32_')}, {f.grouping}, M {f.m}"
            lines.append(f"- {where} ({', '.join(low)}): {beyond_plan(f)}")
    return "\n".join(lines) + "\n"


def collect(figures: Iterable[Figure], cpus: list[Cpu]) -> dict[str, float]:
    return {
        f"{cpu.name}, {f.kernel.name}, {f.grouping}, M {f.m}": round(bounds(f, cpu).fraction, 3)
        for f in figures
        for cpu in cpus
        if runs_on(f, cpu)
    }


def compare(kept: dict[str, float], found: dict[str, float]) -> list[str]:
    faults = [f"{name}: modelled, but not kept" for name in sorted(found.keys() - kept.keys())]
    faults += [f"{name}: kept, but not modelled" for name in sorted(kept.keys() - found.keys())]
    for name in sorted(kept.keys() & found.keys()):
        if abs(found[name] - kept[name]) > TOLERANCE:
            faults.append(f"{name}: {found[name]:.3f} of the plan's bound, {kept[name]:.3f} was kept")
    return faults + ([f"where that is meant: {UPDATE}"] if faults else [])


def compare_counts(figures: list[Figure], table: dict[str, dict[str, float]]) -> list[str]:
    """The loop that is modelled is the one that runs: callgrind counts as many instructions."""
    faults, compared = [], 0
    for f in figures:
        if f.kernel.isa != COUNTED:
            continue
        row = table.get(f"{f.kernel.name}, symmetric, {f.grouping}, M {f.m}", {})
        kept = next((value for compiler, value in row.items() if compiler.startswith(COMPILER)), None)
        where = f"{f.kernel.name}, {f.grouping}, M {f.m}"
        if kept is None:
            faults.append(f"{where}: {KEPT_COUNTS.name} has no count of {COMPILER}: ./dev count")
            continue
        compared += 1
        if abs(f.instructions / kept - 1) > 0.001:
            faults.append(f"{where}: {f.instructions:.4g} instructions a MAC, not {kept}")
    print(f"{compared} of {len(figures)} figures were compared with what callgrind counts")
    return faults


def find_unmodelled() -> list[str]:
    """Returns what is missing for the ISAs of the table of kernels."""
    isas = {isa_of(row) for _, row in kernels("KERNEL")} - {"scalar"}
    counted = {isa for emulated in EMULATED for isa in emulated.isas}
    known = {isa for cpu in read_cpus() for isa in cpu.isas}
    return [f"no entry of EMULATED counts the kernels of {isa}" for isa in sorted(isas - counted)] + [
        f"no file of cpus has {isa}" for isa in sorted(isas - known)
    ]


def other_compilers(program: Path) -> list[str]:
    """Returns which compilers but COMPILER left their name in a program, or that none did."""
    listing = subprocess.run(["readelf", "-p", ".comment", program], check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^ *\[ *[0-9a-f]+\] +(.*)$", listing, re.MULTILINE)
    return [name for name in names if not re.fullmatch(COMMENT, name)] if names else ["no compiler that says so"]


def find_hindrance(machine: str, emulator: str, program: Path | None) -> str | None:
    """Returns what is in the way of the figures of a machine."""
    if not program:
        return "count_instructions is not built for it"
    if package := missing(emulator):
        return f"{package} is missing"
    if compilers := other_compilers(program):
        return f"{program} was made by {', '.join(compilers)}; the figures are of {COMPILER}"
    return None


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write results.json and results.md")
    for machine in MACHINES:
        parser.add_argument(f"--{machine}", type=Path, metavar="PROGRAM")
    arguments = vars(parser.parse_args())
    programs, faults = {}, find_unmodelled()
    for machine, emulator in (("x86-64", "bochs"), ("aarch64", "qemu")):
        program = arguments[machine.replace("-", "_")]
        if hindrance := find_hindrance(machine, emulator, program):
            # In the form that ./dev looks for.
            print(f"SKIPPED [1] the port model of {machine}: {hindrance}")
            if os.environ.get("CI") == "true" or arguments["keep"]:
                faults.append(f"FAILED: the port model of {machine} is needed: {hindrance}")
        else:
            programs[machine] = program
    if faults and arguments["keep"]:
        print("\n".join(faults))
        return True
    cpus = [cpu for cpu in read_cpus() if ("x86-64" if "avx2" in cpu.isas else "aarch64") in programs]
    try:
        with ThreadPoolExecutor(2) as pool:
            found = pool.map(
                lambda e: list(count(e, programs[e.machine])), (e for e in EMULATED if e.machine in programs)
            )
            figures = [figure for some in found for figure in some]
        table = make_table(figures, cpus)
    except (CountFailed, UnknownInstruction) as e:
        print(f"FAILED: {e}")
        return True
    print(table)
    if "x86-64" in programs:
        faults += compare_counts(figures, json.loads(KEPT_COUNTS.read_text()))
    fractions = collect(figures, cpus)
    if arguments["keep"]:
        rows = (f" {json.dumps(name)}: {value}" for name, value in sorted(fractions.items()))
        RESULTS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        TABLE.write_text(table)
    else:
        kept = json.loads(RESULTS.read_text())
        names = {cpu.name for cpu in cpus}
        faults += compare({key: value for key, value in kept.items() if key.split(",")[0] in names}, fractions)
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
