#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs qmm_bench, writes what it measured as JSON, and prints the report.

Each thread count and shape is a process of its own, in which all contenders and the peaks of the machine take turns in
random order. README.md describes the benchmarks and the JSON.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
import report

# Settings of the libraries that may slow them down; none of the caller's are passed on.
SETTINGS = ("OPENBLAS_", "OMP_", "GOMP_", "DNNL_", "ONEDNN_", "QMM_", "LD_PRELOAD")
# OpenBLAS's cores by the CPU flag that they need. By itself it takes a core of 2004 for a CPU that is newer than it is.
OPENBLAS_CORES = {"avx2": "Haswell", "avx512bw": "SkylakeX", "avx512_bf16": "Cooperlake"}
OPENBLAS_TRIAL = "matmul/1536x576/M:128/f32_openblas/.*"
QUICK = re.compile(
    r"matmul/(576x576/M:32|4096x4096/M:(1|128))/|peak/(?!read)|peak/read/[18]x2m|call/|fork_join/|quantize_lhs/"
)
LIBRARIES = ("libqmm", "openblas", "eigen", "onednn", "xnnpack")


def add_options(parser, *, quick, filtered, isa=""):
    """Adds the options that the benchmarks of C++ and of Python have in common; the texts are what differs."""
    parser.add_argument("--quick", action="store_true", help=quick)
    threads = "1,2" if len(os.sched_getaffinity(0)) > 1 else "1"
    parser.add_argument("--threads", default=threads, help="thread counts, one after the other (default %(default)s)")
    parser.add_argument("--filter", default="", metavar="REGEX", help=filtered)
    parser.add_argument(
        "--isa",
        choices=("avx2", "native"),
        default="avx2",
        help=f"what libraries see of the CPU: avx2 (default) hides what came after AVX2{isa}",
    )
    parser.add_argument("--build-dir", type=Path, default=machine.ROOT / "build/bench", help="default build/bench")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(
        parser,
        quick="a few shapes and rows, shorter: about a minute",
        filtered="only benchmarks whose name matches, and peaks",
    )
    parser.add_argument("--openblas-core", metavar="NAME", help="OPENBLAS_CORETYPE (default: the fastest, by trial)")
    parser.add_argument("--out", type=Path, help="default results.json in the build directory")
    return parser.parse_args()


class Program:
    """qmm_bench: what it sees of the CPU, OpenBLAS's core (None: its own choice), and how long a sample takes."""

    def __init__(self, path, preload=None, openblas_core=None, sample=0.03):
        self.path = path
        self.sample = sample
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
        if preload:
            self.env["LD_PRELOAD"] = str(preload)
        if openblas_core:
            self.env["OPENBLAS_CORETYPE"] = openblas_core

    def call(self, *flags):
        done = subprocess.run(
            [self.path, f"--sample={self.sample}", *flags], env=self.env, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"\n{done.stderr}{self.path} failed with {done.returncode}")
        return done.stdout

    def isa(self):
        """Returns the vector extensions that libraries are told of."""
        return self.call("--isa").strip()

    def list(self, threads):
        return self.call(f"--threads={threads}", "--benchmark_list_tests=true").split()

    def run(self, threads, names, repetitions):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out.json")
            self.call(
                f"--threads={threads}",
                f"--benchmark_filter=^({'|'.join(names)})$",
                "--benchmark_enable_random_interleaving=true",
                f"--benchmark_repetitions={repetitions}",
                f"--benchmark_out={out}",
            )
            return json.loads(out.read_text())


def hide_newer_than_avx2(path):
    """Returns the library to preload, None where nothing is to hide or nothing can be hidden, which is said."""
    if Program(path).isa() == "avx2":
        return None
    preload = path.parent / "libavx2_only.so"
    if preload.exists() and Program(path, preload).isa() == "avx2":
        return preload
    print("This CPU has more than AVX2 and can not hide it (CPUID faulting): every library takes what it likes.")
    return None


def short_name(name):
    """Drops what Google Benchmark appends."""
    return re.sub(r"(/iterations:\d+)?/(real|manual)_time(/threads:\d+)?$", "", name)


def row_of(benchmark, threads, process):
    ns = benchmark.get("median_ns", benchmark["real_time"])  # Google Benchmark's unit, too
    row = {"name": short_name(benchmark["run_name"]), "threads": threads, "process": process, "ns": ns}
    return row | {key: benchmark[key] for key in ("GFLOP/s", "GB/s", "label") if benchmark.get(key)}


def fastest_openblas_core(path, preload):
    """Returns the core that is fastest on one matmul, None for the one that OpenBLAS takes by itself."""
    isa = Program(path, preload).isa().split()
    speeds = {}
    for core in (None, *(core for extension, core in OPENBLAS_CORES.items() if extension in isa)):
        tried = Program(path, preload, core).run(1, [OPENBLAS_TRIAL], repetitions=5)
        speeds[core] = max(b["GFLOP/s"] for b in tried["benchmarks"] if b["run_type"] == "iteration")
    tried = ", ".join(f"{core or 'its own choice'} {speed:.0f}" for core, speed in speeds.items())
    print(f"OpenBLAS cores, GFLOP/s: {tried}", flush=True)
    return max(speeds, key=speeds.get)


def group_of(name):
    """Returns what a process measures: one shape of a model, odd shapes, sweeps, or what surrounds a matmul."""
    kind, shape = name.split("/")[:2]
    return {"matmul": f"matmul {shape}", "odd": "odd shapes", "sweep": "sweeps"}.get(kind, "around the matmul")


def plan(args, program):
    """Returns (threads, what, names) for each process to run."""
    wanted = re.compile(args.filter)
    steps = []
    for threads in map(int, args.threads.split(",")):
        names = [name for name in program.list(threads) if not args.quick or QUICK.match(name)]
        peaks = [name for name in names if name.startswith("peak/")]
        groups = {}
        for name in names:
            if name not in peaks and wanted.search(short_name(name)):
                groups.setdefault(group_of(name), []).append(name)
        steps += [(threads, what, names + peaks) for what, names in groups.items()]
    return steps


def main():
    args = parse_arguments()
    path = args.build_dir.resolve() / "bench/qmm_bench"
    if not path.exists():
        sys.exit(f"{path} is missing: ./dev bench builds it")
    out = args.out or args.build_dir / "results.json"
    repetitions, sample = (2, 0.01) if args.quick else (5, 0.03)

    preload = hide_newer_than_avx2(path) if args.isa == "avx2" else None
    program = Program(path, preload, args.openblas_core or fastest_openblas_core(path, preload), sample)
    isa = program.isa()
    conditions = machine.conditions() | {
        "isa": f"{isa}{', the rest of the CPU is hidden' if preload else ', all that the CPU has'}",
        "repetitions": repetitions,
        "part": " ".join(sys.argv[1:]) if args.quick or args.filter else "all",
    }
    rows = []
    steps = plan(args, program)
    if not steps:
        sys.exit("no benchmark has that name")
    for process, (threads, what, names) in enumerate(steps, 1):
        on = f"{threads} thread{'s'[: threads > 1]}"
        print(f"[{process}/{len(steps)}] {what}, {on}: {len(names)} benchmarks ...", end=" ", flush=True)
        start = time.monotonic()
        measured = program.run(threads, names, repetitions)
        print(f"{time.monotonic() - start:.0f} s", flush=True)
        context = measured["context"]
        if context["isa"] != isa:
            sys.exit(f"this process saw another CPU: {context['isa']}")
        conditions |= {key: context[key] for key in ("compiler", "rotation", *LIBRARIES)}
        samples = [b for b in measured["benchmarks"] if b["run_type"] == "iteration"]
        samples.sort(key=lambda b: names.index(b["run_name"]))
        rows += [row_of(b, threads, process) for b in samples]
    conditions["load after"] = machine.load()
    conditions["kernels"] = sorted({row["label"] for row in rows if row.get("label", "").startswith("qmm_")})

    results = {"conditions": conditions, "benchmarks": rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"Written: {out}")
    report.make(out)


if __name__ == "__main__":
    main()
