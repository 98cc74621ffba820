"""What the figures must show: ratios to Kafka, to a tenth of the size, and bytes a partition.

Pure: results in, verdicts out. It must not measure or print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

Result = dict[str, Any]

KLAMM = "klamm"
KAFKA = "kafka-2.8.2"
RAW_STORE = "raw store"
SCALE_FACTOR = 10
MAX_CPU_FACTOR = 13.0
MAX_CONTEXT_BYTES = 1_500
MAX_KLAMM_BYTES = 3_000


class Job(NamedTuple):
    """A step that is compared: the seconds that count, and how many times klamm must be faster.

    ``raw_step``: what the raw store does of it.
    """

    step: str
    seconds: str
    min_ratio: float
    raw_step: str


JOBS = (
    Job("create", "wall_s", 1.5, "create"),
    Job("failover", "load_s", 2.0, "read"),
    Job("broker_failure", "wall_s", 2.0, "set"),
)


class Layout(NamedTuple):
    """How many partitions, and how many of them are in one topic."""

    partitions: int
    partitions_per_topic: int

    def __str__(self) -> str:
        return f"{self.partitions // self.partitions_per_topic:,} x {self.partitions_per_topic}"


class Verdict(NamedTuple):
    """One thing that is required."""

    what: str
    value: float
    limit: float
    is_minimum: bool

    @property
    def holds(self) -> bool:
        """Whether it is so."""
        return self.value >= self.limit if self.is_minimum else self.value <= self.limit


def layout_of(result: Result) -> Layout:
    """Of the run that a result belongs to."""
    return Layout(result["partitions"], result["partitions_per_topic"])


def layouts_in(results: Sequence[Result]) -> list[Layout]:
    """Those that were timed, in order."""
    timed = (result for result in results if result["step"] != "memory")
    return list(dict.fromkeys(layout_of(result) for result in timed))


def steps_of(results: Sequence[Result], product: str, layout: Layout, step: str) -> list[Result]:
    """The last of ``step`` in every run, whose code is the warmest."""
    found: list[Result] = []
    for result in results:
        if (result["product"], layout_of(result), result["step"]) == (product, layout, step):
            if found and found[-1]["run"] == result["run"]:
                found.pop()
            found.append(result)
    return found


def seconds(results: Sequence[Result], product: str, layout: Layout, job: Job) -> float | None:
    """The median of the seconds that count; None if it was not done."""
    found = [float(r[job.seconds]) for r in steps_of(results, product, layout, job.step)]
    return median(found) if found else None


def cpu_seconds(results: Sequence[Result], product: str, layout: Layout, job: Job) -> float | None:
    """The median of the CPU seconds of controller and ZooKeeper; klamm's with its brokers'."""
    found = [
        float(r["cpu_controller_s"] + r["cpu_zookeeper_s"])
        for r in steps_of(results, product, layout, job.step)
    ]
    return median(found) if found else None


def busy_share(results: Sequence[Result], processors: int) -> float:
    """The part of the machine that others took while something was timed: 0 to 1."""
    timed = [result for result in results if "cpu_window_s" in result]
    window_s = sum(result["cpu_window_s"] for result in timed)
    others_s: float = sum(result["cpu_others_s"] for result in timed)
    return others_s / (window_s * processors) if window_s else 0.0


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """All that can be judged by these results."""
    found: list[Verdict] = []
    for layout in layouts_in(results):
        for job in JOBS:
            klamm, kafka = (seconds(results, p, layout, job) for p in (KLAMM, KAFKA))
            if klamm and kafka:
                what = f"{layout}, {job.step}: times as fast as Kafka"
                found.append(Verdict(what, kafka / klamm, job.min_ratio, True))
    found += _scale(results)
    for result in results:
        if result["step"] == "memory":
            alone = Verdict(
                "context alone, bytes a partition",
                result["context_bytes"],
                MAX_CONTEXT_BYTES,
                False,
            )
            together = Verdict(
                f"with {result['brokers']} brokers' state, bytes a partition",
                result["klamm_bytes"],
                MAX_KLAMM_BYTES,
                False,
            )
            found += (alone, together)
    return found


def _scale(results: Sequence[Result]) -> Iterator[Verdict]:
    """What ten times the partitions cost, in CPU seconds of controller and ZooKeeper."""
    layouts = layouts_in(results)
    for small in layouts:
        large = Layout(small.partitions * SCALE_FACTOR, small.partitions_per_topic)
        if large not in layouts:
            continue
        for job in JOBS:
            few, many = (cpu_seconds(results, KLAMM, layout, job) for layout in (small, large))
            if few and many:
                what = f"{large} to {small}, {job.step}: times the CPU"
                yield Verdict(what, many / few, MAX_CPU_FACTOR, False)
