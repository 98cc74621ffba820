"""The pass over every row: one hash aggregation by key, epoch and controller, without a sort.

All that is counted or found per key comes from it: final states, gaps, illegal transitions, ISR
churn, states held at an epoch's end. Its result is small beside the rows and is asked many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from klamm.replay.event_schema import LEADERSHIP_DELETED
from klamm.replay.questions.columns import (
    FAILURES,
    HISTORY,
    OFFLINE,
    PARTITION,
    REPLICA,
    STATE_KINDS,
    ends_offline_piece,
    goes_offline,
    is_found_offline,
    is_illegal,
    is_kind,
    is_leadership,
    is_unclean,
    isr_added_count,
    isr_removed_count,
    replica_key,
)

COUNTS: Final = (
    "rows",
    "illegal",
    "failed",
    "unclean",
    "shrinks",
    "expands",
    "leader_changes",
    "offlines",
)
"""What is counted of each key."""


def histories(events: DataFrame, from_ms: int | None = None) -> DataFrame:
    """A row for each key in each epoch of a controller.

    Key: source, run, topic, partition, replica (-1: the partition's own rows), controller, epoch.
    COUNTS are of rows at or after ``from_ms``; all else is of every row. ``missing``: numbers of
    key_seq that no row has; ``gaps``: 1 if there are such. ``state``, entered at ``entered_ms`` by
    the row at ``entered_place``, is the last one that a legal row led to, of which ``state_place``
    is the last row. ``offlines`` counts how often partitions went Offline: by a transition, or
    while there was no controller, so that the next one's snapshot found it. ``offline_ms`` is the
    time to the next row; a state that was still held is not in it: ``held`` is 1 then.
    ``leadership_place`` is the last row that says a leader, or that there is none any more. Null
    where no row says it.
    """
    judged = events.where(F.col("topic").isNotNull()).withColumns(
        {"_illegal": is_illegal(), "_leads": is_leadership(), "_removed": isr_removed_count()}
    )
    told = judged.select(
        *PARTITION,
        replica_key().alias("replica"),
        "controller",
        "epoch",
        "key_seq",
        "t_ms",
        "to_state",
        "place",
        _as_bits({**_conditions(from_ms), **_tells()}).alias("_bits"),
        F.when(_is_state() & ends_offline_piece(), _length(from_ms)).alias("offline_ms"),
    )
    state_place, entered_place, leadership_place = (
        F.when(_is_set(name), F.col("place")) for name in _PLACES
    )
    # Moved once, by partition: each sum over keys of one that follows finds them together.
    return (
        told.repartition(*PARTITION)
        .groupBy(*HISTORY)
        .agg(
            *(F.count_if(_is_set(name)).alias(name) for name in COUNTS),
            F.min("key_seq").alias("_first"),
            F.max("key_seq").alias("_last"),
            F.count("key_seq").alias("_numbered"),
            F.max(state_place).alias("state_place"),
            F.max_by("to_state", state_place).alias("state"),
            F.max_by("t_ms", state_place).alias("state_ms"),
            F.coalesce(F.sum("offline_ms"), F.lit(0)).alias("offline_ms"),
            F.max(entered_place).alias("entered_place"),
            F.max_by("t_ms", entered_place).alias("entered_ms"),
            F.max(leadership_place).alias("leadership_place"),
        )
        .withColumns({"missing": _missing(), "held": is_held().cast("long")})
        .withColumn("gaps", (F.col("missing") > 0).cast("long"))
        .select(*HISTORY, *SUMS, *_LAST)
    )


def is_held() -> Column:
    """True for a partition's history that ends in Offline."""
    is_offline = (F.col("replica") == -1) & (F.col("state") == OFFLINE)
    return F.coalesce(is_offline, F.lit(False))


_LAST: Final = (
    "state",
    "state_place",
    "state_ms",
    "entered_ms",
    "entered_place",
    "leadership_place",
)
SUMS: Final = ("missing", "gaps", *COUNTS, "held", "offline_ms")
"""What is added up over the histories of a key."""


def by_replica(found: DataFrame) -> DataFrame:
    """Histories by partition (replica -1) and replica: sums over epochs, the last of each thing."""
    return found.groupBy(*REPLICA).agg(
        *_sums(),
        F.max_by("state", "state_place").alias("state"),
        F.max("state_place").alias("state_place"),
        F.max("leadership_place").alias("leadership_place"),
    )


def by_partition(found: DataFrame) -> DataFrame:
    """Histories, or ``by_replica`` of them, by partition: sums over its replicas as well.

    ``state`` is the partition's, not that of a replica.
    """
    own = F.when(F.col("replica") == -1, F.col("state_place"))
    return found.groupBy(*PARTITION).agg(
        *_sums(),
        F.max_by("state", own).alias("state"),
        F.max(own).alias("state_place"),
        F.max("leadership_place").alias("leadership_place"),
    )


def _sums() -> list[Column]:
    return [F.sum(name).alias(name) for name in SUMS]


def _conditions(from_ms: int | None) -> dict[str, Column]:
    in_time = F.lit(True) if from_ms is None else F.col("t_ms") >= from_ms
    return {
        "rows": in_time,
        "illegal": in_time & F.col("_illegal"),
        "failed": in_time & is_kind(*FAILURES),
        "unclean": in_time & is_unclean(),
        "shrinks": in_time & (F.col("_removed") > 0),
        "expands": in_time & (isr_added_count(F.col("_removed")) > 0),
        "leader_changes": in_time & F.col("_leads") & (F.col("leader") != F.col("prev_leader")),
        "offlines": in_time & ~F.col("_illegal") & (goes_offline() | is_found_offline()),
    }


def _is_state() -> Column:
    return is_kind(*STATE_KINDS) & ~F.col("_illegal")


def _tells() -> dict[str, Column]:
    """Whether a row tells a state, a state that is entered, a leadership."""
    state = _is_state()
    # A state znode that was deleted says no leader from then on.
    leads = F.col("_leads") | is_kind(LEADERSHIP_DELETED)
    told = (state, state & (F.col("from_state") != F.col("to_state")), leads)
    return dict(zip(_PLACES, told, strict=True))


_PLACES: Final = ("state_place", "entered_place", "leadership_place")
_BITS: Final = {name: 1 << number for number, name in enumerate((*COUNTS, *_PLACES))}


def _as_bits(conditions: Mapping[str, Column]) -> Column:
    """Conditions as one number, as every row is moved with it."""
    bits = (F.when(is_so, _BITS[name]).otherwise(0) for name, is_so in conditions.items())
    return reduce(Column.bitwiseOR, bits)


def _is_set(name: str) -> Column:
    return F.col("_bits").bitwiseAND(_BITS[name]) != 0


def _length(from_ms: int | None) -> Column:
    """Of the time that a row ends, what is not before ``from_ms``."""
    start, end = F.col("since_ms"), F.col("t_ms")
    if from_ms is None:
        return end - start
    return F.greatest(end, F.lit(from_ms)) - F.greatest(start, F.lit(from_ms))


def _missing() -> Column:
    # Rows are counted from 1 in each epoch, so that a lost first row is missed as well.
    first = F.least("_first", F.lit(1))
    return F.coalesce(F.col("_last") - first + 1 - F.col("_numbered"), F.lit(0))
