"""Computes all answers of a replay in as few passes over the events as possible.

Only some passes read every row: epochs, histories by key, changes by time, and the search for rare
rows (failures, leader loss, reassignments). Their results are cached as long as the answers are
open, and all other queries run on them; a query is skipped if a count shows that it has no rows.
Small results are kept in one Spark partition, so that sorting and summing needs no shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from klamm.replay.event_table import EventTable
from klamm.replay.filters import Filters, check, narrow, since
from klamm.replay.listings import Listing, first_listed
from klamm.replay.questions.availability import (
    is_availability_change,
    is_partition_state,
    leaderless_intervals,
    offline_intervals,
    with_held,
)
from klamm.replay.questions.columns import PARTITION, is_unclean, partition_code
from klamm.replay.questions.controllers import (
    IS_LATE,
    epochs,
    failovers,
    late_writes,
    shared_epochs,
)
from klamm.replay.questions.duplicates import duplicates, without
from klamm.replay.questions.elections import (
    FLAPS,
    flap_suspects,
    flapping_replicas,
    unclean_elections,
)
from klamm.replay.questions.final_states import final_partitions, final_replicas
from klamm.replay.questions.histories import SUMS, by_partition, by_replica, histories
from klamm.replay.questions.reassignments import OPEN, is_reassignment_row, reassignments
from klamm.replay.questions.row_checks import (
    failed_transitions,
    gap_places,
    illegal_transitions,
    is_failure_or_illegal,
)
from klamm.replay.questions.timeline import (
    differences,
    isr_churn,
    leaders_over_time,
    offline_timeline,
    width_of,
)
from klamm.replay.questions.trouble import brokers_by_trouble, topics_by_trouble
from klamm.replay.spark_errors import unpersist
from klamm.replay.unread import Unread, unread

MOST_SENT: Final = 100_000
"""Up to this many rows are broadcast to every processor; for more, all events are shuffled."""
_NOT_LISTED: Final = ("zxid", "event_id", "cause_id", "has_predecessors")
VIOLATIONS: Final = (
    "illegal",
    "missing",
    "lost_transactions",
    "unclean",
    "repeated",
    "late_writes",
    "shared_epochs",
)
"""The counts that are violations: `klamm replay run` then exits with 14."""


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers of a replay. Close it: the results that its tables need are cached until then.

    ``counts``: SUMS of histories, and events (from ``from_ms`` on), partitions, repeated (rows that
    are copies of others), late_writes, shared_epochs, open_reassignments, flapping_partitions
    (those with enough ISR changes to look for flapping replicas) and lost_transactions (ranges of
    them). ``tables``: complete answers in codes, not computed yet. ``listings``: the first rows of
    each table, except partitions and replicas. ``bucket_ms``: width of a time bucket. ``unread``:
    damaged lines and lost transactions.
    """

    counts: Mapping[str, int]
    first_ms: int | None
    last_ms: int | None
    bucket_ms: int
    listings: Mapping[str, Listing]
    tables: Mapping[str, DataFrame]
    unread: Unread
    _kept: tuple[DataFrame, ...] = field(default=(), repr=False)

    @property
    def violations(self) -> dict[str, int]:
        """The counts of VIOLATIONS that are not 0."""
        return {name: self.counts[name] for name in VIOLATIONS if self.counts[name]}

    @property
    def logs(self) -> list[tuple[str, str]]:
        """Source and run of each log; answers are separate for each of them."""
        return sorted({(row["source"], row["run"]) for row in self.listings["epochs"].rows})

    def close(self) -> None:
        """Free the cached results that the tables need."""
        unpersist(self._kept)

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def answer(table: EventTable, filters: Filters | None = None) -> Answers:
    """Compute all answers. Raises UsageError like ``filters.check``."""
    asked = filters or Filters()
    check(table, asked)
    kept: list[DataFrame] = []
    try:
        return _answer(table, asked, kept)
    except BaseException:
        unpersist(kept)
        raise


_Keep = Callable[[DataFrame], DataFrame]


def _answer(table: EventTable, filters: Filters, kept: list[DataFrame]) -> Answers:
    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    given = _given(table, filters, keep)
    found = with_held(histories(given.events, given.from_ms), given.epochs, given.from_ms)
    replicas = keep(by_replica(found))
    partitions = keep(by_partition(replicas))
    counts = {"events": given.extent.rows, "repeated": given.copies, **_counts(partitions)}
    tables = {
        **_of_epochs(given, keep),
        **_of_marked(given, counts, partitions, replicas, keep),
        **_of_time(given, keep),
        "topics": topics_by_trouble(partitions),
    }
    tables["brokers"] = brokers_by_trouble(replicas.where("replica >= 0"), tables["isr_churn"])
    not_read = unread(table)
    counts["lost_transactions"] = not_read.holes
    counts["late_writes"] = tables["late_writes"].count()
    counts["shared_epochs"] = tables["shared_epochs"].count()
    counts["open_reassignments"] = tables["reassignments"].where(F.col("status") == OPEN).count()
    return Answers(
        counts=counts,
        first_ms=given.extent.first_ms,
        last_ms=given.extent.last_ms,
        bucket_ms=given.width_ms,
        listings=first_listed(tables, counts, table.names),
        tables={
            **tables,
            "partitions": final_partitions(partitions, given.events),
            "replicas": final_replicas(replicas),
        },
        unread=not_read,
        _kept=tuple(kept),
    )


class _Extent(NamedTuple):
    """Number and time range of all rows, from the epochs.

    ``late_epochs``: the first and last epoch that wrote after a newer epoch began, None if there
    are none.
    """

    rows: int
    first_ms: int | None
    last_ms: int | None
    late_epochs: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Given:
    """The filtered events without duplicates, and what their epochs say about them.

    ``repeated``: the duplicate sequence numbers. ``copies``: number of duplicate rows removed. Time
    buckets begin at ``start_ms``.
    """

    events: DataFrame
    epochs: DataFrame
    extent: _Extent
    repeated: DataFrame
    copies: int
    from_ms: int | None

    @property
    def start_ms(self) -> int:
        return max(self.extent.first_ms or 0, self.from_ms or 0)

    @property
    def width_ms(self) -> int:
        return width_of(self.start_ms, self.extent.last_ms or self.start_ms)


def _given(table: EventTable, filters: Filters, keep: _Keep) -> _Given:
    events = table.events
    runs = [run for source in table.manifest.sources for run in source.runs]
    copies = sum(run.repeated or 0 for run in runs)
    repeated = keep(duplicates(_if(copies, events)))
    if copies:
        events = without(events, _beside(repeated, copies))
    events = narrow(replace(table, events=events), filters)
    found = keep(epochs(events, filters.from_ms))
    return _Given(events, found, _extent(found), repeated, copies, filters.from_ms)


def _extent(found_epochs: DataFrame) -> _Extent:
    late = F.when(F.expr(IS_LATE), F.col("epoch"))
    found = found_epochs.agg(
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.min(late).alias("first_late"),
        F.max(late).alias("last_late"),
    ).collect()[0]
    late_epochs = None if found.first_late is None else (found.first_late, found.last_late)
    return _Extent(found.rows, found.first_ms, found.last_ms, late_epochs)


def _of_epochs(given: _Given, keep: _Keep) -> dict[str, DataFrame]:
    late = given.extent.late_epochs
    in_late = F.lit(False) if late is None else F.col("epoch").between(*late)
    writes = since(given.events.where(in_late), given.from_ms)
    return {
        "epochs": given.epochs,
        "failovers": since(failovers(given.epochs), given.from_ms, "elected_ms"),
        "shared_epochs": since(shared_epochs(given.epochs), given.from_ms, "last_ms"),
        "late_writes": keep(late_writes(writes, given.epochs)),
        "duplicates": given.repeated,
    }


def _of_marked(
    given: _Given,
    counts: Mapping[str, int],
    partitions: DataFrame,
    replicas: DataFrame,
    keep: _Keep,
) -> dict[str, DataFrame]:
    """Answer the questions that need only rare rows, or all rows of partitions with findings.

    Each question selects its own rows among these, with the same result as among all events.
    """
    suspects = keep(flap_suspects(since(given.events, given.from_ms)))
    suspected = suspects.count() if counts["flapping_partitions"] else 0
    flagged = partitions.where("gaps + held > 0").select(partition_code())
    if suspected:
        flagged = flagged.union(suspects).distinct()
    marked, of_flagged = _marked(
        given.events, flagged, suspected + counts["gaps"] + counts["held"], keep
    )
    counted = since(marked, given.from_ms)
    with_gaps = _beside(replicas.where("missing > 0"), counts["gaps"])
    held = _beside(partitions.where("held > 0").select(*PARTITION), counts["held"])
    held_rows = _if(counts["held"], of_flagged).where(is_partition_state())
    ends = histories(held_rows.join(held, list(PARTITION), "left_semi"))
    found = {
        "offline_intervals": offline_intervals(marked, ends, given.epochs),
        "leaderless_intervals": leaderless_intervals(marked),
        "reassignments": reassignments(marked),
    }
    suspected_rows = _if(suspected, since(of_flagged, given.from_ms))
    return {
        "gaps": keep(gap_places(_if(counts["gaps"], of_flagged), with_gaps)),
        "flapping": keep(flapping_replicas(suspected_rows)),
        "illegal": illegal_transitions(counted),
        "failed": failed_transitions(counted),
        "unclean": unclean_elections(counted),
        **{name: keep(_ended_since(frame, given.from_ms)) for name, frame in found.items()},
    }


def _marked(
    events: DataFrame, flagged: DataFrame, count: int, keep: _Keep
) -> tuple[DataFrame, DataFrame]:
    """Return the rare rows, and a table with at least all rows of the flagged partitions.

    There are at most ``count`` flagged partitions. Both results are the same table, unless there
    are too many flagged partitions to cache their rows: the second is then all events.
    """
    rare = (
        is_failure_or_illegal(),
        is_unclean(),
        is_availability_change(),
        is_reassignment_row(),
    )
    is_marked = reduce(Column.__or__, rare)
    beside = events
    if 0 < count <= MOST_SENT:
        codes = F.broadcast(flagged.withColumn("_is_flagged", F.lit(True)))
        beside = events.withColumn("code", partition_code()).join(codes, "code", "left")
        is_marked = is_marked | F.col("_is_flagged")
    marked = keep(beside.where(is_marked).drop("code", "_is_flagged", *_NOT_LISTED))
    return marked, marked if count <= MOST_SENT else events


def _of_time(given: _Given, keep: _Keep) -> dict[str, DataFrame]:
    changes = keep(differences(given.events, given.start_ms, given.width_ms))
    return {
        "offline_timeline": offline_timeline(changes),
        "leaders_over_time": leaders_over_time(changes),
        "isr_churn": isr_churn(changes, given.start_ms),
    }


def _if(count: int, events: DataFrame) -> DataFrame:
    """Return the events, or an empty table if ``count`` is 0: Spark then reads nothing."""
    return events if count else events.where(F.lit(False))


def _beside(few: DataFrame, count: int) -> DataFrame:
    """Return rows to join events with, broadcast unless they are too many."""
    return F.broadcast(few) if count <= MOST_SENT else few


def _counts(partitions: DataFrame) -> dict[str, int]:
    flaps = (F.col("shrinks") >= FLAPS) & (F.col("expands") >= FLAPS)
    sums = partitions.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS),
        F.count_if(F.col("partition") >= 0).alias("partitions"),
        F.count_if(flaps).alias("flapping_partitions"),
    )
    return sums.collect()[0].asDict()


def _ended_since(intervals: DataFrame, from_ms: int | None) -> DataFrame:
    """Return intervals with their duration, without those that ended before ``from_ms``."""
    if from_ms is not None:
        intervals = intervals.where(F.col("end_ms").isNull() | (F.col("end_ms") >= from_ms))
    return intervals.withColumn("took_ms", F.col("end_ms") - F.col("start_ms"))
