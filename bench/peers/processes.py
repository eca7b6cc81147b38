# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The other side of worker.py: starts the contenders' processes and talks to them."""

import json
import os
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
PYTHON = BENCH.parent / "build/peers-venv/bin/python"  # which has the libraries
# Settings of the libraries that may slow them down; none of the caller's are passed on.
SETTINGS = ("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_", "GGML_", "QMM_", "LD_PRELOAD")


def environment(build_dir, threads=1, preload=None):
    """Returns the environment of a worker."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
    env |= {
        "PYTHONPATH": str(BENCH.parent / "abi/python"),
        "QMM_LIBRARY": str(build_dir / "libqmm.so.1"),
        "QMM_PEERS_LOOP": str(build_dir / "bench/libqmm_peers_loop.so"),
        # glibc asks for huge pages for all that it allocates, so that no contender pays for small ones.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",  # numpy's, which is not measured
        "GGML_NO_BACKTRACE": "1",  # else it starts a debugger where it aborts
    }
    return env | ({"LD_PRELOAD": str(preload)} if preload else {})


def cpu_features(env):
    """Returns the vector extensions that libraries are told of, those that libqmm has names for."""
    command = [PYTHON, "-c", "import libqmm; print(*libqmm.cpu_features())"]
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


class Died(Exception):
    """A worker has ended: the sentence says why."""


class Worker:
    def __init__(self, name, threads, env):
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the process)
        self.process = subprocess.Popen(
            [PYTHON, "-m", "peers.worker", name, str(threads)],
            cwd=BENCH,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def ask(self, do, **arguments):
        answer = ""
        try:
            print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            pass
        if answer:
            return json.loads(answer)
        code = self.process.wait()
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or ["it said nothing"])[-1]
        raise Died(last if code >= 0 else f"ended by {signal.Signals(-code).name}, after it said: {last}")

    def close(self):
        self.process.communicate()
        self.errors.close()


class Workers:
    """Contenders on a number of threads. One that ends is gone, with a sentence in `left_out`."""

    def __init__(self, names, threads, env, left_out):
        self.threads, self.left_out = threads, left_out
        self.workers = {name: Worker(name, threads, env) for name in names}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers.values():
            worker.close()

    def ask(self, names, do, **arguments):
        """Asks those of `names` that are there, two at a time; returns {name: answer}."""
        names = [name for name in names if name in self.workers]

        def answer_of(name):
            try:
                return self.workers[name].ask(do, **arguments)
            except Died as death:
                return death

        with ThreadPoolExecutor(2) as pool:
            answers = dict(zip(names, pool.map(answer_of, names), strict=True))
        for name in names:
            if isinstance(answers[name], Died):
                asked = " ".join([do, *(f"{key}={value}" for key, value in arguments.items())])
                self.left_out.append(f'{name} on {self.threads} threads, from "{asked}" on: {answers.pop(name)}')
                self.workers.pop(name).close()
        return answers
