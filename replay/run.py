"""Every question in as few passes over the events as there can be.

Some read every row: epochs, histories by key, and what changed by time. Their results are small,
are kept while the answers are, and all else is asked of them or of the rows that they flag.
Collects only what has an end; prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from replay.event_table import EventTable
from replay.filters import Filters, narrow, since
from replay.questions.availability import (
    leaderless_intervals,
    offline_intervals,
    with_held,
)
from replay.questions.controllers import epochs, failovers, late_writes, shared_epochs
from replay.questions.duplicates import duplicates, without
from replay.questions.elections import FLAPS, flapping_replicas, unclean_elections
from replay.questions.final_states import final_partitions, final_replicas
from replay.questions.gaps import gap_places, gaps
from replay.questions.histories import SUMS, histories, partitions, replicas
from replay.questions.legality import failed_transitions, illegal_transitions
from replay.questions.reassignments import OPEN, reassignments
from replay.questions.timeline import (
    differences,
    isr_churn,
    leaders_over_time,
    offline_timeline,
    width_of,
)
from replay.questions.trouble import brokers_by_trouble, topics_by_trouble
from replay.words import in_words

MOST_LISTED: Final = 100
MOST_DRAWN: Final = 20_000
VIOLATIONS: Final = ("illegal", "missing", "unclean", "repeated", "late_writes", "shared_epochs")
"""The counts that say that something went wrong."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of an answer in words, the first by its order; ``is_whole`` if there are no more."""

    rows: tuple[dict[str, Any], ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Answers:
    """What was found; to be closed, as the tables' parts are kept until then.

    ``counts``: COUNTS of histories, and events, partitions, replicas, missing (rows), gaps
    (histories that miss rows), offline_ms, repeated (rows that are copies of others), late_writes,
    shared_epochs, open_reassignments. ``tables`` are whole answers in codes, not computed yet;
    ``listings`` has the first rows of each but of partitions and replicas. ``bucket_ms``: how wide
    a bucket of time is.
    """

    counts: Mapping[str, int]
    first_ms: int | None
    last_ms: int | None
    bucket_ms: int
    listings: Mapping[str, Listing]
    tables: Mapping[str, DataFrame]
    _kept: tuple[DataFrame, ...] = field(default=(), repr=False)

    @property
    def violations(self) -> dict[str, int]:
        """Those of VIOLATIONS that were found, and how often."""
        return {name: self.counts[name] for name in VIOLATIONS if self.counts[name]}

    def close(self) -> None:
        """Forget what was kept for the tables."""
        for frame in self._kept:
            frame.unpersist()

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def answer(table: EventTable, filters: Filters | None = None) -> Answers:
    """All answers. Raises UsageError as ``filters.narrow`` does."""
    kept: list[DataFrame] = []
    try:
        return _answer(table, filters or Filters(), kept)
    except BaseException:
        for frame in kept:
            frame.unpersist()
        raise


def _answer(table: EventTable, filters: Filters, kept: list[DataFrame]) -> Answers:
    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    found_epochs = keep(epochs(table.events))
    repeated = keep(duplicates(table.events, found_epochs))
    copies = _total(repeated, F.col("copies") - 1) if _is_doubtful(found_epochs) else 0
    events = table.events if not copies else without(table.events, repeated)
    if copies or filters != Filters():
        events = narrow(replace(table, events=events), filters)
        found_epochs = keep(epochs(events))
    extent = found_epochs.agg(
        F.sum("rows").alias("rows"),
        F.min("first_ms").alias("first"),
        F.max("last_ms").alias("last"),
    ).collect()[0]
    start_ms = max(extent.first or 0, filters.from_ms or 0)
    width_ms = width_of(start_ms, extent.last or start_ms)
    found = keep(with_held(histories(events, filters.from_ms), found_epochs, filters.from_ms))
    by_partition = keep(partitions(found))
    changes = keep(differences(events, start_ms, width_ms))
    told = since(events, filters.from_ms)
    churn = keep(isr_churn(told, start_ms, width_ms))
    tables = {
        "epochs": found_epochs,
        "failovers": failovers(found_epochs),
        "shared_epochs": shared_epochs(found_epochs),
        "late_writes": keep(late_writes(told, found_epochs)),
        "duplicates": repeated,
        "illegal": illegal_transitions(told),
        "failed": failed_transitions(told),
        "gaps": gap_places(events, gaps(found)),
        "unclean": unclean_elections(told),
        "offline_intervals": _ended_since(
            offline_intervals(events, found, found_epochs), filters.from_ms
        ),
        "leaderless_intervals": _ended_since(leaderless_intervals(events), filters.from_ms),
        "offline_timeline": offline_timeline(changes),
        "leaders_over_time": leaders_over_time(changes),
        "isr_churn": churn,
        "flapping": flapping_replicas(told, by_partition),
        "reassignments": keep(_ended_since(reassignments(events), filters.from_ms)),
        "topics": topics_by_trouble(by_partition),
        "brokers": brokers_by_trouble(replicas(found), churn),
    }
    counts = {"events": extent.rows or 0, "repeated": copies, **_counts(by_partition, found)}
    counts["late_writes"] = tables["late_writes"].count()
    counts["shared_epochs"] = tables["shared_epochs"].count()
    counts["open_reassignments"] = tables["reassignments"].where(F.col("status") == OPEN).count()
    listed = {
        name: _first_rows(frame, name)
        for name, frame in tables.items()
        if counts.get(_COUNTED_BY.get(name, "events"))
    }
    words = in_words(listed, table.names)
    return Answers(
        counts=counts,
        first_ms=extent.first,
        last_ms=extent.last,
        bucket_ms=width_ms,
        listings={name: _listing(name, words.get(name, ())) for name in tables},
        tables={
            **tables,
            "partitions": final_partitions(by_partition, events),
            "replicas": final_replicas(replicas(found)),
        },
        _kept=tuple(kept),
    )


# What is collected


# Behind a minus: the largest first, and what has none before all.
_LONGEST: Final = ("-took_ms", "start_ms", "topic", "partition")
_WORST: Final = ("-trouble", "source", "run")
_FIRST: Final = ("t_ms", "place", "file", "line")
_DRAWN: Final = ("source", "run", "bucket_ms")
_ORDERS: Final[dict[str, tuple[str, ...]]] = {
    "epochs": ("source", "run", "epoch", "controller"),
    "failovers": ("source", "run", "epoch", "controller"),
    "shared_epochs": ("source", "run", "epoch"),
    "late_writes": _FIRST,
    "duplicates": ("file", "line"),
    "illegal": _FIRST,
    "failed": _FIRST,
    "gaps": ("before_t_ms", "before_file", "before_line"),
    "unclean": _FIRST,
    "offline_intervals": _LONGEST,
    "leaderless_intervals": _LONGEST,
    "offline_timeline": _DRAWN,
    "leaders_over_time": (*_DRAWN, "broker"),
    "isr_churn": (*_DRAWN, "broker"),
    "flapping": ("-shrinks", "topic", "partition", "replica"),
    "reassignments": _LONGEST,
    "topics": (*_WORST, "topic"),
    "brokers": (*_WORST, "broker"),
}
_MANY: Final = ("epochs", "failovers", "offline_timeline", "leaders_over_time", "isr_churn")
_COUNTED_BY: Final = {
    "late_writes": "late_writes",
    "shared_epochs": "shared_epochs",
    "duplicates": "repeated",
    "illegal": "illegal",
    "failed": "failed",
    "gaps": "gaps",
    "unclean": "unclean",
    "flapping": "flapping_partitions",
}
"""Which count says whether there is anything to list: rows are not read again for nothing."""


def _first_rows(frame: DataFrame, name: str) -> list[Row]:
    """One row more than are listed, where there are so many."""
    order = [
        F.desc_nulls_first(column[1:]) if column.startswith("-") else F.col(column)
        for column in _ORDERS[name]
    ]
    return frame.orderBy(*order).limit(_most(name) + 1).collect()


def _listing(name: str, rows: tuple[dict[str, Any], ...]) -> Listing:
    most = _most(name)
    return Listing(rows[:most], is_whole=len(rows) <= most)


def _most(name: str) -> int:
    return MOST_DRAWN if name in _MANY else MOST_LISTED


def _is_doubtful(found_epochs: DataFrame) -> bool:
    return not found_epochs.where("NOT is_plain").isEmpty()


def _total(frame: DataFrame, amount: Column) -> int:
    return frame.agg(F.coalesce(F.sum(amount), F.lit(0))).collect()[0][0]


def _counts(by_partition: DataFrame, found: DataFrame) -> dict[str, int]:
    flaps = (F.col("shrinks") >= FLAPS) & (F.col("expands") >= FLAPS)
    sums = by_partition.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS),
        F.count_if(F.col("partition") >= 0).alias("partitions"),
        F.count_if(flaps).alias("flapping_partitions"),
    )
    keys = found.agg(F.count_if(F.col("missing") > 0).alias("gaps"))
    return {**sums.collect()[0].asDict(), **keys.collect()[0].asDict()}


def _ended_since(intervals: DataFrame, from_ms: int | None) -> DataFrame:
    """Intervals with their length, of those that had not ended at a time."""
    if from_ms is not None:
        intervals = intervals.where(F.col("end_ms").isNull() | (F.col("end_ms") >= from_ms))
    return intervals.withColumn("took_ms", F.col("end_ms") - F.col("start_ms"))
