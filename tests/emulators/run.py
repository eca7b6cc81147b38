# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs golden_test on emulated CPUs: the bits of every row of the table of kernels, and what the library chooses.

    run.py --x86-64 golden_test --aarch64 golden_test [--arrays guarded_arrays_static] [--full]

It fails where bits differ from the golden file's, where a CPU does not choose what CPUS says, and where a row of the
table ran nowhere although there is an emulator for it. Rows for whose emulator a package is missing are named as not
proved; with CI=true in the environment that fails too. Given guarded_arrays_static, it runs that for ARRAYS, too.
"""

import argparse
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TIMEOUT = 1800  # seconds; for what would hang


class Chosen(NamedTuple):
    """The ISA of the kernel by lhs and weights, "for one row of X/for 128" where they differ; and of the quantizer."""

    f32_u4: str
    f32_s8: str
    s8_u4: str
    s8_s8: str
    quantizer: str


class Cpu(NamedTuple):
    machine: str  # x86-64 or aarch64
    emulator: str  # bochs or qemu
    model: str  # and options of the emulator
    chosen: Chosen
    max_isa: str = ""  # QMM_MAX_ISA
    what: str = "rows"  # or "choice" alone, or rows "with scalar" ones

    @property
    def name(self):
        return self.model + (f" QMM_MAX_ISA={self.max_isa}" if self.max_isa else "")


def everywhere(isa):
    return Chosen(isa, isa, isa, isa, isa)


# For one row of X, AMX and I8MM have no kernel of their own.
SCALAR, AVX2, AVX512 = everywhere("scalar"), everywhere("avx2"), everywhere("avx512")._replace(quantizer="avx2")
AVXVNNI = AVX2._replace(s8_u4="avxvnni", s8_s8="avxvnni")
AVXVNNIINT8 = AVXVNNI._replace(s8_s8="avxvnniint8")  # 4-bit codes are unsigned: nothing is gained
AVX512VNNI = AVX512._replace(s8_u4="avx512vnni", s8_s8="avx512vnni")
AMX = AVX512._replace(s8_u4="avx512vnni/amx", s8_s8="avx512vnni/amx")
NEON = everywhere("neon")
DOTPROD = NEON._replace(s8_u4="neon_dotprod", s8_s8="neon_dotprod")
I8MM = NEON._replace(s8_u4="neon_dotprod/neon_i8mm", s8_s8="neon_dotprod/neon_i8mm")
SVE = everywhere("sve")._replace(quantizer="neon")
SVE_I8MM = SVE._replace(s8_u4="sve/sve_i8mm", s8_s8="sve/sve_i8mm")
CPUS = [
    Cpu("x86-64", "bochs", "corei7_sandy_bridge_2600k", SCALAR, what="with scalar"),
    Cpu("x86-64", "bochs", "corei7_haswell_4770", AVX2),
    Cpu("x86-64", "bochs", "arrow_lake", AVXVNNIINT8),
    Cpu("x86-64", "bochs", "corei7_skylake_x", AVX512),
    Cpu("x86-64", "bochs", "tigerlake", AVX512VNNI),
    Cpu("x86-64", "bochs", "sapphire_rapids", AVX512VNNI),
    Cpu("x86-64", "bochs", "sapphire_rapids --amx", AMX),
    # An operating system that saves less than the CPU has, or does not permit AMX.
    Cpu("x86-64", "bochs", "tigerlake --xcr0 0x7", AVX2, what="choice"),
    Cpu("x86-64", "bochs", "sapphire_rapids --xcr0 0x3", SCALAR, what="choice"),
    Cpu("x86-64", "bochs", "sapphire_rapids --amx --xcr0 0xe7", AVX512VNNI, what="choice"),
    Cpu("x86-64", "bochs", "sapphire_rapids --amx --refuse", AVX512VNNI, what="choice"),
    *(
        Cpu("x86-64", "bochs", "sapphire_rapids --amx", chosen, level, "choice")
        for level, chosen in {
            "scalar": SCALAR,
            "avx2": AVX2,
            "avxvnni": AVXVNNI,
            "avxvnniint8": AVXVNNI,
            "avx512": AVX512,
            "avx512vnni": AVX512VNNI,
            "amx": AMX,
        }.items()
    ),
    Cpu("x86-64", "bochs", "arrow_lake", AVXVNNIINT8, "avxvnniint8", "choice"),
    Cpu("x86-64", "bochs", "arrow_lake", AVXVNNI, "avxvnni", "choice"),
    Cpu("aarch64", "qemu", "cortex-a72", NEON, what="with scalar"),
    Cpu("aarch64", "qemu", "neoverse-n1", DOTPROD),
    Cpu("aarch64", "qemu", "a64fx", SVE),
    Cpu("aarch64", "qemu", "max,sve=off", I8MM),
    *(
        # Vectors as short as NEON's are not used.
        Cpu("aarch64", "qemu", f"max,sve-default-vector-length={length}", I8MM if length == 16 else SVE_I8MM)
        for length in (16, 32, 48, 64, 128, 256)
    ),
    *(
        Cpu("aarch64", "qemu", "max", chosen, level, "choice")
        for level, chosen in {
            "scalar": SCALAR,
            "neon": NEON,
            "neon_dotprod": DOTPROD,
            "neon_i8mm": I8MM,
            "sve": SVE,
            "sve_i8mm": SVE_I8MM,
        }.items()
    ),
]


# The CPUs of kernels that few machines can run, and so can few of their tests.
ARRAYS = {"arrow_lake": "avxvnniint8", "sapphire_rapids --amx": "amx"}


class Run(NamedTuple):
    name: str
    machine: str
    wrong: list[str]
    ran: list[str]
    note: str  # what the report says of it


def command(cpu, program):
    if cpu.emulator == "bochs":
        return [sys.executable, HERE / "bochs.py", "--cpu", *cpu.model.split(), program]
    return ["qemu-aarch64", "-cpu", cpu.model, program]


def missing(emulator):
    """Returns the package that is missing, or None."""
    if emulator == "bochs":
        return None if importlib.util.find_spec("bochscpu") and importlib.util.find_spec("numpy") else "bochscpu-python"
    return None if shutil.which("qemu-aarch64") else "qemu-user"


def execute(words, environment):
    """Returns what a program said, what is wrong with how it ended, and how long it took."""
    start = time.monotonic()
    try:
        process = subprocess.run(
            words,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return [], [f"it did not end within {TIMEOUT} s"], f"{TIMEOUT} s"
    wrong = [f"exit status {process.returncode}"] if process.returncode else []
    return process.stdout.splitlines(), wrong, f"{time.monotonic() - start:.1f} s"


def run(name, machine, words, environment):
    said, wrong, seconds = execute(words, environment)
    lines = {"chose": [], "ran": [], "compared": []}
    for line in said:
        kind, _, rest = line.partition(" ")
        lines.get(kind, wrong).append(rest if kind in lines else line)
    note = f"{' '.join(lines['compared']) or 'choice'}, {seconds}"
    return Run(name, machine, wrong, lines["ran"], note), lines["chose"]


def isa_of(kernel):
    """qmm_<out>_<in>..._<rows>x...x<k>_<isa>"""
    return re.fullmatch(r"qmm_\w+?_[0-9]+x[0-9x]+_(\w+)", kernel)[1]


def table(kinds="KERNEL|QUANTIZER"):
    """Returns (machine, row) for each row of the table of kernels; the scalar ones are of both."""
    rows = re.findall(rf"^QMM_(?:{kinds})\((\w+),", (HERE / "../../kernels/kernels.inc").read_text(), re.M)
    machines = {row: re.match("neon|sve|scalar", isa_of(row)) for row in rows}
    return [("x86-64", row) for row, m in machines.items() if not m or m[0] == "scalar"] + [
        ("aarch64", row) for row, m in machines.items() if m
    ]


def compare_choice(lines, chosen):
    """Returns where the lines "<format> <M> <kernel>" are not what must be chosen, of each format for M = 1 and 128."""
    want = {}
    for form, isas in chosen._asdict().items():
        want[form, "1"] = isas.split("/")[0]
        if form != "quantizer":
            want[form, "128"] = isas.split("/")[-1]
    got = {(form, m): isa_of(kernel) for form, m, kernel in (line.split() for line in lines)}
    return [
        f"chose {got.get(key, 'nothing')} for {' of M '.join(key)}, not {want.get(key, 'anything')}"
        for key in (want | got)
        if got.get(key) != want.get(key)
    ]


def run_cpu(cpu, program, options):
    arguments = {
        "rows": [HERE / "golden.txt", "--without-scalar", *options],
        "with scalar": [HERE / "golden.txt"],  # never all cases: they take Bochs minutes
        "choice": ["--choice"],
    }[cpu.what]
    result, choice = run(cpu.name, cpu.machine, [*command(cpu, program), *arguments], {"QMM_MAX_ISA": cpu.max_isa})
    return result._replace(wrong=result.wrong + compare_choice(choice, cpu.chosen))


def run_arrays(cpu, program):
    """Each array of the kernels of an ISA between pages that may not be touched."""
    isa = ARRAYS[cpu.model]
    said, wrong, seconds = execute([*command(cpu, program), "--gtest_brief=1", f"--gtest_filter=*_{isa}"], {})
    kernels = [row for machine, row in table("KERNEL") if machine == cpu.machine and isa_of(row) == isa]
    passed = f"[  PASSED  ] {len(kernels)} test{'s' * (len(kernels) != 1)}."
    if passed not in said:
        wrong.append(f'it did not say "{passed}"')
    if wrong:
        wrong += said
    return Run(f"{cpu.model}, guarded arrays of {isa}", cpu.machine, wrong, [], seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--x86-64", metavar="PROGRAM", action="append", help="golden_test; once for each compiler")
    parser.add_argument("--aarch64", metavar="PROGRAM", action="append")
    parser.add_argument("--arrays", metavar="PROGRAM", help="guarded_arrays_static, of x86-64")
    parser.add_argument("--full", action="store_true", help="all cases of the golden file")
    arguments = parser.parse_args()
    programs = {"x86-64": arguments.x86_64, "aarch64": arguments.aarch64}
    options = ["--full"] if arguments.full else []

    jobs, not_proved = [], {}
    native = {"AMD64": "x86-64", "x86_64": "x86-64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    for program in programs.get(native) or []:
        jobs.append(lambda program=program: run("this CPU", native, [program, HERE / "golden.txt", *options], {})[0])
    for machine in programs:
        cpus = [cpu for cpu in CPUS if cpu.machine == machine]
        lacks = {missing(cpu.emulator) for cpu in cpus} - {None}
        if not programs[machine]:
            not_proved[machine] = f"golden_test is not built for {machine}"
        elif lacks:
            not_proved[machine] = f"{', '.join(lacks)} is missing"
        else:
            jobs += [
                lambda cpu=cpu, program=program: run_cpu(cpu, program, options)
                for program in programs[machine]
                for cpu in cpus
            ]
            if machine == "x86-64" and arguments.arrays:
                jobs += [
                    lambda cpu=cpu: run_arrays(cpu, arguments.arrays)
                    for cpu in cpus
                    if cpu.what == "rows" and cpu.model in ARRAYS
                ]

    failed = False
    proved_on = {row: [] for row in table()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(lambda job: job(), jobs):
            failed |= bool(result.wrong)
            isas = ", ".join(dict.fromkeys(isa_of(row) for row in result.ran))
            print(f"{'FAILED' if result.wrong else 'ok':6} {result.machine} {result.name}: {result.note}", end="")
            print(f"; {len(result.ran)} rows: {isas}" if isas else "", flush=True)
            for sentence in result.wrong[:20]:
                print(f"       {sentence}")
            for row in result.ran:
                proved_on[result.machine, row].append(result.name)

    together = {}
    for (machine, row), names in proved_on.items():
        together.setdefault((machine, tuple(dict.fromkeys(names))), []).append(row)
    for (machine, names), rows in together.items():
        if names:
            print(f"{machine}, {len(rows)} rows on {'; '.join(names)}: {', '.join(rows)}")
        elif machine in not_proved:
            # In the form that ./dev looks for.
            print(f"SKIPPED [1] not proved, since {not_proved[machine]}: {', '.join(rows)}")
        else:
            failed = True
            print(f"FAILED {machine}: {', '.join(rows)} ran nowhere")
    if arguments.arrays and "x86-64" in not_proved:
        print(f"SKIPPED [1] guarded arrays of {', '.join(ARRAYS.values())}, since {not_proved['x86-64']}")
    if not_proved and os.environ.get("CI") == "true":
        failed = True
        print(f"FAILED with CI=true: {'; '.join(not_proved.values())}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
