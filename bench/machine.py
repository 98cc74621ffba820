"""On what a figure was taken: a figure without it is worth nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from klamm.zk.java import find_java


def machine() -> str:
    """Processors, memory, system, Python and Java in one line, and how busy it is already."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} processors ({_processor()}), {memory_gb:.0f} GB, "
        f"{platform.system()} {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}, {_java()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _java() -> str:
    done = subprocess.run(
        [str(find_java().executable), "-version"], capture_output=True, text=True, check=True
    )
    # The first line names the version in quotes.
    return f"Java {done.stderr.split(chr(34))[1]}"
