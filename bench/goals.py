# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the kernels shall reach on an AVX2 machine, and whether the benchmarks show it.

A goal is a ratio of two medians for each shape, M and thread count; the worst of them decides. Both medians are taken
from the same file where it has both. What was not measured is named, and no goal is met without it.
"""

import re
from dataclasses import dataclass, field
from itertools import product

THREADS = (1, 2)
LARGE = ("4096x4096",)  # N x K, as in a model with 7 billion weights
SMALL = ("576x576", "1536x576", "576x1536")  # SmolLM2-135M's
ODD = {"4097x4099": "4096x4096", "1000x1003": "1024x1024", "77x333": "80x320"}  # and what each is compared with
MANY = (128, 512)  # M


@dataclass(frozen=True)
class Names:
    """Benchmarks, as regular expressions: matmul's contenders where they have no slash. {shape} ... are filled in."""

    label: str
    of: tuple[str, ...]


FP32 = Names("best fp32", ("f32_openblas", "f32_eigen", "f32_onednn", "f32_xnnpack", r"f32_\w+"))
# Those that must be there, and whatever else there is.
G32_PEERS = Names(
    "best g32 peer",
    ("peer_ort_u4_g32", "peer_ggml_q4_0", "peer_ggml_q4_k", "peer_xnnpack_qb4w_g32", r"peer_\w+4_(g32|0|1|k)"),
)
G128_PEERS = Names("best g128 peer", ("peer_ort_u4_g128", "peer_xnnpack_qb4w_g128", r"peer_\w+4_g128"))
GROUPED_PEERS = Names("best grouped peer", G32_PEERS.of + G128_PEERS.of)
QC4W = Names("XNNPACK qc4w", ("peer_xnnpack_qc4w",))
QC8W = Names("XNNPACK qc8w", ("peer_xnnpack_qc8w",))
# They saturate, or give up a bit of the lhs.
INEXACT = Names("best inexact peer", ("peer_ort_s8_channel", "peer_onednn_u8s8", r"peer_torch_(fbgemm|onednn)_\w+"))

FMA = Names("FMA peak", ("peak/fma",))
CHAIN8 = Names("8-chain peak", ("peak/maddubs_chain8",))  # eight vpmaddubsw summed in int16, then one vpmaddwd
MADD16 = Names("int16 madd peak", ("peak/madd16",))  # vpmaddwd on codes widened to int16
READ = Names("read bandwidth", (r"peak/read/\w+",))  # of as many streams as read fastest
F32_LOOP = Names("its loop from L1", ("peak/f32_decode_l1",))  # in the order of operations that lhs F32 prescribes

U4_G32 = Names("u4 g32", ("qmm_u4_g32_s8",))
U4_G128 = Names("u4 g128", ("qmm_u4_g128_s8",))
U4_GROUPED = Names("u4 g32, g128", U4_G32.of + U4_G128.of)
U4_CHANNEL = Names("u4 per channel", ("qmm_u4_channel_s8",))
S8 = Names("s8", ("qmm_s8_g32_s8", "qmm_s8_channel_s8"))
U4_LHS_F32 = Names("u4 lhs f32", ("qmm_u4_g32_f32", "qmm_u4_g128_f32"))
LHS_F32 = Names("lhs f32", (*U4_LHS_F32.of, "qmm_s8_g32_f32"))
SMOLLM2 = Names("SmolLM2's shapes, u4 g32", ("qmm_u4_g32_s8", "qmm_u4_g32_mins_s8"))
ODD_SHAPES = Names("odd N and K", tuple(f"odd/{{shape}}/M:{{m}}/{name}" for name in (*U4_GROUPED.of, *U4_CHANNEL.of)))
EVEN_SHAPES = Names("even ones", ("odd/{even}/M:{m}/{contender}",))
CALL = Names("ns of a call", ("call/qmm_u4_g8_s8", "call/qmm_s8_g8_s8"))
QUANTIZE_LHS = Names("quantizing the lhs", ("quantize_lhs/K:{k}/u4_g128/M:{m}",))
PREFILL = Names("SmolLM2, prefill of 512 tokens", ("smollm2/prefill:512/qmm_s8",))
DECODE = Names("SmolLM2, decode of 128 tokens", ("smollm2/decode:128/qmm_s8",))
LLAMA_PREFILL = Names("llama.cpp", ("smollm2/prefill:512/llama_cpp",))
LLAMA_DECODE = Names("llama.cpp", ("smollm2/decode:128/llama_cpp",))
NOTHING = Names("", ())


@dataclass(frozen=True)
class Goal:
    ours: Names
    over: Names  # ours is divided by the best of these
    goal: float | dict[int, float]  # at least; a dict where it depends on the threads
    shapes: tuple[str, ...] = ("",)
    ms: tuple[int, ...] = (0,)
    peak: Names = NOTHING  # what bounds ours
    bound: float | None = None  # of the ratio, as computed for Zen 3
    counter: str = "GFLOP/s"
    at_most: bool = False
    scaling: bool = False  # ours and over are the gain over one thread

    def what(self):
        m = f", M = {', '.join(map(str, self.ms))}" if self.ms != (0,) else ""
        what = f"{self.ours.label}{m}" + f" / {self.over.label}" * bool(self.over.label)
        return f"gain of threads: {what}" if self.scaling else what


GOALS = (
    Goal(U4_G128, FP32, 3.0, LARGE, MANY, CHAIN8, 3.6),
    Goal(U4_G128, CHAIN8, 0.85, LARGE, MANY, CHAIN8, 1.0),
    Goal(U4_G32, FP32, 2.5, LARGE, MANY, CHAIN8, 3.0),
    Goal(U4_G32, CHAIN8, 0.7, LARGE, MANY, CHAIN8, 0.83),
    Goal(U4_G128, G128_PEERS, 2.2, LARGE, MANY, CHAIN8),
    Goal(U4_G32, G32_PEERS, 2.2, LARGE, MANY, CHAIN8),
    Goal(U4_CHANNEL, QC4W, 1.5, LARGE, (4, 16, 128, 512), CHAIN8, 1.9),
    Goal(U4_CHANNEL, QC4W, 1.5, LARGE, (1,), READ),
    Goal(U4_GROUPED, GROUPED_PEERS, 1.8, LARGE, (4, 8, 16), CHAIN8),
    Goal(U4_GROUPED, READ, 0.9, LARGE, (1,), READ, 1.0, counter="GB/s"),
    Goal(U4_GROUPED, GROUPED_PEERS, {1: 1.7, 2: 1.4}, LARGE, (1,), READ),
    Goal(S8, MADD16, 0.85, LARGE, MANY, MADD16, 1.0),
    Goal(S8, FP32, 1.7, LARGE, MANY, MADD16, 2.0),
    Goal(S8, QC8W, 1.35, LARGE, MANY, MADD16),
    Goal(S8, INEXACT, 0.9, LARGE, MANY, MADD16),
    Goal(S8, READ, 0.9, LARGE, (1,), READ, 1.0, counter="GB/s"),
    Goal(LHS_F32, FP32, 0.95, LARGE, MANY, FMA, 1.0),
    Goal(U4_LHS_F32, FP32, 2.5, LARGE, (1,), F32_LOOP),
    Goal(U4_LHS_F32, F32_LOOP, 0.85, LARGE, (1,), F32_LOOP, 1.0),
    Goal(SMOLLM2, GROUPED_PEERS, 1.3, SMALL, (1,), READ),
    Goal(SMOLLM2, GROUPED_PEERS, 1.3, SMALL, (32,), CHAIN8),
    Goal(CALL, NOTHING, 500, counter="ns", at_most=True),
    Goal(QUANTIZE_LHS, U4_G128, 0.03, ("1024x4096", *LARGE), (16, 128), counter="ns", at_most=True),
    Goal(U4_GROUPED, FMA, 0.9, LARGE, (128,), scaling=True),
    Goal(S8, FMA, 0.9, LARGE, (128,), scaling=True),
    Goal(ODD_SHAPES, EVEN_SHAPES, 0.9, tuple(ODD), (1, 32, 128)),
    Goal(PREFILL, LLAMA_PREFILL, 3.5, counter="tokens/s"),
    Goal(DECODE, LLAMA_DECODE, 2.3, bound=3.8, counter="tokens/s"),
)


@dataclass
class Cell:
    """A goal in one case."""

    where: str
    figure: float | None = None
    over: str = ""
    bound: float | None = None  # the figure if ours ran at its peak
    missing: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    goal: Goal
    threads: int
    least: float  # or most
    cells: list[Cell]

    def fails(self, cell):
        return cell.figure > self.least if self.goal.at_most else cell.figure < self.least

    def measured(self):
        """Returns the cells that have a figure, the worst first."""
        return sorted(
            (c for c in self.cells if c.figure is not None), key=lambda c: c.figure, reverse=self.goal.at_most
        )

    def missing(self):
        return [name for cell in self.cells for name in cell.missing]

    def status(self):
        measured = self.measured()
        if not measured:
            return "NO DATA"
        if self.fails(measured[0]):
            return "MISSED"
        return "met in part" if self.missing() else "met"


def find(measured, pattern):
    """Returns the names that the pattern matches in full."""
    if "\\" in pattern:
        return [name for name in measured if re.fullmatch(pattern, name)]
    return [pattern] if pattern in measured else []


class View:
    """What one file says about a case: what was measured close to our figure, on these threads and on one."""

    def __init__(self, run, goal, ours, threads):
        self.goal, self.measured, self.on_one = goal, run.beside(ours, threads), run.beside(ours, 1)

    def value(self, name):
        """Returns the figure of a benchmark, None if it was not measured."""
        counter = self.goal.counter
        value = self.measured.get(name, {}).get(counter)
        if not self.goal.scaling:
            return value
        one = self.on_one.get(name, {}).get(counter)
        return value / one if value and one else None

    def values(self, pattern):
        return {name: value for name in find(self.measured, pattern) if (value := self.value(name)) is not None}


def fraction_of_peak(goal, ours, view, views):
    """Returns how much our figure is of what bounds it, None if that was not measured."""
    counter = "GB/s" if goal.peak is READ else "GFLOP/s"
    for of in (view, *views):
        if peaks := [of.measured[name][counter] for pattern in goal.peak.of for name in find(of.measured, pattern)]:
            return view.measured[ours][counter] / max(peaks)
    return None


def judge_cell(goal, runs, threads, shape, m, ours):
    def full(pattern):
        pattern = pattern if "/" in pattern else "matmul/{shape}/M:{m}/" + pattern
        contender = ours.split("/")[-1]
        return pattern.format(shape=shape, k=shape.split("x")[-1], m=m, even=ODD.get(shape), contender=contender)

    name = full(ours)
    cell = Cell(name.removeprefix("matmul/"))
    views = [View(run, goal, name, threads) for run in runs]
    figures = {view: view.value(name) for view in views if view.value(name) is not None}
    if not figures:
        cell.missing.append(name)
    ratios = [] if goal.over.of else [(figure, "", view) for view, figure in figures.items()]
    for pattern in map(full, goal.over.of):
        found = [(view, *item) for view in views for item in view.values(pattern).items()]
        if not found:
            cell.missing.append(pattern)
        for view, over, value in found if figures else []:
            own = view if view in figures else next(iter(figures))
            ratios.append((figures[own] / value, over.removeprefix(f"matmul/{shape}/M:{m}/"), own))
    if ratios:
        cell.figure, cell.over, view = (max if goal.at_most else min)(ratios, key=lambda ratio: ratio[0])
        fraction = fraction_of_peak(goal, name, view, views)
        cell.bound = fraction and cell.figure / fraction
    return cell


def judge(runs, goals=GOALS):
    """Returns a Verdict for each goal on each number of threads."""
    return [
        Verdict(
            goal,
            threads,
            goal.goal[threads] if isinstance(goal.goal, dict) else goal.goal,
            [judge_cell(goal, runs, threads, *case) for case in product(goal.shapes, goal.ms, goal.ours.of)],
        )
        for goal in goals
        for threads in THREADS
        if threads > 1 or not goal.scaling
    ]
