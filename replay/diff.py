"""Two logs side by side, or a log and a tree of znodes: what they end with, and where they part.

What a source cannot know is not compared. Both sides are keyed by the hash of the topic's name, so
that neither has to be translated; nothing but the differences that are shown is brought together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import (
    CONTROLLER_LOG,
    SOURCES,
    STATE_CHANGE_LOG,
    code_of,
)
from klamm.replay.event_table import EventTable
from klamm.replay.questions.columns import is_kind, is_leadership
from klamm.replay.questions.final_states import LEADERSHIP, final_tables
from klamm.replay.spark_errors import unpersist
from klamm.statemachines.partition_state import PartitionState

MOST_SHOWN: Final = 50
_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = (*_PARTITION, "replica")
_PARTIAL: Final = (STATE_CHANGE_LOG, CONTROLLER_LOG)
"""Sources that need not tell of every write of a state znode."""
_STORED_SCHEMA: Final = (
    "name string, partition int, leader int, leader_epoch int, isr array<int>, zk_version int"
)
_VERSION: Final = "zk_version"
_PARTITION_FIELDS: Final = ("state", "leader", "leader_epoch", "isr")


class StoredState(NamedTuple):
    """A partition in ZooKeeper: its state znode, or four times None where there is none."""

    topic: str
    partition: int
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Sequence[int] | None = None
    zk_version: int | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two.

    ``partitions``: topic, partition, state, leader, leader_epoch, isr, zk_version; states are
    words. ``replicas``: topic, partition, replica, state; None where nothing is known of them.
    ``writes``: leaderships with where they stand; None for a tree. ``is_whole``: every write of a
    state znode is told of.
    """

    name: str
    what: str
    partitions: DataFrame
    replicas: DataFrame | None
    writes: DataFrame | None
    names: DataFrame
    is_whole: bool


class Difference(NamedTuple):
    """One thing that the two have otherwise. ``replica`` -1: the partition's own."""

    topic: str
    partition: int
    replica: int
    field: str
    a: str | None
    b: str | None


class Parting(NamedTuple):
    """The first leadership that only one of the two has. ``side``: "A" or "B"."""

    side: str
    file: str
    line: int
    t_ms: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: Sequence[int] | None
    zk_version: int | None


@dataclass(frozen=True, slots=True)
class Differences:
    """``total`` differences, the first MOST_SHOWN of them, and what was not compared."""

    partitions: int
    replicas: int | None
    total: int
    shown: list[Difference]
    parting: Parting | None
    not_compared: list[str]


def side_of(
    table: EventTable, name: str, source: str | None = None, run: str | None = None
) -> Side:
    """A table's side: of several sources only ``source``, of several runs only ``run``.

    Raises UsageError if several kinds of logs, or several clusters, are left.
    """
    held = {summary.source: summary for summary in table.manifest.sources}
    (summary, *others) = [held[source]] if source in held else held.values()
    if others:
        raise UsageError(
            f"{name} holds several sources: {', '.join(held)}",
            hint=f"--source {summary.source} takes one of them",
        )
    events = table.events.where(F.col("source") == code_of(summary.source, SOURCES))
    runs = {covered.run: covered for covered in summary.runs}
    what, rows = summary.source, summary.rows
    if run in runs:
        events = events.where(F.col("run") == F.xxhash64(F.lit(run)))
        what, rows = f"{summary.source} of {run}", runs[run].rows
    elif summary.source not in _PARTIAL and len(runs) > 1:
        raise UsageError(
            f"{name} holds several runs: {', '.join(runs)}",
            hint=f"--run {next(iter(runs))} takes one of them",
        )
    partitions, replicas = final_tables(events)
    return Side(
        name=name,
        what=f"{what}, {rows:,} events",
        partitions=partitions,
        replicas=None if replicas.isEmpty() else replicas,
        writes=_writes(events),
        names=table.names,
        is_whole=summary.source not in _PARTIAL,
    )


def stored_side(spark: SparkSession, name: str, what: str, stored: Sequence[StoredState]) -> Side:
    """The side of a tree of znodes, live or dumped."""
    rows = [(at.topic, *at[1:]) for at in stored]
    states = spark.createDataFrame(rows, _STORED_SCHEMA).withColumn("topic", F.xxhash64("name"))
    names = states.select(F.lit("topic").alias("domain"), F.col("topic").alias("code"), "name")
    partitions = states.select(*_PARTITION, state_by_leader().alias("state"), *LEADERSHIP)
    return Side(name, what, partitions, None, None, names.distinct(), True)


def state_by_leader() -> Column:
    """The state that a partition should have by its state znode: null is none."""
    leader = F.col("leader")
    return (
        F.when(leader.isNull(), PartitionState.NEW.value)
        .when(leader == NO_LEADER, PartitionState.OFFLINE.value)
        .otherwise(PartitionState.ONLINE.value)
    )


def compare(a: Side, b: Side, most: int = MOST_SHOWN) -> Differences:
    """What differs at the end, and the first leadership that only one of the two has."""
    not_compared = []
    is_whole = a.is_whole and b.is_whole
    if not is_whole:
        partial = a if not a.is_whole else b
        not_compared.append(
            f"ISRs whose versions differ: {partial.name} need not tell of all their changes"
        )
    partitions = beside(a.partitions, b.partitions, _PARTITION, (*_PARTITION_FIELDS, _VERSION))
    rows = [_differing(partitions, _PARTITION_FIELDS, is_whole=is_whole)]
    replicas = None
    if a.replicas is not None and b.replicas is not None:
        both = beside(a.replicas, b.replicas, _REPLICA, ("state",))
        replicas = both.count()
        rows.append(_differing(both, ("state",), is_whole=True))
    else:
        unknowing = a if a.replicas is None else b
        not_compared.append(f"replica states: {unknowing.name} has none")
    names = a.names.unionByName(b.names).where("domain = 'topic'").select("code", "name").distinct()
    found = reduce(DataFrame.unionByName, rows).persist()
    try:
        total = found.count()
        first = found.join(names, found.topic == names.code, "left")
        ordered = first.orderBy("name", "partition", "replica", "field").limit(most)
        shown = ordered.select("name", "partition", "replica", "field", "a", "b").collect()
        parting = _first_parting(a, b, names, is_whole=is_whole)
        return Differences(
            partitions.count(),
            replicas,
            total,
            [Difference(*row) for row in shown],
            parting,
            not_compared,
        )
    finally:
        unpersist([found])


def beside(a: DataFrame, b: DataFrame, key: Sequence[str], fields: Sequence[str]) -> DataFrame:
    """Key, and both sides' fields as the structs ``a`` and ``b``, null if absent."""
    return a.select(*key, F.struct(*fields).alias("a")).join(
        b.select(*key, F.struct(*fields).alias("b")), list(key), "full_outer"
    )


def _differing(both: DataFrame, fields: Sequence[str], *, is_whole: bool) -> DataFrame:
    """topic, partition, replica, field, a, b: a row for each field that differs."""
    in_both = F.col("a").isNotNull() & F.col("b").isNotNull()
    found = [_found("existence", _is_there("a"), _is_there("b"), ~in_both)]
    for name in fields:
        both_say = F.col(f"a.{name}").isNotNull() & F.col(f"b.{name}").isNotNull()
        if name == "isr" and not is_whole:
            both_say &= F.col(f"a.{_VERSION}").eqNullSafe(F.col(f"b.{_VERSION}"))
        if name != "state":
            # A partition without a leadership is known to have none.
            both_say |= F.lit(is_whole)
        differs = in_both & both_say & ~F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}"))
        found.append(_found(name, _text(f"a.{name}", name), _text(f"b.{name}", name), differs))
    replica = F.col("replica") if "replica" in both.columns else F.lit(-1)
    each = both.select(
        *_PARTITION,
        replica.alias("replica"),
        F.explode(F.array_compact(F.array(*found))).alias("d"),
    )
    return each.select(*_REPLICA, "d.field", "d.a", "d.b")


def _found(field: str, a: Column, b: Column, condition: Column) -> Column:
    return F.when(condition, F.struct(F.lit(field).alias("field"), a.alias("a"), b.alias("b")))


def _is_there(side: str) -> Column:
    return F.when(F.col(side).isNotNull(), "there").otherwise("not there")


def _text(column: str, name: str) -> Column:
    if name != "isr":
        return F.col(column).cast("string")
    # Of no ISR it would make that of an empty one.
    return F.when(F.col(column).isNotNull(), F.concat_ws(",", column))


# Where they part


def _writes(events: DataFrame) -> DataFrame:
    """Each leadership that is told of, with where it stands. A new controller's snapshot tells of
    what others wrote."""
    return events.where(is_leadership() & F.col("topic").isNotNull()).select(
        *_PARTITION,
        *("leader", "leader_epoch", "isr", _VERSION, "file", "line", "place", "t_ms"),
        is_kind(Kind.PARTITION_SNAPSHOT).alias("is_snapshot"),
    )


def _first_parting(a: Side, b: Side, names: DataFrame, *, is_whole: bool) -> Parting | None:
    """The earliest write that is on one side alone; None if there is none, or one is a tree.

    A side that need not tell of every write is compared by leader epochs alone.
    """
    if a.writes is None or b.writes is None:
        return None
    key = [*_PARTITION, "leader_epoch", "leader", *(("isr", _VERSION) if is_whole else ())]
    # A leadership without a version is none that was stored.
    stored = F.col(_VERSION).isNotNull() | F.lit(not is_whole)
    a_writes, b_writes = a.writes.where(stored), b.writes.where(stored)
    alone = _alone(a_writes, b_writes, key, "A").unionByName(_alone(b_writes, a_writes, key, "B"))
    first = alone.orderBy("t_ms", "place").limit(1)
    files = a.names.unionByName(b.names).where("domain = 'file'").distinct()
    rows = (
        first.join(names, first.topic == names.code, "left")
        .withColumnRenamed("name", "topic_name")
        .drop("code")
        .join(files, first.file == files.code, "left")
        .select("side", "name", "line", "t_ms", "topic_name", "partition", *LEADERSHIP)
        .collect()
    )
    return Parting(*rows[0]) if rows else None


def _alone(ours: DataFrame, theirs: DataFrame, key: Sequence[str], side: str) -> DataFrame:
    other = theirs.select(*(F.col(name).alias(f"_{name}") for name in key)).distinct()
    equal = reduce(Column.__and__, (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key))
    written = ours.where(~F.col("is_snapshot"))
    return written.join(other, equal, "left_anti").withColumn("side", F.lit(side))
