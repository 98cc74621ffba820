"""What the figures must show: ratios to Kafka, to a tenth of the size, batches, bytes a partition.

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
REASSIGNED = (1_000, 5_000)
# Those of one plan to those of another five times as large: when an answer comes may add one.
MAX_BATCHES_FACTOR = 1.2
MAX_COST_FACTOR = 1.0
MAX_CONTEXT_BYTES = 1_500
MAX_KLAMM_BYTES = 3_000


CONTROLLER_CPU = "cpu_controller_s"
PROCESSES = (CONTROLLER_CPU, "cpu_zookeeper_s")


class Job(NamedTuple):
    """A step that is compared: the seconds that count, and how many times klamm must be faster.

    ``raw_step``: what the raw store does of it, None if nothing compares. ``grows``: the work grows
    with the partitions of the cluster, so that ten times as many are compared.
    """

    step: str
    seconds: str
    min_ratio: float
    raw_step: str | None = None
    grows: bool = False


JOBS = (
    Job("create", "wall_s", 1.5, "create", grows=True),
    Job("failover", "load_s", 2.0, "read", grows=True),
    Job("broker_failure", "wall_s", 2.0, "set", grows=True),
    Job("controlled_shutdown", "wall_s", 2.0),
    Job("preferred_election", "wall_s", 1.5),
    Job("reassign_znode", "wall_s", 5.0),
    Job("delete_topics", "wall_s", 3.0),
)
REASSIGNMENT = next(job for job in JOBS if job.step == "reassign_znode")


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


def plan_sizes(layout: Layout) -> tuple[int, ...]:
    """Of the reassignments of a run: partitions, ascending."""
    return tuple(dict.fromkeys(min(size, layout.partitions // 2) for size in REASSIGNED))


def steps_of(
    results: Sequence[Result], product: str, layout: Layout, step: str, n: int | None = None
) -> list[Result]:
    """The last of ``step`` in every run, whose code is the warmest; with ``n`` only of that size.

    Of reassignments those of the smaller size, unless ``n`` says otherwise.
    """
    if step == REASSIGNMENT.step and n is None:
        n = plan_sizes(layout)[0]
    found: list[Result] = []
    for result in results:
        if (result["product"], layout_of(result), result["step"]) == (product, layout, step) and (
            n is None or result["n"] == n
        ):
            if found and found[-1]["run"] == result["run"]:
                found.pop()
            found.append(result)
    return found


def seconds(
    results: Sequence[Result], product: str, layout: Layout, job: Job, n: int | None = None
) -> float | None:
    """The median of the seconds that count; None if it was not done."""
    found = [float(r[job.seconds]) for r in steps_of(results, product, layout, job.step, n)]
    return median(found) if found else None


def cpu_seconds(
    results: Sequence[Result],
    product: str,
    layout: Layout,
    job: Job,
    processes: Sequence[str] = PROCESSES,
) -> float | None:
    """The median of the CPU seconds of controller and ZooKeeper; klamm's with its brokers'."""
    found = [
        sum(float(r[process]) for process in processes)
        for r in steps_of(results, product, layout, job.step)
    ]
    return median(found) if found else None


def batches_of_plan(results: Sequence[Result], layout: Layout, n: int) -> dict[str, int] | None:
    """ZooKeeper requests, and their batches, of klamm's last reassignment of ``n`` partitions that
    was held back and then released; None if there was none."""
    halves = [
        steps_of(results, KLAMM, layout, step, n) for step in ("reassign_held", "reassign_released")
    ]
    if not all(halves):
        return None
    stores = [half[-1]["store"] for half in halves]
    return {
        "events": sum(store["events"] for store in stores),
        "batches": sum(store["read_batches"] + store["write_batches"] for store in stores),
        "requests": sum(store["store_requests"] for store in stores),
    }


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
        found += _large_plan(results, layout)
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


def _large_plan(results: Sequence[Result], layout: Layout) -> Iterator[Verdict]:
    """What a reassignment of five times the partitions costs."""
    few, many = plan_sizes(layout)[0], plan_sizes(layout)[-1]
    if few == many:
        return
    name = f"{layout}, reassignment of {many:,} to one of {few:,}"
    took = [seconds(results, KLAMM, layout, REASSIGNMENT, n) for n in (few, many)]
    if took[0] and took[1]:
        cost = (took[1] / many) / (took[0] / few)
        yield Verdict(f"{name}: times the seconds a partition", cost, MAX_COST_FACTOR, False)
    batches = [batches_of_plan(results, layout, n) for n in (few, many)]
    if batches[0] and batches[1]:
        factor = batches[1]["batches"] / batches[0]["batches"]
        yield Verdict(f"{name}: times the batches", factor, MAX_BATCHES_FACTOR, False)


def _scale(results: Sequence[Result]) -> Iterator[Verdict]:
    """What ten times the partitions cost, in CPU seconds: with ZooKeeper's, and klamm's alone."""
    layouts = layouts_in(results)
    for small in layouts:
        large = Layout(small.partitions * SCALE_FACTOR, small.partitions_per_topic)
        if large not in layouts:
            continue
        for job in (job for job in JOBS if job.grows):
            for whose, processes in (("", PROCESSES), ("klamm's ", (CONTROLLER_CPU,))):
                few, many = (
                    cpu_seconds(results, KLAMM, layout, job, processes) for layout in (small, large)
                )
                if few and many:
                    what = f"{large} to {small}, {job.step}: times {whose or 'the '}CPU"
                    yield Verdict(what, many / few, MAX_CPU_FACTOR, False)
