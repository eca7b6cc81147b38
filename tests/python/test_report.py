# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The report of the benchmarks: medians, goals, and what is said of missing data. The figures are made up."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import kernels
import report
import tables
from goals import CHAIN8, FMA, G128_PEERS, READ, U4_G128, U4_GROUPED, Goal, Names, judge
from measured import Run, bits, side, thread_counts

FP32 = Names("best fp32", (r"f32_\w+",))
SHAPE = "4096x4096"
PRODUCTS = 128 * 4096 * 4096


def row(name, threads=1, **counters):
    return {"name": name, "threads": threads, **counters}


def matmul(contender, speed, threads=1, m=128, **more):
    return row(f"matmul/{SHAPE}/M:{m}/{contender}", threads, ns=2 * PRODUCTS / speed, **{"GFLOP/s": speed}, **more)


def run(*rows, source="results.json", **conditions):
    return Run({"conditions": conditions, "benchmarks": list(rows)}, source)


def goal(ours, over, least, m=128, **more):
    return Goal(ours, over, least, (SHAPE,), (m,), **more)


def verdict(the_goal, *runs, threads=1):
    return next(v for v in judge(runs, [the_goal]) if v.threads == threads)


def test_medians():
    of = run(*(row("peak/fma", ns=ns, **{"GFLOP/s": 1000 / ns}) for ns in (10, 9, 50)), row("peak/fma", 2, ns=5))
    assert of.on(1) == {"peak/fma": {"ns": 10, "GFLOP/s": 100}}
    assert of.on(2) == {"peak/fma": {"ns": 5}}
    assert thread_counts([of]) == [1, 2]


def test_counters_of_a_median_belong_together():
    of = run(*(row("peak/fma", ns=ns, **{"GFLOP/s": 1000 / ns}) for ns in (10, 100)))
    assert of.on(1) == {"peak/fma": {"ns": 100, "GFLOP/s": 10}}


def test_goal_met_and_missed():
    f32 = goal(U4_G128, FP32, 3.0, peak=CHAIN8)
    rows = [matmul("f32_eigen", 70), matmul("f32_openblas", 80), row("peak/maddubs_chain8", **{"GFLOP/s": 320})]
    met = verdict(f32, run(*rows, matmul("qmm_u4_g128_s8", 240)))
    assert met.status() == "met"
    (cell,) = met.cells
    assert (cell.figure, cell.over, cell.bound) == (3.0, "f32_openblas", 4.0)

    missed = verdict(f32, run(*rows, matmul("qmm_u4_g128_s8", 239)))
    assert missed.status() == "MISSED"
    table = tables.goals_table([missed])
    assert dict(zip(table.columns, table.rows[0], strict=True)) == {
        "goal": "u4 g128, M = 128 / best fp32",
        "threads": "1",
        "aim": ">= 3",
        "is": "2.99",
        "status": "MISSED",
        "bound here": "4",
        "of it": "75%",
        "bound on Zen 3": "-",
        "cases": "1 of 1",
        "worst case": "4096x4096/M:128/qmm_u4_g128_s8 / f32_openblas",
    }


def test_the_median_decides():
    speeds = (10, 250, 250)
    of = run(matmul("f32_eigen", 80), *(matmul("qmm_u4_g128_s8", speed) for speed in speeds))
    assert verdict(goal(U4_G128, FP32, 3.0), of).status() == "met"


def test_the_worst_case_decides():
    of = run(
        *(matmul("f32_eigen", 80, m=m) for m in (128, 512)),
        matmul("qmm_u4_g128_s8", 250),
        matmul("qmm_u4_g128_s8", 200, m=512),
    )
    both = verdict(Goal(U4_G128, FP32, 3.0, (SHAPE,), (128, 512)), of)
    assert both.status() == "MISSED"
    assert [cell.figure for cell in both.measured()] == [2.5, 3.125]


def test_at_most():
    least = Goal(U4_G128, FP32, 0.5, (SHAPE,), (128,), counter="ns", at_most=True)
    rows = [matmul("f32_eigen", 100)]
    assert verdict(least, run(*rows, matmul("qmm_u4_g128_s8", 210))).status() == "met"
    assert verdict(least, run(*rows, matmul("qmm_u4_g128_s8", 190))).status() == "MISSED"


def test_missing_is_said():
    peers = goal(U4_GROUPED, G128_PEERS, 2.2)
    nothing = verdict(peers, run())
    assert nothing.status() == "NO DATA"

    in_part = verdict(peers, run(matmul("qmm_u4_g128_s8", 250), matmul("peer_ort_u4_g128", 100)))
    assert in_part.status() == "met in part"
    prefix = f"matmul/{SHAPE}/M:128/"
    assert set(in_part.missing()) == {f"{prefix}qmm_u4_g32_s8", f"{prefix}peer_xnnpack_qb4w_g128"}
    assert ("qmm_u4_g32_s8", "1") in tables.missing_table([in_part]).rows
    statuses = [
        row[tables.cases_table([in_part]).columns.index("status")] for row in tables.cases_table([in_part]).rows
    ]
    assert statuses == ["NO DATA", "met"]

    # The other number of threads was not measured at all.
    assert verdict(peers, run(matmul("qmm_u4_g128_s8", 250)), threads=2).status() == "NO DATA"


def test_every_goal_is_judged_without_data():
    assert {v.status() for v in judge([run()])} == {"NO DATA"}


def test_figures_of_one_file_are_compared():
    """The second file's machine was slow when it was measured; so were ours and the peer in it."""
    first = run(matmul("qmm_u4_g128_s8", 250), matmul("f32_eigen", 80))
    second = run(matmul("qmm_u4_g128_s8", 125), matmul("peer_ort_u4_g128", 50), source="peers.json")
    (cell,) = verdict(goal(U4_G128, G128_PEERS, 2.2), first, second).cells
    assert cell.figure == 2.5
    (cell,) = verdict(goal(U4_G128, FP32, 3.0), first, second).cells
    assert cell.figure == 3.125


def test_peaks_of_the_same_process():
    peaks = [row("peak/maddubs_chain8", process=p, **{"GFLOP/s": speed}) for p, speed in ((1, 300), (2, 200))]
    of = run(*peaks, matmul("qmm_u4_g128_s8", 180, process=2))
    (cell,) = verdict(goal(U4_G128, CHAIN8, 0.85, peak=CHAIN8), of).cells
    assert (cell.figure, cell.bound) == (0.9, 1.0)


def test_best_of_many_peaks():
    reads = [row(f"peak/read/{streams}x2m", **{"GB/s": speed}) for streams, speed in ((1, 16), (8, 32), (16, 30))]
    of = run(*reads, matmul("qmm_u4_g128_s8", 60, m=1, **{"GB/s": 28}))
    (cell,) = verdict(goal(U4_G128, READ, 0.9, m=1, counter="GB/s", peak=READ), of).cells
    assert (cell.figure, cell.over, cell.bound) == (0.875, "peak/read/8x2m", 1.0)


def test_gain_of_threads():
    peaks = [row("peak/fma", threads, **{"GFLOP/s": speed}) for threads, speed in ((1, 10), (2, 19))]
    of = run(*peaks, matmul("qmm_u4_g128_s8", 100), matmul("qmm_u4_g128_s8", 180, threads=2))
    verdicts = judge([of], [goal(U4_G128, FMA, 0.9, scaling=True)])
    assert [v.threads for v in verdicts] == [2]
    assert verdicts[0].cells[0].figure == pytest.approx(1.8 / 1.9)


def test_condensed_says_the_same():
    rows = [matmul("qmm_u4_g128_s8", speed, process=1) for speed in (100, 200, 300)]
    of = run(*rows, row("peak/fma", process=1, ns=1, **{"GFLOP/s": 111}), cpu="a CPU")
    kept = json.loads(of.condensed())
    assert dict(zip(kept["columns"], kept["benchmarks"][0], strict=True)) == {
        "name": f"matmul/{SHAPE}/M:128/qmm_u4_g128_s8",
        "threads": 1,
        "process": 1,
        "samples": 3,
        "min_ns": pytest.approx(2 * PRODUCTS / 300, rel=1e-4),
        "ns": pytest.approx(2 * PRODUCTS / 200, rel=1e-4),
        "GFLOP/s": 200,
    }
    again = Run(kept, of.source)
    assert again.conditions == of.conditions
    for name, counters in of.on(1).items():
        assert (
            again.on(1)[name].items()
            >= {counter: pytest.approx(v, rel=1e-4) for counter, v in counters.items()}.items()
        )


def test_names():
    for contender, whose, width in (
        ("f32_openblas", "fp32", 32),
        ("qmm_u4_g32_mins_s8", "ours", 4),
        ("qmm_s8_channel_f32", "ours", 8),
        ("peer_ggml_q4_k", "peer", 4),
        ("peer_ggml_q8_0", "peer", 8),
        ("peer_xnnpack_qb4w_g32", "peer", 4),
        ("peer_xnnpack_qc8w", "peer", 8),
        ("peer_torch_dyn_int4_g32", "peer", 4),
        ("peer_onednn_u8s8", "peer", 8),
    ):
        assert (side(contender), bits(contender)) == (whose, width)


def test_terminal(capsys):
    of = run(matmul("qmm_u4_g128_s8", 200, **{"GB/s": 3}), matmul("f32_eigen", 100), cpu="a CPU")
    report.report([of], [of])
    said = capsys.readouterr().out
    assert "4096 x 4096  128  qmm_u4_g128_s8    200.0  3.00         2.00" in said
    assert "Not measured, though goals need it" in said
    assert "a CPU" in said


def test_page(tmp_path):
    peaks = [row("peak/fma", **{"GFLOP/s": 110}), row("peak/read/8x2m", **{"GB/s": 30})]
    speeds = {"qmm_u4_g128_s8": 250, "peer_ort_u4_g128": 100, "f32_eigen": 90}
    kernels = [matmul(name, speed, m=m, **{"GB/s": 3}) for name, speed in speeds.items() for m in (1, 128)]
    report.draw([run(*peaks, *kernels, cpu="a CPU <of mine>", date="today")], tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "libqmm on a CPU &lt;of mine&gt;" in page
    assert "today" in page
    charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(charts) == len(list(tmp_path.glob("*.png"))) == 3  # roofline, sweep over M, bars
    said = [text for chart in charts for text in ElementTree.fromstring(chart).itertext()]
    assert {"GFLOP/s", "FMA", "110", "qmm_u4_g128_s8", "ort_u4_g128", "best fp32", "M = 128", "0.25"} <= set(said)
    assert "Not measured: Gain of threads, 4-bit weights" in page
    assert not re.search(r"<script|<link|<img|url\((?!#)|(src|href)=\"(?!#)", page)  # nothing is fetched


def test_files_of_different_machines(tmp_path):
    for name, cpu in (("results.json", "one"), ("peers.json", "another")):
        (tmp_path / name).write_text(json.dumps({"conditions": {"cpu": cpu}, "benchmarks": []}))
    with pytest.raises(SystemExit, match="different CPUs"):
        report.load_all(report.written(tmp_path))


def test_bounds_of_the_cores_that_kernels_are_measured_on():
    text = kernels.BOUNDS.read_text()
    for core in kernels.CORES.values():
        bounds = kernels.read_bounds(text, core)
        assert {grouping for *_, grouping in bounds} == set(kernels.GROUPINGS)
        assert 12 < bounds["qmm_f32_f32_u4_6x16x8_avx2", "M:128", "group 128"] <= 16
    assert kernels.read_bounds(text, None) == kernels.read_bounds(text, "Z80") == {}
