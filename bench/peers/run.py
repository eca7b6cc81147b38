#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures libqmm beside libraries from PyPI, writes what it measured as JSON, and prints the report.

Each contender on each number of threads is a process of its own, on as many CPUs as it has threads. All load the same
weights; then they take turns, one at a time, in random order.
"""

import argparse
import json
import random
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path[0] = str(BENCH)  # not this folder, whose openvino.py is not OpenVINO

import machine  # noqa: E402
import report  # noqa: E402
from peers.contenders import CONTENDERS  # noqa: E402
from peers.processes import Workers, cpu_features, environment  # noqa: E402
from run import add_options  # noqa: E402

# Of bench/shapes.h.
SHAPES = ((576, 576), (1536, 576), (576, 1536), (4096, 4096))
MEMORY_ROWS = (1, 4)  # with these the weights come from memory
ROWS = (8, 16, 32, 128, 512)

CALL_SHAPE, CALL_COPIES = (16, 256), 100  # a matmul of almost nothing
FULL_RANGE_SHAPE = (64, 1024)
QUICK = re.compile(r"matmul/(4096x4096/M:(1|128)|576x576/M:32)/")
# A run is a call from Python. It goes through so many copies of the weights that it has as many products, or bytes.
RUN_PRODUCTS = 50e6
RUN_BYTES = 64 << 20
CONTENDER_BYTES = 350 << 20  # of memory, the library included, on average
TURN_SECONDS = 0.03
SETTLE_SECONDS = 0.02  # until the threads of the library that ran before have stopped to spin


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(
        parser,
        quick="three cases: under two minutes",
        filtered="only benchmarks whose name has a match",
        isa="; ggml is compiled for AVX2",
    )
    parser.add_argument("--out", type=Path, help="default peers.json in the build directory")
    return parser.parse_args()


def choose_isa(build_dir, isa):
    """Returns the library to preload, None where there is nothing to hide; and what libraries see."""
    everything = cpu_features(environment(build_dir))
    if isa == "native" or not set(everything) - {"avx2"}:
        return None, f"{' '.join(everything)}, all that the CPU has"
    preload = build_dir / "bench/libavx2_only.so"
    if not preload.exists():
        sys.exit(f"{preload} is missing: ./dev bench builds it")
    if cpu_features(environment(build_dir, preload=preload)) == ["avx2"]:
        return preload, "avx2, the rest of the CPU is hidden"
    print("This CPU has more than AVX2 and can not hide it (CPUID faulting): every library takes what it likes.")
    return None, f"{' '.join(everything)}, all that the CPU has"


def rotation_size():
    """Bytes that pass between two uses of weights that shall come from memory: as in bench/weights.cc."""
    sizes = [path.read_text() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    cache = max((int(size.strip().removesuffix("K")) << 10 for size in sizes), default=0)
    return min(max(2 * cache, 64 << 20), 1 << 30)


def require_memory(contenders):
    """Ends the program where the contenders would make the machine swap."""
    available = int(re.search(r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text())[1]) << 10
    if available < contenders * CONTENDER_BYTES:
        sys.exit(
            f"{contenders} contenders take up to {contenders * CONTENDER_BYTES >> 20} MiB together, and "
            f"{available >> 20} MiB are available; --filter takes fewer"
        )


@dataclass
class Stage:
    """Cases that share the copies of the weights."""

    pattern: str  # of the names
    shape: tuple[int, int]
    rows: tuple[int, ...]
    copies: int  # at least
    from_memory: bool = False
    names: dict[int, list[str]] = field(default_factory=dict)  # of the contenders, by the number of rows

    def everyone(self):
        return [name for name in CONTENDERS if any(name in names for names in self.names.values())]


def stages():
    for n, k in SHAPES:
        pattern = f"matmul/{n}x{k}/M:{{m}}/{{contender}}"
        yield Stage(pattern, (n, k), MEMORY_ROWS, 2, from_memory=True)
        yield Stage(pattern, (n, k), ROWS, max(1, round(RUN_PRODUCTS / (ROWS[0] * n * k))))
    yield Stage("call/{contender}", CALL_SHAPE, (1,), CALL_COPIES)


class Run:
    def __init__(self, args, build_dir):
        self.args, self.build_dir = args, build_dir
        self.preload, self.isa = choose_isa(build_dir, args.isa)
        self.rounds = 3 if args.quick else 5
        self.order = random.Random(1)
        self.stages = 0
        self.rows, self.left_out, self.versions = [], [], {}
        self.contenders = {}  # what is known of each beside its times

    def wanted(self, name):
        return re.search(self.args.filter, name) and (not self.args.quick or QUICK.match(name))

    def plan(self):
        for stage in stages():
            for m in stage.rows:
                names = [name for name in CONTENDERS if self.wanted(stage.pattern.format(m=m, contender=name))]
                if names:
                    stage.names[m] = names
            if stage.names:
                yield stage

    def on_threads(self, threads):
        plan = list(self.plan())
        everyone = [name for name in CONTENDERS if any(name in stage.everyone() for stage in plan)]
        if not everyone:
            sys.exit("no benchmark has that name")
        require_memory(len(everyone))
        print(f"{threads} thread{'s'[: threads > 1]}, {len(everyone)} contenders", flush=True)
        env = environment(self.build_dir, threads, self.preload)
        with Workers(everyone, threads, env, self.left_out) as workers:
            for versions in workers.ask(everyone, "versions").values():
                self.versions |= versions
            for stage in plan:
                self.on_stage(workers, stage)
            for name, part in workers.ask(everyone, "full_range", shape=FULL_RANGE_SHAPE).items():
                self.contenders.setdefault(name, {})["full range"] = part

    def on_stage(self, workers, stage):
        self.stages += 1
        what = stage.pattern.format(m=",".join(map(str, stage.names)), contender="")
        print(f"  {what:32} loading", end=" ", flush=True)
        start = time.monotonic()
        refusals = workers.ask(stage.everyone(), "refusal", shape=stage.shape)
        for name, refusal in refusals.items():
            if refusal:
                self.leave_out(f"{name}: {refusal}")
        names = [name for name, refusal in refusals.items() if not refusal]
        # Between two uses of weights that shall come from memory, all others come by.
        size = max(RUN_BYTES, rotation_size() // max(1, len(names) - 1)) if stage.from_memory else 0
        sizes = workers.ask(names, "load", shape=stage.shape, copies=stage.copies, size=size)
        print(f"{time.monotonic() - start:.0f} s, measuring", end=" ", flush=True)
        start = time.monotonic()
        for m, names in stage.names.items():
            self.on_case(workers, stage, m, {name: sizes[name] for name in names if name in sizes})
        print(f"{time.monotonic() - start:.0f} s", flush=True)

    def on_case(self, workers, stage, m, sizes):
        labels = {}
        for name, answer in workers.ask(list(sizes), "bind", m=m).items():
            if answer["right"]:
                labels[name] = answer["label"]
                self.contenders.setdefault(name, {})["error"] = answer["error"]
            else:
                full_name = stage.pattern.format(m=m, contender=name)
                self.leave_out(f"{full_name} on {workers.threads} threads: wrong by {answer['error']:.2g}")
        products = m * stage.shape[0] * stage.shape[1]
        for name, ns in self.turns(workers, list(labels), stage.from_memory):
            self.rows.append(
                {
                    "name": stage.pattern.format(m=m, contender=name),
                    "threads": workers.threads,
                    "process": self.stages,
                    "ns": ns,
                    "GFLOP/s": 2 * products / ns,
                    "GB/s": sizes[name] / ns,
                    "label": labels[name],
                }
            )

    def turns(self, workers, names, from_memory):
        """Lets the contenders take turns; yields (name, ns of a matmul) in the order of the names.

        Where the weights come from memory a turn is a single run, and all rounds have one order, so that no contender
        has two turns in a row; such turns are short, hence many.
        """
        rounds, seconds = (3 * self.rounds, 0) if from_memory else (self.rounds, TURN_SECONDS)
        self.order.shuffle(names)
        samples = {name: [] for name in names}
        for _ in range(rounds):
            if not from_memory:
                self.order.shuffle(names)
            for name in names:
                if workers.threads > 1:
                    time.sleep(SETTLE_SECONDS)
                for ns in workers.ask([name], "time", seconds=seconds).values():
                    samples[name].append(ns)
        for name in CONTENDERS:
            yield from ((name, ns) for ns in samples.get(name, ()))

    def leave_out(self, sentence):
        if sentence not in self.left_out:
            self.left_out.append(sentence)

    def print_contenders(self):
        """Prints what the times do not tell."""
        width = max(map(len, self.contenders))
        labels = {row["name"].split("/")[-1]: row["label"] for row in self.rows}
        print(
            "\nContenders: error relative to fp32, normally distributed inputs; part of the right result of the largest"
        )
        for name, facts in self.contenders.items():
            if name in labels:
                part = f"{facts['full range']:.2f}" if "full range" in facts else "-"
                print(f"{name:{width}}  {facts['error']:8.2e}  {part}  {labels[name]}")
        for sentence in self.left_out:
            print(f"Left out: {sentence}")


def main():
    args = parse_arguments()
    out = args.out or args.build_dir / "peers.json"
    conditions = machine.conditions() | {
        "part": " ".join(sys.argv[1:]) if args.quick or args.filter else "all",
    }
    run = Run(args, args.build_dir.resolve())
    for threads in map(int, args.threads.split(",")):
        run.on_threads(threads)
    conditions |= {
        "isa": run.isa,
        "load after": machine.load(),
        "repetitions": run.rounds,
        "rotation": f"{rotation_size() >> 20} MiB of weights or more between two uses of one where M <= "
        f"{MEMORY_ROWS[-1]}, in huge pages where given",
        "kernels": sorted({row["label"] for row in run.rows if row["label"].startswith("qmm_")}),
        "left out": run.left_out,
        **run.versions,
    }
    results = {"conditions": conditions, "contenders": run.contenders, "benchmarks": run.rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    report.make(out)
    run.print_contenders()
    print(f"\nWritten: {out}")


if __name__ == "__main__":
    main()
