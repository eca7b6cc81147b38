#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs qmm_kernels and prints how many MACs a cycle each kernel of this CPU makes on a block in its caches.

Beside it: how often that is the peak of FMAs of 256 bits, and how much of what the ports allow its code at most, where
bench/model knows this CPU.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import machine

BOUNDS = machine.ROOT / "bench/model/results.md"
GROUPINGS = ("group 32", "group 128", "per channel")
# Of /proc/cpuinfo, family and model: as bench/model/cpus calls the core.
CORES = {
    (6, 85): "Skylake-X",
    (6, 106): "Ice Lake-SP",
    (6, 143): "Sapphire Rapids",
    (6, 207): "Sapphire Rapids",  # Emerald Rapids has its core
}


def find_core():
    info = machine.read("/proc/cpuinfo")
    found = [re.search(rf"^{key}\s*: (\d+)$", info, re.MULTILINE) for key in ("cpu family", "model")]
    return CORES.get(tuple(int(match[1]) for match in found)) if all(found) else None


def read_bounds(text, core):
    """Returns the MACs a cycle that the ports allow the code, by kernel, M and grouping."""
    section = re.search(rf"^## {re.escape(core or '')}$(.*?)(^## |\Z)", text, re.MULTILINE | re.DOTALL)
    bounds = {}
    for row in re.findall(r"^\| (\w+_\w+) \| (\d+) \| (.*) \|$", section[1] if section else "", re.MULTILINE):
        for grouping, cell in zip(GROUPINGS, row[2].split(" | "), strict=False):
            bounds["qmm_f32_" + row[0], "M:" + row[1], grouping] = float(cell.strip("*").split()[0])
    return bounds


def measure(program, sample, repetitions):
    """Returns the best speed of each benchmark: a kernel alone is never too fast."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        flags = ["--benchmark_enable_random_interleaving=true", f"--benchmark_repetitions={repetitions}"]
        flags += ["--benchmark_filter=^(kernel/|clock|peak/fma)", f"--benchmark_out={out}", f"--sample={sample}"]
        try:
            done = subprocess.run([program, *flags], capture_output=True, text=True)
        except FileNotFoundError:
            sys.exit(f"{program} is missing: ./dev bench --kernels builds it")
        if done.returncode != 0:
            sys.exit(f"{done.stderr}{program} failed with {done.returncode}")
        samples = [b for b in json.loads(out.read_text())["benchmarks"] if b["run_type"] == "iteration"]
    speeds = {}
    for b in sorted(samples, key=lambda b: b["family_index"]):
        name = re.sub(r"/iterations:.*", "", b["run_name"])
        speeds[name] = max(speeds.get(name, 0), b["G/s"] if "G/s" in b else b["GFLOP/s"] / 2)
    return speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter: some seconds")
    parser.add_argument(
        "--core", default=find_core(), metavar="NAME", help="of bench/model/cpus (default: %(default)s)"
    )
    parser.add_argument("--build-dir", type=Path, default=machine.ROOT / "build/bench", help="default build/bench")
    args = parser.parse_args()
    bounds = read_bounds(BOUNDS.read_text(), args.core)
    if args.core and not bounds:
        parser.error(f"{BOUNDS} has no bounds of {args.core}")
    speeds = measure(args.build_dir / "bench/qmm_kernels", *((0.002, 3) if args.quick else (0.01, 20)))
    clock, fma = speeds["clock"], speeds.get("peak/fma")
    print(f"{machine.cpu_model()}, {clock:.2f} GHz, load {machine.load()}; FMAs: ", end="")
    print(f"{fma / clock:.1f} MAC/cycle" if fma else "not measured")
    print("MAC/cycle, times the FMAs', ", end="")
    print(
        f"fraction of what the ports of {args.core} allow the code"
        if args.core
        else "no bound: the core is not known, --core NAME gives its bounds (bench/model/cpus)"
    )
    print(f"\n{'kernel':41} {'M':>3}" + "".join(f"{grouping:>19}" for grouping in GROUPINGS))
    for kernel, m in dict.fromkeys(tuple(name.split("/")[1::2]) for name in speeds if name.startswith("kernel/")):
        line = f"{kernel:41} {m.removeprefix('M:'):>3}"
        for grouping in GROUPINGS:
            speed, bound = speeds[f"kernel/{kernel}/{grouping}/{m}"], bounds.get((kernel, m, grouping))
            line += f"{speed / clock:9.1f}" + (f"{speed / fma:5.1f}" if fma else f"{'-':>5}")
            line += f"{speed / clock / bound:5.2f}" if bound else f"{'-':>5}"
        print(line)


if __name__ == "__main__":
    main()
