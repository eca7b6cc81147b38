# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a benchmark says of the machine and the moment: the conditions that all its files begin with."""

import os
import platform
import re
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def conditions():
    """Returns them as a dictionary of strings."""
    return {
        "cpu": cpu_model(),
        "CPUs for this process": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.release()}, huge pages: {huge_pages()}",
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "load before": load(),
    }


def load():
    """Returns how many processes ran or waited, in the mean of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def cpu_model():
    found = re.search(r"^model name\s*:\s*(.+)$", read("/proc/cpuinfo"), re.MULTILINE)
    return found[1] if found else platform.machine()


def huge_pages():
    found = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled"))
    return found[1] if found else "unknown"


def commit():
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""
