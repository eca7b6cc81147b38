# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the instructions of kernels and calls with callgrind, and compares them with those kept in instructions.json.

instructions.py [--keep] <compiler> <valgrind> <count_instructions>

No noise changes them. The file has a row for each figure and a column for each compiler and its major version; a figure
is instructions a MAC for a kernel, an element for qmm_quantize_lhs, a row for a call. --keep writes this compiler's.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KEPT = Path(__file__).with_name("instructions.json")
UPDATE = "./dev count"
TOLERANCE = 0.02
SKIPPED = 77  # ctest knows it


def count(valgrind: str, program: str) -> dict[str, float]:
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        options = ["-q", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder}/dump"]
        # Nothing of the caller's environment; symbols are bound before what counts.
        subprocess.run([valgrind, *options, program], env={"LD_BIND_NOW": "1"}, check=True)
        for dump in Path(folder).iterdir():
            text = dump.read_text()
            if found := re.search(r"^desc: Trigger: Client Request: (.*) / (\d+)$", text, re.MULTILINE):
                total = int(re.search(r"^totals: (\d+)$", text, re.MULTILINE)[1])
                counts[found[1]] = float(f"{total / int(found[2]):.4g}")
    return counts


def keep(table: dict[str, dict[str, float]], compiler: str, counts: dict[str, float]) -> None:
    rows = {}
    for name in sorted(table.keys() | counts.keys()):
        row = {key: value for key, value in table.get(name, {}).items() if key != compiler}
        if name in counts:
            row[compiler] = counts[name]
        if row:
            rows[name] = dict(sorted(row.items()))
    lines = (f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{KEPT}: {len(counts)} counts of {compiler}")


def compare(kept: dict[str, float], counts: dict[str, float]) -> list[str]:
    """Prints all counts; returns what is wrong. What became less is, too: the old count would hide its loss later."""
    grown = []
    stale = [f"{name}: counted, but not kept" for name in sorted(counts.keys() - kept.keys())]
    stale += [f"{name}: kept, but not counted" for name in sorted(kept.keys() - counts.keys())]
    for name in sorted(counts.keys() & kept.keys()):
        change = counts[name] / kept[name] - 1
        print(f"{counts[name]:8g} {change:+8.2%}  {name}")
        if abs(change) > TOLERANCE:
            sentence = f"{name}: {counts[name]:g}, which is {change:+.1%} on the {kept[name]:g} kept"
            (grown if change > 0 else stale).append(sentence)
    if grown:
        grown.append(f"{len(grown)} counts grew by more than {TOLERANCE:.0%}. Where that is meant: {UPDATE}")
    if stale:
        stale.append(f"{KEPT.name} is out of date in {len(stale)} rows. Update it: {UPDATE}")
    return grown + stale


def main() -> int:
    arguments = sys.argv[1:]
    keeping = arguments[0] == "--keep"
    compiler, valgrind, program = arguments[keeping:]
    table = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept = {name: row[compiler] for name, row in table.items() if compiler in row}
    if not keeping and not kept:
        others = sorted({key for row in table.values() for key in row})
        print(f"{compiler}: not kept in {KEPT.name}, which knows {', '.join(others)}")
        return SKIPPED
    counts = count(valgrind, program)
    if not counts:
        print("callgrind counted nothing")
        return 1
    if keeping:
        keep(table, compiler, counts)
        return 0
    faults = compare(kept, counts)
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
