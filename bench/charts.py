# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The charts of the report, by matplotlib. Nothing is told by colour alone: our lines are solid, with filled markers,
those of peers dashed and hollow, fp32's dotted; bars are dark and light."""

import io
import math
import re
import statistics
from dataclasses import dataclass

import matplotlib
from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Affine2D
from PIL import Image

from goals import ODD
from measured import bits, matmuls, merged, on_threads, side, thread_counts

matplotlib.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "0.85",
        "hatch.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "legend.handlelength": 3.5,
        "figure.dpi": 80,
        "figure.constrained_layout.w_pad": 0.12,  # text is not as wide in every format
        "svg.fonttype": "none",
    }
)
# Okabe and Ito's, which differ for colour-blind readers and, but for few, in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
FILLED = "osD^vPX*<>ph"
DASHES = ((0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # behind text that lies on lines
ABOVE = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "fontsize": 8, "bbox": WHITE}
SIDES = ("ours", "peer", "fp32")
BARS = tuple(
    {"facecolor": grey, "hatch": hatch, "edgecolor": "black", "linewidth": 0.5}
    for grey, hatch in (("0.3", ""), ("0.9", ""), ("0.6", "////"), ("1", "...."))
)

MAIN_SHAPE = "4096x4096"

ROOFLINE = """Each line is a kernel at growing M; the numbers tell M. The slope is the read bandwidth, the flat lines
are peaks of instructions, all measured. The bytes are those of the weights, read once, the lhs and Y, both f32."""
M_SWEEP = "Up to M = 4 the weights come from memory, above from where the call before left them."
THREADS = "The black lines are what the peaks gain."
BARS_CAPTION = "Ours, peers, fp32. Without a bar: not measured. The scales differ from M to M."
ODD_CAPTION = "Below the dashed line more than a tenth is lost."
END_TO_END = "The same model file, tokens and threads."
SHARES = "As the calling thread sees it: our kernels, attention, and the rest."
SWEEP = "Cost grows linearly where the line is flat."
# What a page of many charts does without: it becomes half as long.
SHORTER = (
    (r"<metadata>.*?</metadata>", ""),
    (r' id="[a-zA-Z0-9]+_\d+"', ""),  # of groups: nothing refers to them, and each chart has the same
    (r' transform="rotate\(-0 [^"]*\)"', ""),
    (r' font-family: [^;"]*;?', ""),  # the page sets it
    (r"\d+\.\d\d+(?![\d<])", lambda number: f"{float(number[0]):.1f}"),  # of a point; not in text
    (r"\s*\n\s*", "\n"),
    (r"M (\S+) (\S+)\nL (\S+) \2\nL \3 (\S+)\nL \1 \4\nz", r"M\1 \2H\3V\4H\1z"),  # rectangles
)


@dataclass
class Chart:
    name: str
    title: str
    caption: str
    figure: Figure | None

    def svg(self):
        out = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": self.name}):
            self.figure.savefig(out, format="svg", metadata={"Date": None})
        svg = out.getvalue()
        svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{self.title}"', 1)
        for pattern, replacement in SHORTER:
            svg = re.sub(pattern, replacement, svg, flags=re.DOTALL)
        return svg

    def save_png(self, folder):
        out = io.BytesIO()
        self.figure.savefig(out, format="png")
        few = Image.open(out).convert("RGB").quantize(128, Image.Quantize.FASTOCTREE)  # a quarter as large
        few.save(folder / f"{self.name}.png", optimize=True)


def conditions(runs):
    """Returns the line below each chart."""
    said = runs[0].conditions
    known = [said["cpu"], said.get("isa"), said.get("date"), f"libqmm {said['libqmm']}" if "libqmm" in said else None]
    return "; ".join(filter(None, known)) + "; medians of " + ", ".join(run.source for run in runs)


def label_of(contender):
    return "best fp32" if contender == "f32_best" else contender.removeprefix("peer_")


def ordered(contenders):
    """Returns ours, then peers, then fp32."""
    return sorted(set(contenders), key=lambda c: (SIDES.index(side(c)), c.endswith("_f32"), c))


def styles(contenders):
    """Returns {contender: style of a line}, ours before peers before fp32."""
    result, counts = {}, dict.fromkeys(SIDES, 0)
    for contender in ordered(contenders):
        whose = side(contender)
        i = counts[whose]
        counts[whose] += 1
        colour = COLOURS[i % len(COLOURS)]
        result[contender] = {"color": colour, "marker": FILLED[i % len(FILLED)], "markersize": 5}
        if whose == "ours":
            result[contender] |= {"linewidth": 1.8, "linestyle": "-"}
        elif whose == "peer":
            result[contender] |= {"linewidth": 1, "linestyle": DASHES[i % 4], "markerfacecolor": "white"}
        else:
            result[contender] |= {"linewidth": 1.2, "linestyle": ":", "color": "0.4", "markerfacecolor": "white"}
    return result


def with_best_fp32(of):
    """Returns {contender: counters} of one case with only the best of fp32."""
    fp32 = [counters for contender, counters in of.items() if side(contender) == "fp32"]
    rest = {contender: counters for contender, counters in of.items() if side(contender) != "fp32"}
    return rest | ({"f32_best": max(fp32, key=lambda c: c["GFLOP/s"])} if fp32 else {})


def cases_of(runs, threads, shape, width):
    """Returns {contender: {M: counters}} of one shape: weights of so many bits, and the best fp32."""
    series = {}
    for (of, m), contenders in sorted(matmuls(merged(runs, threads)).items()):
        if of == shape:
            for contender, counters in with_best_fp32(contenders).items():
                if bits(contender) in (width, 32):
                    series.setdefault(contender, {})[m] = counters
    return series


def grid_beside_legend(rows, columns, legend, **more):
    width, height = (4 if columns > 2 else 5.2) * columns + 2.4, 5 if rows == 1 else 3.6 * rows
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **more)
    figure.legend(handles=legend, loc="outside right center")
    return figure, axes


def side_by_side(panels, legend):
    figure, axes = grid_beside_legend(1, panels, legend, sharey=True)
    return figure, axes[0]


def plain_numbers(axis, values=None):
    axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    if values:
        axis.set_major_locator(ticker.FixedLocator(values))
        axis.set_minor_locator(ticker.NullLocator())


def write_beside(axis, y, text):
    """Writes to the right of the axes."""
    where = {"xycoords": axis.get_yaxis_transform(), "xytext": (3, 0), "textcoords": "offset points"}
    axis.annotate(text, (1, y), **where, va="center", fontsize=8)


def legend_of(style):
    return [Line2D([], [], label=label_of(contender), **of) for contender, of in style.items()]


def lines_of(runs, shape, width):
    """Returns {threads: {contender: {M: counters}}} and their styles, or None where all are fp32."""
    lines = {threads: cases_of(runs, threads, shape, width) for threads in thread_counts(runs)}
    lines = {threads: of for threads, of in lines.items() if of}
    style = styles(contender for of in lines.values() for contender in of)
    return (lines, style) if any(side(c) != "fp32" for c in style) else None


def peak(runs, threads, pattern, counter):
    found = [c[counter] for name, c in merged(runs, threads).items() if re.fullmatch(pattern, name)]
    return max(found, default=None)


def draw_roofline(runs, shape, width):
    if not (found := lines_of(runs, shape, width)):
        return None
    lines, style = found
    n, k = map(int, shape.split("x"))
    figure, axes = side_by_side(len(lines), legend_of(style))
    for axis, (threads, of) in zip(axes, lines.items(), strict=True):
        highest = {}
        for contender, by_m in of.items():
            points = []
            for m, c in by_m.items():
                moved = c["GB/s"] * c["ns"] + 4 * m * (k + n)
                points.append((2 * m * n * k / moved, c["GFLOP/s"]))
                if contender != "f32_best":
                    highest[m] = max(points[-1], highest.get(m, (0, 0)), key=lambda point: point[1])
            axis.plot(*zip(*points, strict=True), **style[contender])
        last = 0
        for m, point in sorted(highest.items()):
            if point[0] > 1.5 * last:  # else the numbers would meet
                axis.annotate(f"{m}", point, **ABOVE)
                last = point[0]
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        low, high = axis.get_xlim()
        bandwidth = peak(runs, threads, r"peak/read/\w+", "GB/s")
        for name, label in (("fma", "FMA"), ("madd16", "int16 madd"), ("maddubs_chain8", "8 maddubs")):
            top = peak(runs, threads, f"peak/{name}", "GFLOP/s")
            if top and (name == "fma" or (name == "madd16") == (width == 8)):
                axis.plot([top / bandwidth if bandwidth else low, high], [top, top], color="black", linewidth=1)
                write_beside(axis, top, f"{label}\n{top:.0f}")
        if bandwidth:
            ends = [low, max(axis.get_ylim()) / bandwidth]
            axis.plot(ends, [bandwidth * x for x in ends], color="black", linewidth=1)
        axis.set(title=on_threads(threads), xlabel="FLOP per byte of weights, lhs and Y", xlim=(low, high))
        plain_numbers(axis.xaxis)
        plain_numbers(axis.yaxis)
    axes[0].set_ylabel("GFLOP/s")
    return figure


def draw_m_sweep(runs, shape, width):
    if not (found := lines_of(runs, shape, width)):
        return None
    lines, style = found
    figure, axes = side_by_side(len(lines), legend_of(style))
    for axis, (threads, of) in zip(axes, lines.items(), strict=True):
        for contender, by_m in of.items():
            axis.plot(by_m.keys(), [c["GFLOP/s"] for c in by_m.values()], **style[contender])
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.set(title=on_threads(threads), xlabel="M (rows of the lhs)")
        plain_numbers(axis.xaxis, sorted({m for by_m in of.values() for m in by_m}))
        plain_numbers(axis.yaxis)
    axes[0].set_ylabel("GFLOP/s")
    return figure


def draw_thread_scaling(runs, shape, width):
    found = lines_of(runs, shape, width)
    if not found or 1 not in found[0] or len(found[0]) == 1:
        return None
    lines, style = found
    figure, axes = side_by_side(len(lines) - 1, legend_of(style))
    one = lines.pop(1)
    for axis, (threads, of) in zip(axes, lines.items(), strict=True):
        for contender, by_m in of.items():
            gains = {
                m: c["GFLOP/s"] / one[contender][m]["GFLOP/s"] for m, c in by_m.items() if m in one.get(contender, {})
            }
            axis.plot(gains.keys(), gains.values(), **style[contender])
        for pattern, counter, label in (
            ("peak/fma", "GFLOP/s", "FMA peak"),
            (r"peak/read/\w+", "GB/s", "read bandwidth"),
        ):
            peaks = [peak(runs, t, pattern, counter) for t in (1, threads)]
            if all(peaks):
                axis.axhline(peaks[1] / peaks[0], color="black", linewidth=1)
                write_beside(axis, peaks[1] / peaks[0], label)
        axis.set_xscale("log", base=2)
        axis.set(title=f"{on_threads(threads)} over 1", xlabel="M (rows of the lhs)", ylim=(0, None))
        plain_numbers(axis.xaxis, sorted({m for by_m in of.values() for m in by_m}))
    axes[0].set_ylabel("speed on several threads / on 1")
    return figure


def bar_panels(panels, threads, xlabel):
    """Draws {title of a panel: {threads: {contender: length}}}; a panel has a bar for each number of threads."""
    labels = ordered(label for of in panels.values() for on in of.values() for label in on)
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3 + 2.6 * columns, (0.8 + 0.2 * len(labels)) * rows + 0.8), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).flat
    height = 0.8 / len(threads)
    for axis, (title, of) in zip(axes, panels.items(), strict=False):
        for i, t in enumerate(threads):
            bars = [
                Path.unit_rectangle().transformed(
                    Affine2D().scale(of[t][label], height).translate(0, y - 0.4 + i * height)
                )
                for y, label in enumerate(labels)
                if label in of.get(t, ())
            ]
            if bars:  # in one path: the file is half as long as with axis.barh
                axis.add_patch(PathPatch(Path.make_compound_path(*bars), **BARS[i % len(BARS)]))
        axis.autoscale_view()
        axis.set(title=title, xlabel=xlabel, xlim=(0, None))
        axis.grid(axis="y", visible=False)
        axis.set_yticks(range(len(labels)), map(label_of, labels), fontsize=8)
        axis.tick_params(axis="y", length=0)
        for y in range(1, len(labels)):
            if side(labels[y]) != side(labels[y - 1]):
                axis.axhline(y - 0.5, color="black", linewidth=0.8)
    figure.axes[0].set_ylim(len(labels) - 0.4, -0.6)
    for axis in figure.axes[len(panels) :]:
        axis.set_visible(False)
    legend = [Patch(label=on_threads(t), **BARS[i % len(BARS)]) for i, t in enumerate(threads)]
    figure.legend(handles=legend, loc="outside upper right", ncols=len(threads))
    return figure


def draw_bars(runs, shape):
    """Draws the speed of all contenders with one shape: a panel for each M."""
    panels = {}
    for t in thread_counts(runs):
        for (of, m), contenders in sorted(matmuls(merged(runs, t)).items()):
            if of == shape:
                speeds = {contender: c["GFLOP/s"] for contender, c in contenders.items()}
                panels.setdefault(f"M = {m}", {})[t] = speeds
    return bar_panels(panels, thread_counts(runs), "GFLOP/s")


def draw_odd(runs):
    """Draws how fast odd shapes are beside their even neighbours: a panel for each M."""
    panels = {}
    for t in thread_counts(runs):
        cases = matmuls(merged(runs, t), "odd")
        for (shape, m), contenders in cases.items():
            even = cases.get((ODD.get(shape), m), {})
            for contender in contenders.keys() & even.keys():
                share = contenders[contender]["GFLOP/s"] / even[contender]["GFLOP/s"]
                label = f"{contender}, {shape} / {ODD[shape]}"
                panels.setdefault(f"M = {m}", {}).setdefault(t, {})[label] = share
    if not panels:
        return None
    figure = bar_panels(panels, thread_counts(runs), "speed per element, odd / even")
    for axis in figure.axes:
        axis.axvline(1, color="black", linewidth=1)
        axis.axvline(0.9, color="black", linewidth=1, linestyle="--")
    return figure


def draw_sweep(runs):
    """Draws the time of a product over each of M, N and K, while the others have the value that most cases have."""
    cases = {t: matmuls(merged(runs, t), "sweep") for t in thread_counts(runs)}
    cases = {t: {(m, *map(int, shape.split("x"))): c for (shape, m), c in of.items()} for t, of in cases.items() if of}
    if not cases:
        return None
    style = styles(c for of in cases.values() for contenders in of.values() for c in contenders)
    figure, grid = grid_beside_legend(len(cases), 3, legend_of(style), sharey="row")
    for axes, (threads, of) in zip(grid, cases.items(), strict=True):
        usual = [statistics.mode(size[i] for size in of) for i in range(3)]
        for i, axis in enumerate(axes):
            swept = {size: c for size, c in sorted(of.items()) if all(size[j] == usual[j] for j in range(3) if j != i)}
            for contender, line in style.items():
                points = [(s[i], c[contender]["ns"] * 1e3 / math.prod(s)) for s, c in swept.items() if contender in c]
                axis.plot(*zip(*points, strict=True), **line) if points else None
            others = ", ".join(f"{'MNK'[j]} = {usual[j]}" for j in range(3) if j != i)
            axis.set_xscale("log", base=2)
            axis.set(title=f"{others}; {on_threads(threads)}", xlabel="MNK"[i], ylim=(0, None))
            plain_numbers(axis.xaxis)
        axes[0].set_ylabel("picoseconds per product")
    return figure


def draw_end_to_end(runs):
    """Draws tokens/s of the model: a panel for each phase."""
    panels = {}
    for t in thread_counts(runs):
        for name, c in merged(runs, t).items():
            if name.startswith("smollm2/"):
                _, phase, program = name.split("/")
                label = program if program.startswith("qmm_") else f"peer_{program}"
                panels.setdefault(phase.replace(":", " of "), {}).setdefault(t, {})[label] = c["tokens/s"]
    return bar_panels(panels, thread_counts(runs), "tokens/s") if panels else None


def draw_shares(runs):
    """Draws where the time of the model goes, of 1."""
    rows = [row for run in runs for row in run.head.get("shares", [])]
    if not rows:
        return None
    parts = ("kernels", "attention", "rest")
    figure = Figure(figsize=(8, 1.3 + 0.4 * len(rows)), layout="constrained")
    axis = figure.subplots()
    for y, row in enumerate(rows):
        left = 0
        for part, bar in zip(parts, BARS, strict=False):
            axis.barh(y, row[part], 0.6, left, **bar)
            if row[part] > 0.04:  # else there is no room
                axis.text(left + row[part] / 2, y, f"{row[part]:.0%}", ha="center", va="center", fontsize=8, bbox=WHITE)
            left += row[part]
    names = [f"{row['name'].removeprefix('smollm2/')}, {on_threads(row['threads'])}" for row in rows]
    axis.set_yticks(range(len(rows)), names)
    axis.set(xlim=(0, 1), xlabel="share of the time", ylim=(len(rows) - 0.5, -0.5))
    axis.grid(visible=False)
    legend = [Patch(label=part, **bar) for part, bar in zip(parts, BARS, strict=False)]
    figure.legend(handles=legend, loc="outside right center")
    return figure


def charts(runs):
    """Returns the charts; without a figure what was not measured."""
    shapes = list(dict.fromkeys(shape for t in thread_counts(runs) for shape, _ in matmuls(merged(runs, t))))
    main = MAIN_SHAPE if MAIN_SHAPE in shapes else shapes[0] if shapes else ""
    of = "N x K = " + main.replace("x", " x ")
    drawn = [
        Chart(f"{name}_{width}_bit", f"{title}, {width}-bit weights, {of}", caption, draw(runs, main, width))
        for name, title, draw, caption in (
            ("roofline", "Roofline", draw_roofline, ROOFLINE),
            ("m_sweep", "Speed over M", draw_m_sweep, M_SWEEP),
            ("threads", "Gain of threads", draw_thread_scaling, THREADS),
        )
        for width in (4, 8)
    ]
    drawn += [Chart(f"bars_{s}", f"N x K = {s.replace('x', ' x ')}", BARS_CAPTION, draw_bars(runs, s)) for s in shapes]
    drawn.append(Chart("end_to_end", "SmolLM2-135M, the whole model", END_TO_END, draw_end_to_end(runs)))
    drawn.append(Chart("shares", "Where the time of SmolLM2-135M goes", SHARES, draw_shares(runs)))
    drawn.append(Chart("odd", "Odd shapes beside even ones", ODD_CAPTION, draw_odd(runs)))
    drawn.append(Chart("sweep", "Time per product", SWEEP, draw_sweep(runs)))
    for chart in drawn:
        if chart.figure:
            chart.figure.suptitle(chart.title, fontsize=12)
            chart.figure.supxlabel(conditions(runs), fontsize=7)
            chart.figure.draw_without_rendering()
            chart.figure.set_layout_engine("none")  # it took its time, and is the same for SVG and PNG
    return drawn
