# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tables of the report, for the terminal and for the page."""

from dataclasses import dataclass

from measured import matmuls, merged, on_threads, side, thread_counts

GOAL = ("goal", "threads", "aim")
LEFT = ("shape N x K", "kernel", "what", "was", "goal", "status", "case", "over", "missing", "worst case")


@dataclass
class Table:
    title: str
    columns: tuple
    rows: list  # of tuples of strings; None where a line is drawn
    folded: bool = False  # on the page


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def matmul_table(run, threads):
    rows, last = [], None
    for (shape, m), contenders in matmuls(run.on(threads)).items():
        if last not in (None, shape):
            rows.append(None)
        last = shape
        fp32 = [c["GFLOP/s"] for contender, c in contenders.items() if side(contender) == "fp32"]
        for contender, c in contenders.items():
            ratio = f"{c['GFLOP/s'] / max(fp32):.2f}" if fp32 else "-"
            speed = f"{c['GFLOP/s']:.1f}", f"{c['GB/s']:.2f}" if "GB/s" in c else "-"
            rows.append((shape.replace("x", " x "), str(m), contender, *speed, ratio))
    columns = ("shape N x K", "M", "kernel", "GFLOP/s", "GB/s", "x best fp32")
    return Table(f"Matmul, {on_threads(threads)}, medians of {run.source}", columns, rows)


def speeds_table(run, threads):
    """Returns the same, shorter: GFLOP/s alone, and a column for each M."""
    cases = matmuls(run.on(threads))
    ms = sorted({m for _, m in cases})
    rows = []
    for shape in dict.fromkeys(shape for shape, _ in cases):
        of = {m: cases.get((shape, m), {}) for m in ms}
        for contender in dict.fromkeys(contender for contenders in of.values() for contender in contenders):
            speeds = (of[m].get(contender, {}).get("GFLOP/s") for m in ms)
            rows.append((shape.replace("x", " x "), contender, *map(number, speeds)))
        rows.append(None)
    columns = ("shape N x K", "kernel", *(f"M = {m}" for m in ms))
    return Table(f"Matmul, {on_threads(threads)}, GFLOP/s, medians of {run.source}", columns, rows[:-1], folded=True)


def kernels_table(run, threads, kind, title):
    """Returns the speed of our kernels on shapes of another kind: a column for each kernel."""
    cases = matmuls(run.on(threads), kind)
    kernels = list(dict.fromkeys(contender for of in cases.values() for contender in of))
    rows = [
        (shape.replace("x", " x "), str(m), *(number(of.get(kernel, {}).get("GFLOP/s")) for kernel in kernels))
        for (shape, m), of in cases.items()
    ]
    columns = ("shape N x K", "M", *(kernel.removeprefix("qmm_") for kernel in kernels))
    return Table(f"{title}, {on_threads(threads)}, GFLOP/s, medians of {run.source}", columns, rows, folded=True)


def other_table(run, threads):
    counters = ("ns", "GFLOP/s", "GB/s", "tokens/s")
    rows = [
        (name, *(f"{c[counter]:,.{int(counter != 'ns')}f}" if counter in c else "-" for counter in counters))
        for name, c in run.on(threads).items()
        if name.split("/")[0] not in ("matmul", "odd", "sweep")
    ]
    title = f"Around the matmul, {on_threads(threads)}, medians of {run.source}"
    return Table(title, ("what", *counters), rows, folded=True)


def goal_cells(verdict):
    return (
        verdict.goal.what(),
        str(verdict.threads),
        f"{'<=' if verdict.goal.at_most else '>='} {number(verdict.least)}",
    )


def goals_table(verdicts):
    rows = []
    for v in verdicts:
        measured = v.measured()
        worst = measured[0] if measured else None
        share = f"{worst.figure / worst.bound:.0%}" if worst and worst.bound else "-"
        rows.append(
            (
                *goal_cells(v),
                number(worst and worst.figure),
                v.status(),
                number(worst and worst.bound),
                share,
                number(v.goal.bound),
                f"{len(measured)} of {len(v.cells)}",
                f"{worst.where} / {worst.over}".removesuffix(" / ") if worst else "-",
            )
        )
    columns = (*GOAL, "is", "status", "bound here", "of it", "bound on Zen 3", "cases", "worst case")
    return Table("Goals: the worst case of each", columns, rows)


def cases_table(verdicts):
    rows = []
    for v in verdicts:
        for cell in v.cells:
            became = "NO DATA" if cell.figure is None else "MISSED" if v.fails(cell) else "met"
            missing = ", ".join(cell.missing) or "-"
            figures = cell.over or "-", number(cell.figure), became, number(cell.bound)
            rows.append((*goal_cells(v), cell.where, *figures, missing))
    return Table(
        "Goals: every case", (*GOAL, "case", "over", "is", "status", "bound here", "missing"), rows, folded=True
    )


def missing_table(verdicts):
    missing = {}
    for v in verdicts:
        for name in v.missing():
            what = name.rsplit("/", 1)[-1] if name.startswith("matmul/") else name
            missing.setdefault(what.replace(r"\w+", "*"), set()).add((name, v.threads))
    rows = [(what, str(len(cases))) for what, cases in missing.items()]
    return Table("Not measured, though goals need it", ("what", "cases"), rows)


def peaks_table(runs):
    """Returns the peaks, with what each allows over fp32's."""
    counts = thread_counts(runs)
    peaks = {threads: {n: c for n, c in merged(runs, threads).items() if n.startswith("peak/")} for threads in counts}
    rows = []
    for name in dict.fromkeys(name for of in peaks.values() for name in of):
        row = [name]
        for of in peaks.values():
            c, fma = of.get(name, {}), of.get("peak/fma", {}).get("GFLOP/s")
            speed = next((f"{c[unit]:.1f} {unit}" for unit in ("GFLOP/s", "GB/s") if unit in c), "-")
            row += [speed, number(c["GFLOP/s"] / fma if fma and "GFLOP/s" in c else None)]
        rows.append(tuple(row))
    columns = [column for threads in counts for column in (on_threads(threads), "over FMA")]
    return Table("Peaks of this machine in this run, medians", ("what", *columns), rows)


def conditions_table(run):
    rows = [(key, ", ".join(map(str, v)) if isinstance(v, list) else str(v)) for key, v in run.conditions.items()]
    return Table(f"Conditions of {run.source}", ("what", "was"), rows)


def contenders_table(run):
    """Returns how right the results of each are, where the file tells."""
    of = run.head.get("contenders", {})
    columns = list(dict.fromkeys(key for known in of.values() for key in known))
    rows = [(name, *(number(known.get(column)) for column in columns)) for name, known in of.items()]
    return Table(f"Contenders of {run.source}", ("what", *columns), rows)


def medians_tables(run, short):
    for threads in thread_counts([run]):
        yield speeds_table(run, threads) if short else matmul_table(run, threads)
        yield kernels_table(run, threads, "odd", "Odd shapes")
        yield kernels_table(run, threads, "sweep", "Sweeps")
        yield other_table(run, threads)


def summary_tables(runs, verdicts):
    yield peaks_table(runs)
    yield goals_table(verdicts)
    yield missing_table(verdicts)
    yield from map(contenders_table, runs)
    yield from map(conditions_table, runs)
