"""What this process and all below it take: memory, sampled by a thread, and processor time.

Reads /proc. Memory is the proportional set size: a page that several processes share is counted
once in all. Time is that of the processors, whatever else runs beside.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple, Self

_INTERVAL_S: Final = 1.0
_PROC: Final = Path("/proc")


class Usage:
    """What the block took: the most memory that was seen, in MB, and seconds of processors."""

    def __init__(self) -> None:
        self.peak_mb = 0
        self.cpu_s = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self.cpu_s = -family_cpu_s()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.cpu_s += family_cpu_s()

    def _watch(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, family_mb())
            if self._done.wait(_INTERVAL_S):
                return


def family_mb() -> int:
    """Proportional set size of this process and its descendants."""
    return sum(_pss_kb(pid) for pid in _family()) // 1024


def family_cpu_s() -> float:
    """Processor time of this process and its descendants, those that have ended too."""
    return sum(_family().values()) / os.sysconf("SC_CLK_TCK")


def _family() -> dict[int, int]:
    """Ticks by process id."""
    children = defaultdict(list)
    ticks = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            # The name may hold anything; behind its bracket are the state and the parent.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        children[int(fields[1])].append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    found, pending = {}, [os.getpid()]
    while pending:
        pid = pending.pop()
        pending += children[pid]
        found[pid] = ticks.get(pid, 0)
    return found


def _pss_kb(pid: int) -> int:
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


class ProcessUsage(NamedTuple):
    """Memory that a process holds, in MB, and its threads and file descriptors."""

    rss_mb: float
    threads: int
    descriptors: int


def usage_of(pid: int) -> ProcessUsage:
    """Return what a process holds now. Raises OSError if it has ended."""
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    descriptors = len(os.listdir(_PROC / str(pid) / "fd"))
    rss_mb = int(values["VmRSS"].split()[0]) / 1024
    return ProcessUsage(rss_mb, int(values["Threads"]), descriptors)
