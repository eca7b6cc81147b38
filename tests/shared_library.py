# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks what the shared library exports and needs: shared_library.py libqmm.so readelf qmm.h ..."""

import re
import subprocess
import sys

NEEDED = re.compile(r"lib[cm]\.so\.6|ld-linux.*\.so\.\d+")


def main(library: str, readelf: str, *headers: str) -> list[str]:
    def read(*options: str) -> list[str]:
        command = [readelf, "--wide", *options, library]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()

    declared = set()
    for header in headers:
        with open(header) as file:
            text = re.sub(r"/\*.*?\*/|^\s*#.*?$", "", file.read(), flags=re.DOTALL | re.MULTILINE)
        declared |= set(re.findall(r"QMM_API[^;(]*?(\w+)\(", text))

    # Num: Value Size Type Bind Vis Ndx Name
    symbols = [line.split() for line in read("--dyn-syms") if re.match(r"\s*\d+: ", line)]
    exported = {s[7] for s in symbols if len(s) > 7 and s[4] in ("GLOBAL", "WEAK") and s[6] not in ("UND", "ABS")}
    undefined = {s[7] for s in symbols if len(s) > 7 and s[4] == "GLOBAL" and s[6] == "UND"}
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", "\n".join(read("--dynamic")))
    stack = [line.split() for line in read("--program-headers") if "GNU_STACK" in line]

    faults = []
    if len(declared) < 20:
        faults.append(f"only {len(declared)} functions found in {', '.join(headers)}")
    faults += [f"declared, but not exported: {name}" for name in sorted(declared - exported)]
    faults += [f"exported, but not declared: {name}" for name in sorted(exported - declared)]
    faults += [f"needs {name}" for name in needed if not NEEDED.fullmatch(name)]
    faults += [
        f"needs the C++ runtime: {name}"
        for name in sorted(undefined)
        if name.startswith(("_Z", "__cxa_", "__gxx")) and not name.startswith("__cxa_finalize")
    ]
    if len(stack) != 1 or "E" in stack[0][6]:
        faults.append(f"the stack is executable: {stack}")
    print(f"{len(exported)} functions; needs {', '.join(needed)}")
    return faults


if __name__ == "__main__":
    found = main(*sys.argv[1:])
    print("\n".join(found))
    sys.exit(bool(found))
