# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the native SmolLM2 beside llama.cpp: the same model file, tokens and threads. bench/README.md says how."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer

sys.path.append(str(Path(__file__).resolve().parents[1]))

import libqmm
import machine
from build import Built, build
from check import TEXT
from checkpoint import gguf_path
from libqmm.mlir.objects import CPUS
from libqmm.ops import LHS_KINDS

PREFILL, DECODE = 512, 128
LLAMA_CPP = {"llama_cpp, flash attention": "on", "llama_cpp": "off"}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    threads = "1,2" if libqmm.max_threads() > 1 else "1"
    parser.add_argument("--threads", default=threads, help="thread counts, one after the other (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender (default %(default)s)")
    cpu = "x86-64-v3" if "x86-64-v3" in CPUS else "native"
    parser.add_argument("--cpu", choices=CPUS, default=cpu, help="what to compile for (default %(default)s)")
    lhs = "how activations meet the weights (default %(default)s)"
    parser.add_argument("--lhs", choices=LHS_KINDS, default="s8", help=lhs)
    parser.add_argument("--alone", action="store_true", help="without llama.cpp")
    python = machine.ROOT / "build/peers-venv/bin/python"
    parser.add_argument("--llama-python", type=Path, default=python, help="that has llama-cpp-python")
    parser.add_argument(
        "--out", type=Path, default=machine.ROOT / "build/bench/end_to_end.json", help="default %(default)s"
    )
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
        timings = json.loads(out.read_text())
    if timings["threads"] != threads:
        sys.exit(f"this process may use {timings['threads']} threads, not {threads}")
    return timings


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


def results_of(measured: dict[tuple[str, int], list[dict]], threads: list[int]) -> tuple[list[dict], list[dict]]:
    """Returns the rows of "benchmarks", llama.cpp's those of its faster setting, and of "shares"."""
    benchmarks, shares = [], []
    for phase, tokens in (("prefill", PREFILL), ("decode", DECODE)):
        for count in threads:

            def median(name: str, phase=phase, count=count) -> float:
                return statistics.median(speed(run[phase]) for run in measured[name, count])

            native, *others = (name for name, of in measured if of == count)
            for name in [native, max(others, key=median)] if others else [native]:
                row = {"name": f"smollm2/{phase}:{tokens}/{name.split(',')[0]}", "threads": count, "label": name}
                for run in measured[name, count]:
                    benchmarks.append(row | {"ns": run[phase]["ns"], "tokens/s": speed(run[phase])})
            name = f"smollm2/{phase}:{tokens}/{native}"
            shares.append(
                {"name": name, "threads": count} | shares_of([run[phase] for run in measured[native, count]], count)
            )
    return benchmarks, shares


def shares_of(runs: list[dict], threads: int) -> dict:
    """Returns which fractions of a phase's time the parts take, and how long a matmul takes: medians of runs."""
    median = statistics.median
    kernels = median(sum(matmul["ns"] for matmul in run["matmuls"]) / (run["ns"] * threads) for run in runs)
    attention = median(run["attention_ns"] / (run["ns"] * threads) for run in runs)
    matmuls = [
        same[0] | {"ns": median(matmul["ns"] / matmul["calls"] for matmul in same)}
        for same in zip(*(run["matmuls"] for run in runs), strict=True)
    ]
    return {"kernels": kernels, "attention": attention, "rest": 1 - kernels - attention, "matmuls": matmuls}


def print_summary(benchmarks: list[dict], shares: list[dict]) -> None:
    speeds = {}
    for row in benchmarks:
        speeds.setdefault((row["name"], row["threads"]), []).append(row["tokens/s"])
    medians = {key: statistics.median(of) for key, of in speeds.items()}
    for row in shares:
        name, threads = row["name"], row["threads"]
        native, llama = medians[name, threads], medians.get((f"{name.rsplit('/', 1)[0]}/llama_cpp", threads))
        beside = f", llama.cpp {llama:.1f}: {native / llama:.2f} x" if llama else ""
        parts = ", ".join(f"{part} {row[part]:.0%}" for part in ("kernels", "attention", "rest"))
        print(f"{name}, {threads} threads: {native:.1f} tokens/s{beside} ({parts})")
        for matmul in row["matmuls"]:
            print(f"    [{matmul['n']}, {matmul['k']}]: {matmul['calls']} calls of {matmul['ns'] / 1000:.1f} us")


def main() -> None:
    options = parse_arguments()
    threads = [int(count) for count in options.threads.split(",")]
    built = build(options.lhs, cpu=options.cpu)
    ids = Tokenizer.from_file(str(built.tokenizer)).encode(TEXT * 2).ids[: PREFILL + DECODE]
    native = f"qmm_{options.lhs}"
    contenders = {native: lambda count: run_native(built, ids, count)}
    if not options.alone:
        if not options.llama_python.exists():
            sys.exit(f"{options.llama_python} is missing: ./dev bench --model installs it")
        for name, flash_attn in LLAMA_CPP.items():
            contenders[name] = lambda count, flash_attn=flash_attn: run_llama(
                options.llama_python, flash_attn, ids, count
            )

    conditions = machine.conditions() | {
        "rounds": options.rounds,
        "model": gguf_path().name,
        "libqmm": f"{libqmm.version()}, lhs {options.lhs}, program compiled for {options.cpu}",
    }
    measured = measure(contenders, threads, options.rounds)
    if not options.alone:
        run = measured[next(iter(LLAMA_CPP)), threads[0]][0]
        conditions["llama.cpp"] = f"llama-cpp-python {run['version']}; {run['system']}"
    benchmarks, shares = results_of(measured, threads)
    print_summary(benchmarks, shares)
    results = {"conditions": conditions, "benchmarks": benchmarks, "shares": shares}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"Written: {options.out}")


if __name__ == "__main__":
    main()
