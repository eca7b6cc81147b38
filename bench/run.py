#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs qmm_bench, writes what it measured as JSON, and prints the report.

Each thread count and shape is a process of its own, in which all contenders take turns in random order.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report

ROOT = Path(__file__).resolve().parent.parent
# Settings of OpenBLAS that may slow it down; none of the caller's are passed on.
OPENBLAS_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
# Its cores by the CPU flag that they need. By itself it takes a core of 2004 for a CPU that is newer than it is.
OPENBLAS_CORES = {"avx2": "Haswell", "avx512bw": "SkylakeX", "avx512_bf16": "Cooperlake"}
OPENBLAS_TRIAL = "matmul/1536x576/M:128/f32_openblas/real_time"
QUICK = re.compile(r"matmul/(576x576|1536x576|4096x4096)/M:(1|32|128)/|(?!matmul/)")
LIBRARY_CONDITIONS = ("libqmm", "compiler", "openblas", "eigen", "rotation")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three shapes, M = 1, 32 and 128, shorter: under a minute")
    threads = "1,2" if len(os.sched_getaffinity(0)) > 1 else "1"
    parser.add_argument("--threads", default=threads, help="thread counts, one after the other (default %(default)s)")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only benchmarks whose name has a match")
    parser.add_argument("--openblas-core", metavar="NAME", help="OPENBLAS_CORETYPE (default: the fastest, by trial)")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/bench", help="default build/bench")
    parser.add_argument("--out", type=Path, help="default results.json in the build directory")
    return parser.parse_args()


def cpu_info(key):
    try:
        found = re.search(rf"^{key}\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else ""


class Bench:
    """The benchmark program on a number of threads, with a core of OpenBLAS or, if None, the one it takes itself."""

    def __init__(self, program, threads, openblas_core):
        self.command = [program, f"--threads={threads}"]
        self.threads = threads
        self.env = {key: value for key, value in os.environ.items() if key not in OPENBLAS_SETTINGS}
        if openblas_core:
            self.env["OPENBLAS_CORETYPE"] = openblas_core

    def call(self, *flags):
        done = subprocess.run([*self.command, *flags], env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"\n{done.stderr}{self.command[0]} failed with {done.returncode}")
        return done.stdout

    def list(self):
        return self.call("--benchmark_list_tests=true").split()

    def run(self, names, repetitions, min_time):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out.json")
            self.call(
                f"--benchmark_filter=^({'|'.join(names)})$",
                "--benchmark_enable_random_interleaving=true",
                f"--benchmark_repetitions={repetitions}",
                f"--benchmark_min_time={min_time}",
                f"--benchmark_out={out}",
            )
            return json.loads(out.read_text())


def short_name(name):
    """Drops what Google Benchmark appends."""
    return re.sub(r"(/iterations:\d+)?/(real|manual)_time$", "", name)


def row_of(benchmark, threads):
    ns = benchmark.get("median_ns", benchmark["real_time"])  # Google Benchmark's unit, too
    row = {"name": short_name(benchmark["run_name"]), "threads": threads, "ns": ns}
    return row | {key: benchmark[key] for key in ("GFLOP/s", "GB/s", "label") if key in benchmark}


def fastest_openblas_core(program):
    """Returns the core that is fastest on one matmul, None for the one that OpenBLAS takes by itself."""
    flags = cpu_info("flags").split()
    speeds = {}
    for core in (None, *(core for flag, core in OPENBLAS_CORES.items() if flag in flags)):
        tried = Bench(program, 1, core).run([OPENBLAS_TRIAL], repetitions=5, min_time=0.02)
        speeds[core] = max(b["GFLOP/s"] for b in tried["benchmarks"] if b["run_type"] == "iteration")
    tried = ", ".join(f"{core or 'its own choice'} {speed:.0f}" for core, speed in speeds.items())
    print(f"OpenBLAS cores, GFLOP/s: {tried}", flush=True)
    return max(speeds, key=speeds.get)


def plan(args, program):
    """Returns (bench, what, names) for each process to run."""
    wanted = re.compile(args.filter)
    openblas_core = args.openblas_core or fastest_openblas_core(program)
    steps = []
    for threads in map(int, args.threads.split(",")):
        bench = Bench(program, threads, openblas_core)
        groups = {}
        for name in bench.list():
            if wanted.search(short_name(name)) and (not args.quick or QUICK.match(name)):
                kind, shape = name.split("/")[:2]
                groups.setdefault(f"matmul {shape}" if kind == "matmul" else "the rest", []).append(name)
        steps += [(bench, what, names) for what, names in groups.items()]
    return steps


def main():
    args = parse_arguments()
    program = args.build_dir / "bench/qmm_bench"
    if not program.exists():
        sys.exit(f"{program} is missing: cmake --preset bench && cmake --build --preset bench")
    out = args.out or args.build_dir / "results.json"
    repetitions, min_time = (3, 0.01) if args.quick else (3, 0.05)

    conditions = {
        "cpu": cpu_info("model name") or platform.machine(),
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "repetitions": repetitions,
    }
    rows = []
    steps = plan(args, program)
    if not steps:
        sys.exit("no benchmark has that name")
    for i, (bench, what, names) in enumerate(steps, 1):
        threads = f"{bench.threads} thread{'s'[: bench.threads > 1]}"
        print(f"[{i}/{len(steps)}] {what}, {threads}: {len(names)} benchmarks ...", end=" ", flush=True)
        start = time.monotonic()
        measured = bench.run(names, repetitions, min_time)
        print(f"{time.monotonic() - start:.0f} s", flush=True)
        conditions |= {key: measured["context"][key] for key in LIBRARY_CONDITIONS}
        samples = [b for b in measured["benchmarks"] if b["run_type"] == "iteration"]
        samples.sort(key=lambda b: names.index(b["run_name"]))
        rows += [row_of(b, bench.threads) for b in samples]
    conditions["kernels"] = sorted({row["label"] for row in rows if "label" in row})

    results = {"conditions": conditions, "benchmarks": rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"Written: {out}")
    report.make(out)


if __name__ == "__main__":
    main()
