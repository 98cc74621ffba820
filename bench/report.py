"""The tables that follow the results: beside Kafka, beside the raw store, what is required.

Markdown. It must not measure; what is computed is in figures.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.figures import (
    JOBS,
    KAFKA,
    KLAMM,
    RAW_STORE,
    Result,
    cpu_seconds,
    layouts_in,
    seconds,
    steps_of,
    verdicts,
)

Row = Sequence[object]


def tables(results: Sequence[Result]) -> str:
    """Every table there are results for."""
    parts = [_beside_kafka(results), _beside_the_store(results), _required(results)]
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
    """What klamm reaches of the store's own rate, and what it asks of the store."""
    rows: list[Row] = []
    for layout in layouts_in(results):
        for job in JOBS:
            klamm = steps_of(results, KLAMM, layout, job.step)
            raw = steps_of(results, RAW_STORE, layout, job.raw_step)
            took_s = seconds(results, KLAMM, layout, job)
            if not klamm or not raw or not took_s:
                continue
            last = klamm[-1]
            rate, raw_rate = last["n"] / took_s, raw[-1]["per_s"]
            store = last["store"]
            rows.append(
                (
                    layout,
                    job.step,
                    f"{rate:,.0f}",
                    f"{raw_rate:,.0f}",
                    f"{rate / raw_rate:.0%}",
                    store["events"],
                    store["read_waves"],
                    store["write_waves"],
                    store["store_requests"],
                    last["zookeeper_packets"],
                    last["resident_controller_mb"],
                )
            )
    titles = (
        "layout",
        "job",
        "klamm n/s",
        "raw store n/s",
        "share",
        "events",
        "waves that read",
        "that write",
        "requests in them",
        "ZooKeeper packets, all clients",
        "resident MB",
    )
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
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _table(titles: Sequence[str], rows: Iterable[Row]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    if not lines:
        return ""
    head = (f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}")
    return "\n".join((*head, *lines))
