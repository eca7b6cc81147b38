# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One contender in a process of its own, so that no library meets the threads or the crash of another.

    python -m peers.worker <contender> <threads>

Reads commands, JSON objects a line each, from standard input, and answers each with a line.
"""

import importlib
import json
import os
import sys
import time

import numpy as np

from . import problem
from .contenders import CONTENDERS

CHECKED_ROWS = 16


class Worker:
    def __init__(self, name, threads):
        module, kind, arguments = CONTENDERS[name]
        self.module = importlib.import_module(f".{module}", __package__)
        # As many CPUs as threads, the last ones, before the library starts any thread: it can not use more.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        self.contender = getattr(self.module, kind)(threads, **arguments)
        self.w = None

    def versions(self):
        return self.module.VERSIONS

    def refusal(self, shape):
        return self.contender.refusal(*shape)

    def load(self, shape, copies, size):
        """Loads so many copies of the weights, or more where they have less than `size` bytes. Returns those of one."""
        if self.w is None or self.w.shape != tuple(shape):
            self.w = problem.weights(*shape)
            self.contender.quantize(self.w)
        self.copies = max(copies, -(-size // self.contender.weight_bytes))
        self.contender.pack(self.copies)
        return self.contender.weight_bytes

    def bind(self, m):
        """Makes ready for m rows, runs once, and compares the first and the last result with fp32's."""
        x = problem.activations(m, self.w.shape[1])
        self.contender.bind(x)
        self._timed_runs(1)
        rows = np.unique(np.linspace(0, m - 1, CHECKED_ROWS).astype(int))
        expected = x[rows] @ self.w.T
        errors = []
        for copy in (0, self.copies - 1):
            y = problem.turned(self.contender.result(copy)[rows], -copy, axis=1)
            errors.append(float(np.linalg.norm(y - expected) / np.linalg.norm(expected)))
        right = all(error <= self.contender.tolerance for error in errors)  # a NaN is not
        return {"label": self.contender.label, "error": max(errors), "right": right}

    def _timed_runs(self, count):
        start = time.perf_counter_ns()
        for _ in range(count):
            self.contender.run()
        self.run_ns = (time.perf_counter_ns() - start) / count

    def time(self, seconds):
        """Returns ns a matmul, in runs that take `seconds` together, warmed up; or in one, if that takes longer."""
        if self.run_ns < seconds * 1e9:
            self._timed_runs(1)
        self._timed_runs(max(1, round(seconds * 1e9 / self.run_ns)))
        return self.run_ns / self.copies

    def full_range(self, shape):
        """Returns the part of the right result that comes of the largest inputs: half, where sums of pairs saturate."""
        n, k = shape
        parts = []
        for sign in (1, -1):
            self.contender.quantize(np.full((n, k), sign, np.float32))
            self.contender.pack(1)
            self.contender.bind(np.ones((4, k), np.float32))
            self.contender.run()
            parts.append(float(np.min(self.contender.result(0) / (sign * k))))
        return min(parts)


def main():
    # Libraries that print must not answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(worker, command.pop("do"))(**command)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
