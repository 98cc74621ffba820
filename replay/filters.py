"""Filters on an event table: topics, brokers, a time range, and an as-of moment.

The history of a partition is taken completely or not at all: half of one gives wrong answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from klamm.cluster.errors import UsageError
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.questions.columns import PARTITION
from klamm.replay.questions.final_states import as_of
from klamm.report.scales import time_text


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events to use. Times are in ms since 1970, both ends inclusive.

    ``from_ms``: earlier events are neither counted nor listed, but still determine states.
    ``to_ms``, ``as_of_*``: ignore later events; of an epoch or a zxid, its own events are included.
    ``brokers``: only partitions that one of these brokers led, was in sync for or had a replica of.
    """

    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    as_of_ms: int | None = None
    as_of_epoch: int | None = None
    as_of_zxid: int | None = None


def check(table: EventTable, filters: Filters) -> None:
    """Check that the table has the topics, brokers, times, epoch and zxid that filters name.

    Raises UsageError if not: an empty answer would read as "no problems found".
    """
    _check_moments(table.manifest, filters)
    if filters.as_of_zxid is not None:
        _check_zxid(table.events, filters.as_of_zxid)
    _check_topics(table.names, filters.topics)
    events = narrow(table, replace(filters, brokers=()))
    for broker in filters.brokers:
        if events.where(_is_about((broker,))).isEmpty():
            raise UsageError(
                f"no events about partitions of broker {broker}",
                hint="a partition counts if the broker led it, was in its ISR or had a replica",
            )


def narrow(table: EventTable, filters: Filters) -> DataFrame:
    """Return the events that pass the filters; ``from_ms`` is not applied here."""
    events = as_of(table.events, filters.as_of_ms, filters.as_of_epoch, filters.as_of_zxid)
    events = as_of(events, filters.to_ms)
    if filters.topics:
        wanted = [F.xxhash64(F.lit(topic)) for topic in filters.topics]
        events = events.where(F.col("topic").isNull() | F.col("topic").isin(*wanted))
    if filters.brokers:
        keys = events.where(_is_about(filters.brokers)).select(*PARTITION).distinct()
        of_brokers = events.join(keys, list(PARTITION), "left_semi")
        events = events.where(F.col("topic").isNull()).unionByName(of_brokers)
    return events


def since(events: DataFrame, from_ms: int | None, column: str = "t_ms") -> DataFrame:
    """Return the rows at or after a time; None: all rows."""
    return events if from_ms is None else events.where(F.col(column) >= from_ms)


def _is_about(brokers: tuple[int, ...]) -> Column:
    ids = F.array(*(F.lit(broker) for broker in brokers))
    named = (F.col(name).isin(*brokers) for name in ("replica", "leader", "prev_leader"))
    about = F.col("topic").isNull()
    for condition in named:
        about = about | condition
    for name in ("isr", "prev_isr"):
        about = about | F.arrays_overlap(name, ids)
    return F.col("topic").isNotNull() & F.coalesce(about, F.lit(False))


def _check_moments(manifest: Manifest, filters: Filters) -> None:
    runs = [run for source in manifest.sources for run in source.runs]
    if not runs:
        return
    first_ms, last_ms = min(run.first_ms for run in runs), max(run.last_ms for run in runs)
    for until_ms in (filters.as_of_ms, filters.to_ms):
        if until_ms is not None and until_ms < first_ms:
            raise UsageError(
                f"no events up to {time_text(until_ms)} UTC",
                hint=f"the first event is at {time_text(first_ms)} UTC",
            )
    if filters.from_ms is not None and filters.from_ms > last_ms:
        raise UsageError(
            f"no events from {time_text(filters.from_ms)} UTC on",
            hint=f"the last event is at {time_text(last_ms)} UTC",
        )
    epoch = filters.as_of_epoch
    first = min((run.first_epoch for run in runs if run.first_epoch), default=0)
    last = max(run.last_epoch for run in runs)
    if epoch is not None and not max(first, 1) <= epoch <= last:
        hint = f"epochs: {first} to {last}" if first else "these logs name no controller epochs"
        raise UsageError(f"no events of controller epoch {epoch}", hint=hint)


def _check_zxid(events: DataFrame, zxid: int) -> None:
    """Check that there are events up to a zxid.

    A zxid after the last event is valid: many transactions do not concern Kafka's controller.
    """
    (first,) = events.agg(F.min("zxid")).collect()[0]
    if first is None or zxid < first:
        hint = (
            f"the first event has zxid 0x{first:x}" if first else "only ZooKeeper's logs have zxids"
        )
        raise UsageError(f"no events up to zxid 0x{zxid:x}", hint=hint)


def _check_topics(names: DataFrame, topics: tuple[str, ...]) -> None:
    if not topics:
        return
    is_wanted = (F.col("domain") == "topic") & F.col("name").isin(*topics)
    found = {row.name for row in names.where(is_wanted).select("name").limit(len(topics)).collect()}
    missing = [topic for topic in topics if topic not in found]
    if missing:
        raise UsageError(
            f"no events of topic {missing[0]}", hint="--topic takes an exact topic name"
        )
