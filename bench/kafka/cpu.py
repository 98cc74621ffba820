"""CPU and memory of processes as /proc tells them (Linux). It must not start or end any."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# What clock_getcpuclockid makes of a process id.
_CPUCLOCK_SCHED = 2
# Names of a broker's or of klamm's threads, cut by the kernel to 15 characters, and what they work
# for.
_THREAD_GROUPS = (
    ("controller-even", "controller_event_thread"),
    ("Controller-", "request_send_threads"),
    ("data-plane-kafk", "own_broker_handlers"),
    ("main-SendThread", "zookeeper_client"),
    ("main-EventThrea", "zookeeper_client"),
    ("C1 Compiler", "jit"),
    ("C2 Compiler", "jit"),
    ("G1 ", "gc"),
    ("GC Thread", "gc"),
    ("VM Thread", "gc"),
    ("klamm-event", "controller_event_thread"),
    ("klamm-brokers", "brokers"),
    ("klamm-zk", "zookeeper_client"),
)


def process_cpu_s(pid: int) -> float:
    """User and system seconds of a process so far. Raises OSError when it is gone.

    By the process's own clock, in nanoseconds: /proc counts hundredths of a second, too coarse for
    a job of a tenth.
    """
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def host_cpu_s() -> float:
    """Busy seconds of the whole machine so far, of all processors together."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields) - idle - waiting) / _TICKS_PER_S


def thread_cpu_s(pid: int) -> dict[str, float]:
    """Seconds of a controller's threads, by what they work for."""
    groups: defaultdict[str, float] = defaultdict(float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, fields = _stat(task / "stat")
        except OSError:
            # A thread that just ended.
            continue
        known = (group for prefix, group in _THREAD_GROUPS if name.startswith(prefix))
        groups[next(known, "other")] += _times_s(fields)
    return groups


def resident_mb(pid: int) -> int:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * _PAGE_BYTES // 2**20


def child_pid(parent: int) -> int | None:
    """The first child of a process, None while it has none."""
    for pid in _pids():
        try:
            fields = _stat(Path(f"/proc/{pid}/stat"))[1]
        except OSError:
            continue
        if int(fields[1]) == parent:
            return pid
    return None


def java_pid(last_argument: str) -> int | None:
    """The Java process whose command line ends so; its supervisor's, which does too, is not it."""
    for pid in _pids():
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        except OSError:
            continue
        if arguments and arguments[-1] == last_argument and arguments[0].endswith("java"):
            return pid
    return None


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(path: Path) -> tuple[str, list[str]]:
    """(name, fields from the state on): the name stands in brackets and may hold any character."""
    head, tail = path.read_text(errors="replace").rsplit(")", 1)
    return head.split("(", 1)[1], tail.split()


def _times_s(fields: list[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
