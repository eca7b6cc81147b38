# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints what run.py measured: medians, and beside each the ratio to the best fp32 baseline of the same run."""

import json
import statistics
import sys
from collections import defaultdict

COLUMNS = ("shape N x K", "M", "kernel", "GFLOP/s", "GB/s", "x best fp32")
OTHER_COLUMNS = ("what", "ns", "GB/s")


def medians(results, threads):
    """Returns {name: {counter: median}} of the benchmarks on that many threads, in the order of the file."""
    samples = defaultdict(lambda: defaultdict(list))
    for row in results["benchmarks"]:
        if row["threads"] == threads:
            for key in ("ns", "GFLOP/s", "GB/s"):
                if key in row:
                    samples[row["name"]][key].append(row[key])
    return {name: {key: statistics.median(values) for key, values in of.items()} for name, of in samples.items()}


def matmul_rows(measured):
    """Returns the rows of the table of matmuls; None where a new shape begins."""
    cases = defaultdict(dict)
    for name, counters in measured.items():
        kind, *rest = name.split("/")
        if kind == "matmul":
            shape, m, kernel = rest
            cases[shape, m.removeprefix("M:")][kernel] = counters
    rows, last = [], None
    for (shape, m), kernels in cases.items():
        if last not in (None, shape):
            rows.append(None)
        last = shape
        fp32 = [c["GFLOP/s"] for kernel, c in kernels.items() if kernel.startswith("f32_")]
        for kernel, c in kernels.items():
            ratio = f"{c['GFLOP/s'] / max(fp32):.2f}" if fp32 else "-"
            rows.append((shape.replace("x", " x "), m, kernel, f"{c['GFLOP/s']:.1f}", f"{c['GB/s']:.2f}", ratio))
    return rows


def other_rows(measured):
    """Returns the rows of what is not a matmul of a model's shape."""
    return [
        (name, f"{c['ns']:,.0f}", f"{c['GB/s']:.2f}" if "GB/s" in c else "-")
        for name, c in measured.items()
        if not name.startswith("matmul/")
    ]


def print_table(title, columns, rows):
    left = {"shape N x K", "kernel", "what"}
    widths = [max(len(row[i]) for row in [columns, *filter(None, rows)]) for i in range(len(columns))]
    print(f"\n{title}")
    for row in [columns, None, *rows]:
        cells = row or ["-" * width for width in widths]
        aligned = (
            cell.ljust(width) if column in left else cell.rjust(width)
            for cell, width, column in zip(cells, widths, columns, strict=True)
        )
        print("  ".join(aligned).rstrip())


def report(results):
    for threads in sorted({row["threads"] for row in results["benchmarks"]}):
        measured = medians(results, threads)
        on = "1 thread" if threads == 1 else f"{threads} threads"
        for title, columns, rows in (
            (f"Matmul, {on}, medians", COLUMNS, matmul_rows(measured)),
            (f"Around the matmul, {on}, medians", OTHER_COLUMNS, other_rows(measured)),
        ):
            if rows:
                print_table(title, columns, rows)
    print("\nConditions")
    for key, value in results["conditions"].items():
        print(f"  {key}: {', '.join(value) if isinstance(value, list) else value}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: report.py results.json")
    with open(sys.argv[1]) as file:
        report(json.load(file))
