"""Which events a question is asked of: topics, brokers, times, and the moment of an as-of.

Narrows an event table; a history is taken whole or not at all, as half of one tells lies.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cluster.errors import UsageError
from replay.event_table import EventTable
from replay.questions.columns import PARTITION
from replay.questions.final_states import as_of


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


def narrow(table: EventTable, filters: Filters) -> DataFrame:
    """The events that ``filters`` leave. Raises UsageError for a topic that the table lacks."""
    events = as_of(table.events, filters.as_of_ms, filters.as_of_epoch, filters.as_of_zxid)
    events = as_of(events, filters.to_ms)
    if filters.topics:
        _check_topics(table.names, filters.topics)
        wanted = [F.xxhash64(F.lit(topic)) for topic in filters.topics]
        events = events.where(F.col("topic").isNull() | F.col("topic").isin(*wanted))
    if filters.brokers:
        keys = events.where(_is_about(filters.brokers)).select(*PARTITION).distinct()
        of_brokers = events.join(keys, list(PARTITION), "left_semi")
        events = events.where(F.col("topic").isNull()).unionByName(of_brokers)
    return events


def since(events: DataFrame, from_ms: int | None) -> DataFrame:
    """Rows at or after a time."""
    return events if from_ms is None else events.where(F.col("t_ms") >= from_ms)


def _is_about(brokers: tuple[int, ...]) -> Column:
    ids = F.array(*(F.lit(broker) for broker in brokers))
    named = (F.col(name).isin(*brokers) for name in ("replica", "leader", "prev_leader"))
    about = F.col("topic").isNull()
    for condition in named:
        about = about | condition
    for name in ("isr", "prev_isr"):
        about = about | F.arrays_overlap(name, ids)
    return F.col("topic").isNotNull() & F.coalesce(about, F.lit(False))


def _check_topics(names: DataFrame, topics: tuple[str, ...]) -> None:
    is_wanted = (F.col("domain") == "topic") & F.col("name").isin(*topics)
    found = {row.name for row in names.where(is_wanted).select("name").limit(len(topics)).collect()}
    missing = [topic for topic in topics if topic not in found]
    if missing:
        raise UsageError(f"there is no event of topic {missing[0]}", hint="names are exact")
