"""Which events a question is asked of: topics, brokers, times, and the moment of an as-of.

Narrows an event table; a history is taken whole or not at all, as half of one tells lies.
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
    """What is left out. Times in ms since 1970, both ends included.

    ``from_ms``: what happened before is not counted or listed, though states come from it.
    ``to_ms``, ``as_of_*``: the log as it stood at that moment, to the end of that epoch.
    ``brokers``: partitions that one of them led, was in sync for or had a replica of.
    """

    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    as_of_ms: int | None = None
    as_of_epoch: int | None = None
    as_of_zxid: int | None = None


def check(table: EventTable, filters: Filters) -> None:
    """Raises UsageError where ``filters`` leave nothing because they name what the table does not
    have: that nothing was found would read like good news."""
    _check_moments(table.manifest, filters)
    if filters.as_of_zxid is not None:
        _check_zxid(table.events, filters.as_of_zxid)
    _check_topics(table.names, filters.topics)
    events = narrow(table, replace(filters, brokers=()))
    for broker in filters.brokers:
        if events.where(_is_about((broker,))).isEmpty():
            raise UsageError(
                f"there is no event of a partition of broker {broker}",
                hint="one that it led, was in sync for or had a replica of",
            )


def narrow(table: EventTable, filters: Filters) -> DataFrame:
    """The events that ``filters`` leave."""
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
    """Rows at or after a time."""
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
                f"there is no event up to {time_text(until_ms)}",
                hint=f"the first is of {time_text(first_ms)} UTC",
            )
    if filters.from_ms is not None and filters.from_ms > last_ms:
        raise UsageError(
            f"there is no event from {time_text(filters.from_ms)} on",
            hint=f"the last is of {time_text(last_ms)} UTC",
        )
    epoch = filters.as_of_epoch
    first = min((run.first_epoch for run in runs if run.first_epoch), default=0)
    last = max(run.last_epoch for run in runs)
    if epoch is not None and not max(first, 1) <= epoch <= last:
        told = f"there are those from {first} to {last}" if first else "none is told"
        raise UsageError(f"there is no controller epoch {epoch}", hint=told)


def _check_zxid(events: DataFrame, zxid: int) -> None:
    """One behind the last is no mistake: ZooKeeper has transactions that tell of nothing here."""
    (first,) = events.agg(F.min("zxid")).collect()[0]
    if first is None or zxid < first:
        told = f"the first is of 0x{first:x}" if first else "ZooKeeper's logs tell zxids"
        raise UsageError(f"there is no event up to zxid 0x{zxid:x}", hint=told)


def _check_topics(names: DataFrame, topics: tuple[str, ...]) -> None:
    if not topics:
        return
    is_wanted = (F.col("domain") == "topic") & F.col("name").isin(*topics)
    found = {row.name for row in names.where(is_wanted).select("name").limit(len(topics)).collect()}
    missing = [topic for topic in topics if topic not in found]
    if missing:
        raise UsageError(f"there is no event of topic {missing[0]}", hint="names are exact")
