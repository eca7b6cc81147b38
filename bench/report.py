#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes one report of what the benchmarks wrote: tables on the terminal, and a page with charts, each a PNG as well.

Figures are medians. Files that were written on one machine are read together: without a name, those of build/bench.
"""

import argparse
import html
import sys
from pathlib import Path

from goals import judge
from machine import ROOT
from measured import load
from tables import LEFT, cases_table, medians_tables, summary_tables

RESULTS = ROOT / "build/bench"
FILES = ("results.json", "peers.json", "end_to_end.json")

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 80em; margin: 2em auto; padding: 0 1em; color: #111; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: 0.5em 0 1.5em; }
th, td { padding: 0.1em 0.6em; text-align: right; vertical-align: top; }
th { border-bottom: 1px solid; }
td:not(:last-child) { white-space: nowrap; }
.left { text-align: left; }
.line td { border-top: 1px solid #aaa; }
.missed { font-weight: bold; background: #ddd; }
.wide { overflow-x: auto; }
figure { margin: 1em 0 2.5em; }
figure svg { max-width: 100%; height: auto; }
svg text { font-family: "DejaVu Sans", Verdana, sans-serif; }
summary { cursor: pointer; font-weight: bold; }
"""


def print_tables(tables):
    for table in tables:
        if not table.rows:
            continue
        columns = range(len(table.columns))
        widths = [max(len(row[i]) for row in [table.columns, *filter(None, table.rows)]) for i in columns]
        print(f"\n{table.title}")
        for row in [table.columns, None, *table.rows]:
            cells = row or ["-" * width for width in widths]
            aligned = (
                cell.ljust(width) if column in LEFT else cell.rjust(width)
                for cell, width, column in zip(cells, widths, table.columns, strict=True)
            )
            print("  ".join(aligned).rstrip())


def report(runs, medians_of):
    """Prints the medians of some of the files, and what all of them say about the goals."""
    for run in medians_of:
        print_tables(medians_tables(run, short=False))
    print_tables(summary_tables(runs, judge(runs)))


def html_table(table):
    def line(cells, tag):
        out = ""
        for cell, column in zip(cells, table.columns, strict=True):
            classes = ["left"] * (column in LEFT) + ["missed"] * (cell == "MISSED")
            out += f'<{tag} class="{" ".join(classes)}">' if classes else f"<{tag}>"
            out += html.escape(cell)
        return out

    rows, start = ["<tr>" + line(table.columns, "th")], "<tr>"
    for row in table.rows:
        if row:
            rows.append(start + line(row, "td"))
        start = "<tr>" if row else '<tr class="line">'
    body = "\n".join(['<div class="wide"><table>', *rows, "</table></div>"])
    title = html.escape(table.title)
    return f"<details><summary>{title}</summary>{body}</details>" if table.folded else f"<h2>{title}</h2>{body}"


def html_chart(chart):
    if not chart.figure:
        return f"<p>Not measured: {html.escape(chart.title)}.</p>"
    return f"<figure>{chart.svg()}<figcaption>{html.escape(chart.caption)}</figcaption></figure>"


def draw(runs, out):
    """Writes the page, index.html, and the charts as PNG to a folder."""
    try:
        from charts import charts  # not at the top: the tables do without matplotlib
    except ModuleNotFoundError as missing:
        sys.exit(f"No page and no charts: {missing}. ./dev bench runs in an environment that has it.")
    out.mkdir(parents=True, exist_ok=True)
    drawn = charts(runs)
    for chart in drawn:
        if chart.figure:
            chart.save_png(out)
    verdicts = judge(runs)
    tables = [*summary_tables(runs, verdicts), cases_table(verdicts)]
    tables += [table for run in runs for table in medians_tables(run, short=True)]
    tables = [table for table in tables if table.rows]
    title = html.escape(f"libqmm on {runs[0].conditions['cpu']}")
    page = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>',
        f"<h1>{title}</h1>",
        *(html_table(table) for table in tables if not table.folded),
        *map(html_chart, drawn),
        *(html_table(table) for table in tables if table.folded),
    ]
    (out / "index.html").write_text("\n".join(page) + "\n")
    print(f"\nDrawn: {out / 'index.html'}")


def keep(runs, name):
    """Writes the report to bench/results, where reports of machines are kept, with the medians that it was made of."""
    for run in runs:
        if (part := run.conditions.get("part", "all")) != "all":
            sys.exit(f"{run.source} holds a part of the benchmarks ({part}); a report to keep needs all of them")
    out = ROOT / "bench/results" / name
    draw(runs, out)
    for run in runs:
        (out / run.source).write_text(run.condensed())


def written(folder):
    """Returns the files that the benchmarks wrote there."""
    return [path for name in FILES if (path := folder / name).exists()]


def load_all(paths):
    runs = [load(path) for path in paths]
    if len(cpus := {run.conditions["cpu"] for run in runs}) > 1:
        sys.exit(f"The files are of different CPUs: {', '.join(sorted(cpus))}")
    return runs


def make(path):
    """Makes the report of a file that was just written, together with those that lie beside it."""
    runs = load_all(written(path.parent) if path.name in FILES else [path])
    report(runs, [run for run in runs if run.source == path.name])
    draw(runs, path.parent / "report")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ", ".join(FILES)
    parser.add_argument("files", nargs="*", type=Path, metavar="JSON", help=f"default {default} of build/bench")
    parser.add_argument("--out", type=Path, default=RESULTS / "report", help="folder (default build/bench/report)")
    parser.add_argument("--keep", metavar="NAME", help="write to bench/results/NAME, with the medians as JSON")
    args = parser.parse_args()
    runs = load_all(args.files or written(RESULTS))
    if not runs:
        sys.exit("Nothing was measured yet: ./dev bench")
    report(runs, runs)
    if args.keep:
        keep(runs, args.keep)
    else:
        draw(runs, args.out)


if __name__ == "__main__":
    main()
