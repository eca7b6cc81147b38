# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts how often an emulated CPU executes each instruction of the kernels.

    counts.py --cpu <model of Bochs> [--amx] program pattern
    counts.py --cpu <CPU of qemu-aarch64> --aarch64 program pattern

The program is tests/count_instructions, static; the pattern is a regular expression on the names of its figures. Writes
JSON: for each name, how many MACs, and the count at each address.
"""

import argparse
import itertools
import json
import os
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

EMULATORS = Path(__file__).resolve().parents[2] / "tests/emulators"
sys.path.insert(0, str(EMULATORS))

Counts = dict[str, Counter[int]]


def macs_of(name: str) -> int:
    return int(name.rpartition(" / ")[2])


def count_x86(program: str, pattern: str, model: str, amx: bool) -> Counts:
    """Has Bochs count. Callgrind's requests, which the program makes, are traps here."""
    import bochs

    toggle, dump = 0x43540002, 0x43540003
    code = list(bochs.disassemble(program, r"\S+"))
    index = {address: i for i, (address, _, _) in enumerate(code)}
    counts: Counts = {}

    class Machine(bochs.Machine):
        def __init__(self):
            super().__init__([program, pattern], [], model, amx, False, None)
            self.runs: Counter[tuple[int, int]] = Counter()  # from where to which jump that is taken
            self.uncounted = self.hook
            self.counted = bochs.bochscpu.Hook()
            self.counted.exception = self.on_exception
            self.counted.cnear_branch_taken = lambda session, cpu, at, to: self.on_jump(at, to)
            self.counted.ucnear_branch = lambda session, cpu, what, at, to: self.on_jump(at, to)
            # A request is a number of rotations, which do nothing, and this.
            for (_, _, before), (address, end, text) in itertools.pairwise(code):
                if re.fullmatch(r"xchg +rbx,rbx", text) and before.startswith("rol"):
                    self.write(address, bochs.UD2)
                    self.traps[address + len(bochs.UD2)] = lambda at=address, end=end: self.on_request(at, end)

        def on_jump(self, at: int, to: int) -> None:
            self.runs[self.begin, at] += 1
            self.begin = to

        def on_request(self, at: int, end: int) -> None:
            request, text, *_ = struct.unpack_from("<6Q", self.memory, self.cpu.rax)
            if request == toggle and self.hook is self.uncounted:
                self.hook, self.begin = self.counted, end
            elif request == toggle:
                self.runs[self.begin, code[index[at] - 1][0]] += 1
                self.hook = self.uncounted
            elif request == dump:
                counts[self.string(text).decode()] = self.spread()
                self.runs.clear()
            self.cpu.rdx = 0
            self.cpu.rip = end

        def spread(self) -> Counter[int]:
            executed: Counter[int] = Counter()
            for (begin, last), n in self.runs.items():
                for address, _, _ in code[index[begin] : index[last] + 1]:
                    executed[address] += n
            return executed

    try:
        Machine().run()
    except bochs.Ended as end:
        if end.status:
            raise SystemExit(f"{program} on {model}: {end.sentence or end.status}") from None
    return counts


def find_functions(program: str, pattern: str) -> list[tuple[int, int]]:
    """Returns the address and size of the functions whose demangled name matches."""
    listing = subprocess.run(["nm", "-CS", program], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tTwW] (.*)$", listing, re.MULTILINE)
    return [(int(address, 16), int(size, 16)) for address, size, name in found if re.search(pattern, name)]


def count_aarch64(program: str, pattern: str, model: str) -> Counts:
    """Has qemu write each instruction of the kernels that it executes, and the begin of each dump."""
    dump = next((address for address, _ in find_functions(program, r"^qmm::.*\bdump\(")), None)
    if dump is None:
        raise SystemExit(f"{program} is no count_instructions: it has no dump()")
    # Of the same namespaces, but before the kernels, runs the quantizer.
    kernels = find_functions(program, r"^(\w+ )?qmm::(?!.*quantize)(neon|sve|qmm_f32_)")
    ranges = ",".join(f"{address:#x}+{size:#x}" for address, size in [*kernels, (dump, 4)])
    # A pipe that qemu alone writes to, so that it ends when qemu does.
    read_end, write_end = os.pipe()
    command = ["qemu-aarch64", "-cpu", model, "-singlestep", "-d", "exec,nochain", "-dfilter", ranges]
    command += ["-D", f"/dev/fd/{write_end}", program, pattern]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[write_end]) as process:
        os.close(write_end)
        executed: Counter[int] = Counter()
        finished: list[Counter[int]] = []
        with open(read_end) as lines:
            for line in lines:
                if not line.startswith("Trace"):
                    continue
                address = int(line.split("/", 2)[1], 16)
                if address == dump:
                    finished.append(executed)
                    executed = Counter()
                else:
                    executed[address] += 1
        names = process.stdout.read().split("\n")[:-1]
    if process.returncode or len(names) != len(finished):
        raise SystemExit(
            f"{program} on {model}: exit status {process.returncode}, {len(finished)} of {len(names)} counts"
        )
    return dict(zip(names, finished, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", required=True)
    parser.add_argument("--amx", action="store_true")
    parser.add_argument("--aarch64", action="store_true")
    parser.add_argument("program")
    parser.add_argument("pattern")
    a = parser.parse_args()
    # What the program says is not to be mixed with the JSON.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        found = (
            count_aarch64(a.program, a.pattern, a.cpu) if a.aarch64 else count_x86(a.program, a.pattern, a.cpu, a.amx)
        )
    except FileNotFoundError as e:  # a tool, or the program
        raise SystemExit(f"counts.py: {e.filename} is missing") from None
    except ModuleNotFoundError as e:
        raise SystemExit(f"counts.py: {e.name} is missing") from None
    except subprocess.CalledProcessError as e:
        raise SystemExit(f"counts.py: {e}") from None
    json.dump({name: [macs_of(name), executed] for name, executed in found.items()}, output)
    output.flush()
    os._exit(0)  # the core's objects are not fit to be torn down


if __name__ == "__main__":
    main()
