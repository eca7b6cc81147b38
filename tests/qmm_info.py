# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs qmm_info under every QMM_MAX_ISA, and holds what it says to the rule of the choice: qmm_info.py <qmm_info>"""

import json
import os
import re
import subprocess
import sys


def run(program: str, *options: str, max_isa: str | None = None) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name != "QMM_MAX_ISA"}
    if max_isa is not None:
        environment["QMM_MAX_ISA"] = max_isa
    return subprocess.run([program, *options], env=environment, capture_output=True, text=True, check=False)


def expect(condition, *what) -> None:
    if not condition:
        sys.exit(f"qmm_info: {' '.join(map(str, what))}")


def check_json(info: dict, max_isa: str) -> None:
    usable = set(info["cpu"]["usable"])
    expect(usable <= set(info["cpu"]["enabled"]) <= set(info["cpu"]["has"]), info["cpu"])
    expect(info["max_isa"] == max_isa, info["max_isa"], "is not", max_isa)
    formats = {(kernel["lhs"], kernel["bits"]) for kernel in info["kernels"]}
    expect(formats == {(lhs, bits) for lhs in ("f32", "s8") for bits in (4, 8)}, formats)
    for kernel in info["kernels"]:
        missing = set(kernel["need"]) - usable
        expect(missing or not kernel["why_not"], kernel)
        expect(all(re.search(rf"\b{feature}\b", kernel["why_not"]) for feature in missing), kernel)

    for lhs, bits in formats:
        rows = [kernel for kernel in info["kernels"] if (kernel["lhs"], kernel["bits"]) == (lhs, bits)]
        ranges = [chosen for chosen in info["chosen"] if (chosen["lhs"], chosen["bits"]) == (lhs, bits)]
        following = 1
        for chosen in ranges:
            expect(chosen["min_m"] == following, chosen, "does not begin at", following)
            # Every M at which the choice may change, and one far above.
            last = chosen["max_m"] or 1000
            for m in {chosen["min_m"], last} | {row["min_m"] for row in rows if following <= row["min_m"] <= last}:
                fit = [row for row in rows if row["min_m"] <= m]
                best = max(i for i, row in enumerate(fit) if set(row["need"]) <= usable)
                better = None
                if fit[best + 1 :]:  # what would run if there were what the next row needs
                    features = usable | set(fit[best + 1]["need"])
                    better = [row for row in fit[best + 1 :] if set(row["need"]) <= features][-1]
                expect(chosen["kernel"] == fit[best]["name"], chosen, "at", m, "is not", fit[best])
                expect(chosen["next"] == (better and {key: better[key] for key in ("name", "why_not")}), chosen, better)
            following = last + 1
        expect(ranges[-1]["max_m"] is None, ranges[-1])


def check_text(text: str, info: dict) -> None:
    """The text says what the JSON says."""
    expect(f"libqmm {info['version']}, ABI version {info['abi_version']}\n" in text, text)
    for key in ("has", "enabled", "usable"):
        (line,) = re.findall(rf"^  {key} +(.*)$", text, re.MULTILINE)
        expect(line == (" ".join(info["cpu"][key]) or "none"), line)
    ranges = re.findall(
        r"^  M (?:>= (\d+)|= (\d+)(?: \.\. (\d+))?) +(\w+)\n(?: +not (\w+): (.+)\n)?", text, re.MULTILINE
    )
    told = [
        (int(open_ or first), None if open_ else int(last or first), kernel, next_, why_not)
        for open_, first, last, kernel, next_, why_not in ranges
    ]
    expected = []
    for chosen in info["chosen"]:
        better = chosen["next"] or {"name": "", "why_not": ""}
        expected.append((chosen["min_m"], chosen["max_m"], chosen["kernel"], better["name"], better["why_not"]))
    expect(told == expected, told, "is not", expected)


def main(program: str) -> None:
    nonsense = run(program, max_isa="fastest")
    expect(nonsense.returncode == 1 and nonsense.stdout == "", nonsense)
    sentence = re.fullmatch(r'qmm_info: QMM_MAX_ISA is "fastest"; it must be one of (scalar, .*)\n', nonsense.stderr)
    expect(sentence, nonsense)
    levels = sentence[1].split(", ")

    capped = {}
    for max_isa in ("", *levels):
        done, text = run(program, "--json", max_isa=max_isa), run(program, max_isa=max_isa)
        expect(done.returncode == 0 and text.returncode == 0, done, text)
        info = json.loads(done.stdout)
        check_json(info, max_isa)
        check_text(text.stdout, info)
        capped[max_isa] = info
    expect(run(program, "--json").stdout == run(program, "--json", max_isa="").stdout, "unset is not empty")

    # A cap takes away and does not give; what it takes is its doing, and said so.
    free = capped[""]
    usable = set(free["cpu"]["usable"])
    expect(capped["scalar"]["cpu"]["usable"] == [], capped["scalar"]["cpu"])
    for level in levels:
        expect(set(capped[level]["cpu"]["usable"]) <= usable, level)
        for kernel, before in zip(capped[level]["kernels"], free["kernels"], strict=True):
            forbidden = f"QMM_MAX_ISA={level} forbids"
            taken = set(kernel["need"]) & usable - set(capped[level]["cpu"]["usable"])
            expect((forbidden in kernel["why_not"]) == bool(taken), kernel)
            expect(kernel["why_not"].startswith(before["why_not"]), kernel, before)
        if level in usable:  # levels have the names of features
            expect(level in capped[level]["cpu"]["usable"], level, capped[level]["cpu"])
    expect(all(chosen["kernel"].endswith("_scalar") for chosen in capped["scalar"]["chosen"]), capped["scalar"])

    for options in (["--jsn"], ["--json", "--json"], ["scalar"]):
        wrong = run(program, *options)
        expect(wrong.returncode == 2 and wrong.stdout == "" and options[-1] in wrong.stderr, wrong)
    usage = run(program, "--help")
    expect(usage.returncode == 0 and usage.stdout.startswith("usage: qmm_info"), usage)
    print(f"{len(levels)} levels, {len(free['kernels'])} kernels")


if __name__ == "__main__":
    main(*sys.argv[1:])
