"""Histories: the main pass over all events, aggregated by partition or replica and epoch.

One hash aggregation without a sort yields everything that is counted per partition or replica:
final states, gaps, illegal transitions, ISR churn, states held at an epoch's end. Its result is
much smaller than the events and is queried many times.
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
"""The counts of each history."""


def histories(events: DataFrame, from_ms: int | None = None) -> DataFrame:
    """Return a row for each partition and replica in each controller epoch.

    Key: source, run, topic, partition, replica (-1: the partition's own rows), controller, epoch.
    COUNTS consider rows at or after ``from_ms``, all other columns every row. Null if no row has
    the value.

    - ``missing``: number of key_seq values that no row has; ``gaps``: 1 if there are any.
    - ``state``: the last state set by a legal row. ``state_place`` and ``state_ms``: the last row
      that set it; ``entered_place`` and ``entered_ms``: the last row that changed it.
    - ``offlines``: how often the partition went Offline, by a transition, or while there was no
      controller, so that the next controller's snapshot found it Offline.
    - ``offline_ms``: time in Offline, without a stay that has not ended: ``held`` is 1 then.
    - ``leadership_place``: the last row with a leadership or the deletion of the state znode.
    """
    judged = events.where(F.col("topic").isNotNull()).withColumns(
        {"_illegal": is_illegal(), "_leads": is_leadership(), "_removed": isr_removed_count()}
    )
    compact = judged.select(
        *PARTITION,
        replica_key().alias("replica"),
        "controller",
        "epoch",
        "key_seq",
        "t_ms",
        "to_state",
        "place",
        _as_bits({**_conditions(from_ms), **_place_conditions()}).alias("_bits"),
        F.when(_is_state() & ends_offline_piece(), _length(from_ms)).alias("offline_ms"),
    )
    state_place, entered_place, leadership_place = (
        F.when(_is_set(name), F.col("place")) for name in _PLACES
    )
    # One shuffle by partition: later sums by replica or partition need no further one.
    return (
        compact.repartition(*PARTITION)
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
    """Condition: a partition's history that ends in Offline."""
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
"""The columns that are summed over the histories of a partition or replica."""


def by_replica(found: DataFrame) -> DataFrame:
    """Combine histories by partition (replica -1) and replica: sums, and the last state."""
    return found.groupBy(*REPLICA).agg(
        *_sums(),
        F.max_by("state", "state_place").alias("state"),
        F.max("state_place").alias("state_place"),
        F.max("leadership_place").alias("leadership_place"),
    )


def by_partition(found: DataFrame) -> DataFrame:
    """Combine histories, or the result of ``by_replica``, by partition.

    Sums include the replicas; ``state`` is that of the partition.
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


def _place_conditions() -> dict[str, Column]:
    """Return conditions: the row sets a state, changes a state, or has a leadership."""
    state = _is_state()
    # The deletion of a state znode ends the leadership.
    leads = F.col("_leads") | is_kind(LEADERSHIP_DELETED)
    conditions = (state, state & (F.col("from_state") != F.col("to_state")), leads)
    return dict(zip(_PLACES, conditions, strict=True))


_PLACES: Final = ("state_place", "entered_place", "leadership_place")
_BITS: Final = {name: 1 << number for number, name in enumerate((*COUNTS, *_PLACES))}


def _as_bits(conditions: Mapping[str, Column]) -> Column:
    """Return conditions as the bits of one number, which keeps shuffled rows small."""
    bits = (F.when(is_so, _BITS[name]).otherwise(0) for name, is_so in conditions.items())
    return reduce(Column.bitwiseOR, bits)


def _is_set(name: str) -> Column:
    return F.col("_bits").bitwiseAND(_BITS[name]) != 0


def _length(from_ms: int | None) -> Column:
    """Return the duration that a row ends, without the part before ``from_ms``."""
    start, end = F.col("since_ms"), F.col("t_ms")
    if from_ms is None:
        return end - start
    return F.greatest(end, F.lit(from_ms)) - F.greatest(start, F.lit(from_ms))


def _missing() -> Column:
    # key_seq starts at 1 in each epoch, so that a lost first row counts as missing, too.
    first = F.least("_first", F.lit(1))
    return F.coalesce(F.col("_last") - first + 1 - F.col("_numbered"), F.lit(0))
