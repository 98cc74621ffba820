"""The tables that follow the results: beside Kafka, the raw store, in batches, what is required.

Markdown. It must not measure; what is computed is in figures.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.figures import (
    JOBS,
    KAFKA,
    KLAMM,
    RAW_STORE,
    Job,
    Layout,
    Result,
    batches_of_plan,
    cpu_seconds,
    layouts_in,
    plan_sizes,
    seconds,
    steps_of,
    verdicts,
)

Row = Sequence[object]


def tables(results: Sequence[Result]) -> str:
    """Every table there are results for."""
    parts = [
        _beside_kafka(results),
        _beside_the_store(results),
        _batches(results),
        _plans(results),
        _required(results),
    ]
    return "\n\n".join(part for part in parts if part)


def _beside_kafka(results: Sequence[Result]) -> str:
    rows: list[Row] = []
    for layout in layouts_in(results):
        for job in JOBS:
            wall = [seconds(results, product, layout, job) for product in (KLAMM, KAFKA)]
            cpu = [cpu_seconds(results, product, layout, job) for product in (KLAMM, KAFKA)]
            if wall[0] and wall[1] and cpu[0] and cpu[1]:
                rows.append(
                    (
                        layout,
                        job.step,
                        *(f"{value:.2f}" for value in wall),
                        f"{wall[1] / wall[0]:.1f}",
                        *(f"{value:.2f}" for value in cpu if value),
                        f"{cpu[1] / cpu[0]:.1f}",
                    )
                )
    titles = ("layout", "job", "klamm s", "Kafka s", "times", "klamm CPU s", "Kafka CPU s", "times")
    return _table(titles, rows)


def _beside_the_store(results: Sequence[Result]) -> str:
    """What klamm reaches of the store's own rate."""
    rows: list[Row] = []
    for layout in layouts_in(results):
        for job in JOBS:
            klamm = steps_of(results, KLAMM, layout, job.step)
            raw = job.raw_step and steps_of(results, RAW_STORE, layout, job.raw_step)
            took_s = seconds(results, KLAMM, layout, job)
            if not klamm or not raw or not took_s:
                continue
            rate, raw_rate = klamm[-1]["n"] / took_s, raw[-1]["per_s"]
            share = f"{rate / raw_rate:.0%}"
            rows.append((layout, job.step, f"{rate:,.0f}", f"{raw_rate:,.0f}", share))
    return _table(("layout", "job", "klamm n/s", "raw store n/s", "share"), rows)


def _batches(results: Sequence[Result]) -> str:
    """What klamm asks of the store: batches, and the requests in them."""
    rows: list[Row] = []
    for layout in layouts_in(results):
        for job in JOBS:
            klamm = steps_of(results, KLAMM, layout, job.step)
            if not klamm:
                continue
            last = klamm[-1]
            store = last["store"]
            rows.append(
                (
                    layout,
                    job.step,
                    f"{last['n']:,}",
                    store["events"],
                    store["read_batches"],
                    store["write_batches"],
                    store["store_requests"],
                    f"{store['store_requests'] / max(1, last['n']):.4f}",
                    f"{last['zookeeper_packets']:,}",
                    _kafka_packets(results, layout, job),
                    last["resident_controller_mb"],
                )
            )
    titles = (
        "layout",
        "job",
        "n",
        "events",
        "batches that read",
        "that write",
        "requests in them",
        "requests a partition",
        "packets of all clients",
        "Kafka's",
        "resident MB",
    )
    return _table(titles, rows)


def _kafka_packets(results: Sequence[Result], layout: Layout, job: Job) -> str:
    kafka = steps_of(results, KAFKA, layout, job.step)
    return f"{kafka[-1]['zookeeper_packets']:,}" if kafka else ""


def _plans(results: Sequence[Result]) -> str:
    """Reassignments, held back until all could catch up at once."""
    rows: list[Row] = []
    for layout in layouts_in(results):
        for n in plan_sizes(layout):
            found = batches_of_plan(results, layout, n)
            if found:
                a_partition = f"{found['requests'] / n:.4f}"
                row = (found["events"], found["batches"], found["requests"], a_partition)
                rows.append((layout, f"{n:,}", *row))
    titles = ("layout", "plan of", "events", "batches", "requests in them", "requests a partition")
    return _table(titles, rows)


def _required(results: Sequence[Result]) -> str:
    rows = [
        (
            verdict.what,
            _number(verdict.value),
            f"{'at least' if verdict.is_minimum else 'at most'} {_number(verdict.limit)}",
            "yes" if verdict.holds else "NO",
        )
        for verdict in verdicts(results)
    ]
    return _table(("required", "measured", "limit", "holds"), rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 2 else f"{value:.1f}"


def _table(titles: Sequence[str], rows: Iterable[Row]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    if not lines:
        return ""
    head = (f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}")
    return "\n".join((*head, *lines))
