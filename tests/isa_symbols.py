# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks what the kernels' objects offer to a linker: isa_symbols.py nm objects-of-libqmm

An inline function that a compiler did not inline is a weak symbol, and a linker takes one copy for all: that of an ISA
may then run on a CPU that lacks it. So the objects of each ISA, but for scalar, may define no weak function. It shows
where nothing is inlined: in a build without optimization.
"""

import re
import subprocess
import sys
from pathlib import Path


def main(nm: str, *objects: str) -> list[str]:
    faults, looked = [], 0
    for path in map(Path, objects):
        if path.parent.parent.name != "kernels" or path.parent.name == "scalar":
            continue
        looked += 1
        command = [nm, "-C", "--defined-only", path]
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # Objects (V, u) are constants, the same of each.
        weak = re.findall(r"^[0-9a-f]* [WwiI] (.*)$", listing, re.MULTILINE)
        faults += [f"{path.name} defines for all ISAs: {name}" for name in weak]
        if not re.search(r" T qmm::", listing):
            faults.append(f"{path.name} defines no kernel:\n{listing}")
    print(f"{looked} objects")
    return faults if looked else ["there are no objects of kernels"]


if __name__ == "__main__":
    found = main(*sys.argv[1:])
    print("\n".join(found))
    sys.exit(bool(found))
