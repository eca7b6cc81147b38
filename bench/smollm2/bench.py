# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the native SmolLM2 beside llama.cpp: the same model file, tokens and threads.

A prompt of 512 tokens (prefill), then 128 more one by one (decode), with the logits of the last token of the prompt and
of each one after it. Each run is a process of its own, and the contenders take turns. llama.cpp runs with and without
flash attention; what counts is the faster of the two. Its build is for AVX2, as libqmm's kernels are, and so is the
compiled program unless --cpu says otherwise.

Written as JSON:

    conditions   of the run, as text
    benchmarks   a row a run: name ("smollm2/prefill:512/qmm_s8", ".../llama_cpp"), threads, ns, tokens/s
    shares       of libqmm, medians: name, threads, and the fractions "kernels", "attention" and "rest" (waiting, too)
                 of the time of all threads; then "matmuls": n, k, calls, and ns a call, again of all threads
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer

import libqmm
from build import Built, build
from check import TEXT
from checkpoint import gguf_path
from libqmm.mlir.objects import CPUS

ROOT = Path(__file__).resolve().parents[2]
PREFILL, DECODE = 512, 128
LLAMA_CPP = ("llama_cpp, flash attention", "llama_cpp")  # on, off


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    threads = "1,2" if libqmm.max_threads() > 1 else "1"
    parser.add_argument("--threads", default=threads, help="thread counts, one after the other (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender (default %(default)s)")
    parser.add_argument(
        "--cpu", choices=CPUS, default=CPUS[-2] if len(CPUS) > 1 else CPUS[0], help="default %(default)s"
    )
    parser.add_argument("--lhs", default="s8", help="how activations meet the weights (default %(default)s)")
    parser.add_argument("--alone", action="store_true", help="without llama.cpp")
    parser.add_argument(
        "--llama-python", default=ROOT / "build/peers-venv/bin/python", help="that has llama-cpp-python"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/end_to_end.json", help="default %(default)s")
    return parser.parse_args()


def call(command: list, ids: list[int]) -> str:
    done = subprocess.run(list(map(str, command)), input=" ".join(map(str, ids)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def run_native(built: Built, ids: list[int], threads: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "timings.json"
        call([built.executable, built.weights, "--threads", threads, "--timings", out, "--prefill", PREFILL], ids)
        return json.loads(out.read_text())


def run_llama(python: Path, flash_attn: str, ids: list[int], threads: int) -> dict:
    script = Path(__file__).with_name("llama.py")
    options = ["--threads", threads, "--flash-attn", flash_attn, "--prefill", PREFILL]
    return json.loads(call([python, script, gguf_path(), *options], ids))


def measure(contenders: dict[str, Callable], threads: list[int], rounds: int) -> dict[tuple[str, int], list[dict]]:
    """Returns what the runs of each contender took, by its name and the number of threads."""
    measured = {}
    for turn in range(rounds):
        for count in threads:
            # Every other round backwards, so that none always runs after the same.
            for name, run in list(contenders.items())[:: -1 if turn % 2 else 1]:
                measured.setdefault((name, count), []).append(run(count))
                prefill, decode = (speed(measured[name, count][-1][phase]) for phase in ("prefill", "decode"))
                print(f"[{turn + 1}/{rounds}] {count} threads, {name}: {prefill:.0f}, {decode:.1f}", flush=True)
    return measured


def speed(phase: dict) -> float:
    return phase["tokens"] / phase["ns"] * 1e9


def fastest(measured: dict, count: int, phase: str, names: tuple[str, ...]) -> str:
    return max(names, key=lambda name: statistics.median(speed(run[phase]) for run in measured[name, count]))


def shares_of(runs: list[dict], phase: str) -> dict:
    """Returns where the median time of a phase goes."""
    phases, threads = [run[phase] for run in runs], runs[0]["threads"]
    kernels = [sum(matmul["ns"] for matmul in p["matmuls"]) / (p["ns"] * threads) for p in phases]
    attention = [p["attention_ns"] / (p["ns"] * threads) for p in phases]
    matmuls = [
        {
            "n": same[0]["n"],
            "k": same[0]["k"],
            "calls": same[0]["calls"],
            "ns": statistics.median(m["ns"] / m["calls"] for m in same),
        }
        for same in zip(*(p["matmuls"] for p in phases), strict=True)
    ]
    shares = {"kernels": statistics.median(kernels), "attention": statistics.median(attention)}
    return {**shares, "rest": 1 - sum(shares.values()), "matmuls": matmuls}


def summarize(measured: dict, threads: list[int], native: str) -> tuple[list[dict], list[dict]]:
    """Returns the rows of "benchmarks" and of "shares", and prints them as a table."""
    rows, shares = [], []
    for phase, tokens in (("prefill", PREFILL), ("decode", DECODE)):
        for count in threads:
            medians = {}
            for name in (native, "llama_cpp"):
                source = name
                if name == "llama_cpp":
                    if (name, count) not in measured:
                        continue
                    source = fastest(measured, count, phase, LLAMA_CPP)
                for run in measured[source, count]:
                    row = {"name": f"smollm2/{phase}:{tokens}/{name}", "threads": count, "ns": run[phase]["ns"]}
                    rows.append({**row, "tokens/s": speed(run[phase]), "label": source})
                medians[name] = statistics.median(speed(run[phase]) for run in measured[source, count])
            of = shares_of(measured[native, count], phase)
            shares.append({"name": f"smollm2/{phase}:{tokens}/{native}", "threads": count, **of})
            text = ", ".join(f"{name} {value:.1f} tokens/s" for name, value in medians.items())
            if "llama_cpp" in medians:
                text += f", {medians[native] / medians['llama_cpp']:.2f} x"
            parts = ", ".join(f"{part} {of[part]:.0%}" for part in ("kernels", "attention", "rest"))
            print(f"{phase} of {tokens}, {count} threads: {text} ({parts})")
            for m in of["matmuls"]:
                print(f"    matmul by [{m['n']}, {m['k']}]: {m['calls']} calls of {m['ns'] / 1000:.1f} us")
    return rows, shares


def main() -> None:
    options = parse_arguments()
    threads = [int(count) for count in options.threads.split(",")]
    built = build(options.lhs, cpu=options.cpu)
    ids = Tokenizer.from_file(str(built.tokenizer)).encode(TEXT * 2).ids[: PREFILL + DECODE]
    native = f"qmm_{options.lhs}"
    contenders = {native: lambda count: run_native(built, ids, count)}
    if not options.alone:
        for name, flash_attn in zip(LLAMA_CPP, ("on", "off"), strict=True):
            contenders[name] = lambda count, flash_attn=flash_attn: run_llama(
                options.llama_python, flash_attn, ids, count
            )

    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    conditions = {
        "cpu": cpu[1] if cpu else "unknown",
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "rounds": options.rounds,
        "model": gguf_path().name,
        "libqmm": f"{libqmm.version()}, lhs {options.lhs}, program compiled for {options.cpu}",
    }
    measured = measure(contenders, threads, options.rounds)
    if not options.alone:
        run = measured[LLAMA_CPP[0], threads[0]][0]
        conditions["llama.cpp"] = f"llama-cpp-python {run['version']}; {run['system']}"
    rows, shares = summarize(measured, threads, native)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(
        json.dumps({"conditions": conditions, "benchmarks": rows, "shares": shares}, indent=1) + "\n"
    )
    print(f"Written: {options.out}")


if __name__ == "__main__":
    main()
