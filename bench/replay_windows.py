"""The questions about keys by window functions over the same integer-coded table.

What is usually done, only to be measured beside replay.run: every partition's rows are brought
together and sorted, and each row looks at those before it instead of at what it carries.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.listings import MOST_DRAWN, MOST_LISTED
from klamm.replay.questions.columns import (
    AT,
    FAILURES,
    HISTORY,
    OFFLINE,
    PARTITION,
    REPLICA,
    RUN,
    STATE_KINDS,
    is_illegal,
    is_kind,
    is_leadership,
    replica_key,
)
from klamm.replay.questions.elections import FLAP_WINDOW_MS, FLAPS
from klamm.replay.questions.timeline import bucket
from klamm.replay.spark_errors import unpersist

COUNTED: Final = (
    "rows",
    "repeated",
    "missing",
    "illegal",
    "failed",
    "unclean",
    "shrinks",
    "expands",
    "leader_changes",
    "offlines",
    "offline_ms",
)
"""What is counted, by the names of replay.run's counts."""
BLURRED: Final = ("shrinks", "expands")
"""Those that lost rows change: a window sees the ISR before them, a row carries the one after."""
_BURST: Final = ("shrinks", "expands", "start_ms", "end_ms")


def answer(
    events: DataFrame, first_ms: int, width_ms: int
) -> tuple[dict[str, int], dict[str, Any]]:
    """COUNTED and partitions, and the first rows of each listing. Keeps the rows while it asks, on
    disk: in memory they are more than a heap of 2 GB holds."""
    rows = with_neighbours(events).persist(StorageLevel.DISK_ONLY)
    try:
        return _counts(rows), {
            name: frame.collect() for name, frame in _listed(rows, first_ms, width_ms).items()
        }
    finally:
        unpersist([rows])


def with_neighbours(events: DataFrame) -> DataFrame:
    """Events about partitions, beside the state, number and leadership that came before them.

    One shuffle, by partition; a sort for the leaderships and one for states and numbers.
    """
    leading = Window.partitionBy(*PARTITION).orderBy("place")
    own = Window.partitionBy(*PARTITION, "_key").orderBy("place")
    is_state = is_kind(*STATE_KINDS) & ~is_illegal()
    return (
        events.where("topic IS NOT NULL")
        .withColumn("_key", replica_key())
        .withColumn("_led", _last(is_leadership(), leading, "leader", "isr"))
        .withColumns(
            {
                "_was": _last(is_state, own, "to_state", "t_ms", "epoch"),
                "_counted": _last(
                    F.col("key_seq").isNotNull(), own, "key_seq", "epoch", "controller"
                ),
                "_next_ms": F.lead("t_ms").over(own),
            }
        )
        .select(
            *REPLICA,
            *AT,
            *("kind", "from_state", "to_state", "key_seq", "leader", "leader_epoch", "isr"),
            *("_key", "_led", "_was", "_counted", "_next_ms"),
        )
    )


def _last(condition: Column, over: Any, *columns: str) -> Column:
    before = over.rowsBetween(Window.unboundedPreceding, -1)
    return F.last(F.when(condition, F.struct(*columns)), ignorenulls=True).over(before)


def _counts_on() -> Column:
    """True if the row that was counted before is of the same controller's epoch."""
    same_epoch = F.col("_counted.epoch") == F.col("epoch")
    return same_epoch & (F.col("_counted.controller") == F.col("controller"))


def _repeated() -> Column:
    same = _counts_on()
    return F.coalesce(same & (F.col("key_seq") == F.col("_counted.key_seq")), F.lit(False))


def _missing() -> Column:
    before = F.when(_counts_on(), F.col("_counted.key_seq")).otherwise(0)
    return F.greatest(F.col("key_seq") - before - 1, F.lit(0))


def _unclean() -> Column:
    return (
        is_leadership()
        & ~is_kind(Kind.PARTITION_SNAPSHOT)
        & (F.col("leader") > NO_LEADER)
        & (F.col("leader") != F.col("_led.leader"))
        & ~F.array_contains("_led.isr", F.col("leader"))
    )


def _left() -> Column:
    return F.when(is_leadership(), F.array_except("_led.isr", "isr"))


def _joined() -> Column:
    return F.when(is_leadership(), F.array_except("isr", "_led.isr"))


def _left_offline() -> Column:
    return is_kind(Kind.PARTITION_TRANSITION, Kind.PARTITION_SNAPSHOT) & (
        F.col("_was.to_state") == OFFLINE
    )


def _counts(rows: DataFrame) -> dict[str, int]:
    is_first = ~_repeated()
    is_offline, was_offline = (F.col(at) == OFFLINE for at in ("to_state", "_was.to_state"))
    went = is_kind(Kind.PARTITION_TRANSITION) & is_offline & (F.col("from_state") != OFFLINE)
    left = is_kind(Kind.PARTITION_SNAPSHOT) & is_offline & ~was_offline
    counted = {
        "rows": F.lit(True),
        "repeated": _repeated(),
        "illegal": is_first & is_illegal(),
        "failed": is_first & is_kind(*FAILURES),
        "unclean": is_first & _unclean(),
        "shrinks": is_first & (F.size(_left()) > 0),
        "expands": is_first & (F.size(_joined()) > 0),
        "leader_changes": is_first & is_leadership() & (F.col("leader") != F.col("_led.leader")),
        "offlines": is_first & ((went & ~is_illegal()) | left),
    }
    by_key = rows.groupBy(*PARTITION, "_key").agg(
        *(F.count_if(condition).alias(name) for name, condition in counted.items()),
        F.sum(_missing()).alias("missing"),
        F.sum(F.when(_left_offline(), F.col("t_ms") - F.col("_was.t_ms"))).alias("offline_ms"),
        F.max_by("to_state", F.when(is_kind(*STATE_KINDS), F.col("place"))).alias("state"),
        F.max_by("leader", F.when(is_leadership(), F.col("place"))).alias("leader"),
        F.max_by("leader_epoch", F.when(is_leadership(), F.col("place"))).alias("leader_epoch"),
    )
    found: Row = by_key.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTED),
        F.count_distinct(*PARTITION).alias("partitions"),
    ).collect()[0]
    return found.asDict()


def _listed(rows: DataFrame, first_ms: int, width_ms: int) -> dict[str, DataFrame]:
    at = (*RUN, bucket(first_ms, width_ms))
    until = Window.partitionBy(*RUN, "broker").orderBy("bucket_ms")
    is_change = is_leadership() & ~F.col("leader").eqNullSafe(F.col("_led.leader"))
    gained = rows.where(is_change).select(
        *at, F.col("leader").alias("broker"), F.lit(1).alias("_change")
    )
    lost = rows.where(is_change & F.col("_led.leader").isNotNull()).select(
        *at, F.col("_led.leader").alias("broker"), F.lit(-1).alias("_change")
    )
    moved = _moved(rows).select(*at, "broker")
    took_ms = (F.col("t_ms") - F.col("_was.t_ms")).alias("took_ms")
    return {
        "illegal": rows.where(is_illegal()).select(*REPLICA, *AT).limit(MOST_LISTED),
        "gaps": rows.where(_missing() > 0).select(*HISTORY, *AT[:4]).limit(MOST_LISTED),
        "unclean": rows.where(_unclean()).select(*PARTITION, *AT).limit(MOST_LISTED),
        "offline_intervals": rows.where(_left_offline() & (F.col("to_state") != OFFLINE))
        .select(*PARTITION, took_ms)
        .orderBy(F.desc("took_ms"))
        .limit(MOST_LISTED),
        "leaders_over_time": gained.unionByName(lost)
        .groupBy(*RUN, "bucket_ms", "broker")
        .agg(F.sum("_change").alias("_change"))
        .withColumn("leaders", F.sum("_change").over(until))
        .limit(MOST_DRAWN),
        "isr_churn": moved.groupBy(*RUN, "bucket_ms", "broker").count().limit(MOST_DRAWN),
        "flapping": flapping_replicas(rows).orderBy(F.desc("shrinks")).limit(MOST_LISTED),
    }


def flapping_replicas(
    rows: DataFrame, flaps: int = FLAPS, window_ms: int = FLAP_WINDOW_MS
) -> DataFrame:
    """What replay.questions.elections tells of them, by hopping windows; ``rows`` are what
    ``with_neighbours`` gives."""
    lengths = (f"{ms} milliseconds" for ms in (window_ms, window_ms // 2))
    hopping = F.window(F.timestamp_millis("t_ms"), *lengths)
    burst = F.struct("_moves", -F.unix_millis("window.start"), *_BURST)
    return (
        _moved(rows)
        .groupBy(*PARTITION, F.col("broker").alias("replica"), hopping)
        .agg(
            F.count("*").alias("_moves"),
            F.count_if("_is_out").alias("shrinks"),
            F.count_if(~F.col("_is_out")).alias("expands"),
            F.min("t_ms").alias("start_ms"),
            F.max("t_ms").alias("end_ms"),
        )
        .where((F.col("shrinks") >= flaps) & (F.col("expands") >= flaps))
        .groupBy(*REPLICA)
        .agg(F.max(burst).alias("_worst"))
        .select(*REPLICA, *(f"_worst.{name}" for name in _BURST))
    )


def _moved(rows: DataFrame) -> DataFrame:
    """A row for each replica that left an ISR or joined it."""
    return (
        rows.where((F.size(_left()) > 0) | (F.size(_joined()) > 0))
        .select(
            *PARTITION,
            "t_ms",
            F.size(_left()).alias("_outs"),
            F.posexplode(F.concat(_left(), _joined())).alias("_at", "broker"),
        )
        .withColumn("_is_out", F.col("_at") < F.col("_outs"))
    )
