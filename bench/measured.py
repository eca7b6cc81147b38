# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what the benchmarks wrote: {"conditions": {...}, "benchmarks": [{"name", "threads", counters ...}, ...]}, where
each repetition is a row. Conclusions are drawn from medians, and from what was measured close together."""

import json
import re
from collections import defaultdict
from pathlib import Path

NOT_COUNTERS = {"name", "threads", "process", "samples", "label"}


def median(samples):
    """Returns the sample in the middle by its time, the slower of two, so that its counters belong together."""
    return sorted(samples, key=lambda counters: counters.get("ns", 0))[len(samples) // 2]


class Run:
    """One file."""

    def __init__(self, results, source):
        self.source = source
        self.head = {key: value for key, value in results.items() if key not in ("benchmarks", "columns")}
        self.conditions = results["conditions"]
        self.samples = defaultdict(list)  # {(name, threads, process): [{counter: value}]}; in a process all take turns
        pooled = defaultdict(list)
        for row in results["benchmarks"]:
            if "columns" in results:  # condensed
                row = {key: value for key, value in zip(results["columns"], row, strict=True) if value is not None}
            name, threads, counters = row["name"], row["threads"], {k: row[k] for k in row if k not in NOT_COUNTERS}
            self.samples[name, threads, row.get("process")].append(counters)
            pooled[name, threads].append(counters)
        self.measured = defaultdict(dict)  # {threads: {name: {counter: median}}}
        for (name, threads), samples in pooled.items():
            self.measured[threads][name] = median(samples)
        self.processes = defaultdict(dict)  # {process: {name: {counter: median}}}
        self.process_of = {}  # {(name, threads): process}, of the last one
        for (name, threads, process), samples in self.samples.items():
            self.processes[process][name] = median(samples)
            self.process_of[name, threads] = process

    def on(self, threads):
        """Returns {name: {counter: median}} of the benchmarks on that many threads, in the order of the file."""
        return self.measured.get(threads, {})

    def beside(self, name, threads):
        """Returns the same, but what the process of that benchmark measured as it was there: the peaks above all."""
        process = self.process_of.get((name, threads))
        return self.on(threads) if process is None else self.on(threads) | self.processes[process]

    def condensed(self):
        """Returns JSON that gives the same medians, with the shortest time beside them; its rows are lists."""
        counters = dict.fromkeys(key for samples in self.samples.values() for key in samples[0] if key != "min_ns")
        columns = ["name", "threads", "process", "samples", "min_ns", *counters]
        rows = []
        for (name, threads, process), samples in self.samples.items():
            times = [sample.get("min_ns", sample["ns"]) for sample in samples if "ns" in sample]
            row = {"name": name, "threads": threads, "process": process, "samples": len(samples), **median(samples)}
            row["min_ns"] = min(times, default=None)
            short = [float(f"{v:.5g}") if isinstance(v, float) else v for v in map(row.get, columns)]
            rows.append(json.dumps([int(v) if isinstance(v, float) and v >= 1e5 else v for v in short]))
        head = json.dumps(self.head | {"columns": columns}, indent=1)
        return head[:-2] + ',\n "benchmarks": [\n' + ",\n".join(rows) + "\n ]\n}\n"


def load(path):
    return Run(json.loads(Path(path).read_text()), Path(path).name)


def thread_counts(runs):
    return sorted({threads for run in runs for threads in run.measured})


def on_threads(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"


def merged(runs, threads):
    """Returns {name: {counter: median}} of all files; where two measured the same, the first counts."""
    measured = {}
    for run in runs:
        for name, counters in run.on(threads).items():
            measured.setdefault(name, counters)
    return measured


def matmuls(measured, kind="matmul"):
    """Returns {("<N>x<K>", M): {contender: {counter: median}}} of what is named <kind>/<N>x<K>/M:<M>/<contender>."""
    cases = defaultdict(dict)
    for name, counters in measured.items():
        of, *rest = name.split("/")
        if of == kind:
            shape, m, contender = rest
            cases[shape, int(m.removeprefix("M:"))][contender] = counters
    return cases


def side(contender):
    """Returns whose it is: "fp32", "peer" or "ours"."""
    return {"f32": "fp32", "peer": "peer"}.get(contender.split("_")[0], "ours")


def bits(contender):
    """Returns the bits of its weights: qmm_u4_g32_s8, peer_ggml_q4_0, peer_xnnpack_qc8w ..."""
    for word in contender.split("_"):
        if found := re.match(r"(?!g\d)[a-z]+(4|8|32)(?!\d)", word):
            return int(found[1])
    raise ValueError(f"{contender}: its name does not tell how many bits a weight has")
