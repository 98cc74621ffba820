"""Comparison of two logs, or of a log with ZooKeeper: final states and the first divergence.

Fields that a source cannot know are not compared. Both sides are keyed by the hash of the topic
name, so that names are looked up only for the differences that are shown.
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
"""Sources that do not record every write of a state znode."""
_STORED_SCHEMA: Final = (
    "name string, partition int, leader int, leader_epoch int, isr array<int>, zk_version int"
)
_VERSION: Final = "zk_version"
_PARTITION_FIELDS: Final = ("state", "leader", "leader_epoch", "isr")


class StoredState(NamedTuple):
    """A partition in ZooKeeper with its state znode; all fields of a missing znode are None."""

    topic: str
    partition: int
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Sequence[int] | None = None
    zk_version: int | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sides of a comparison: a log, or the znodes of a ZooKeeper.

    ``partitions``: topic, partition, state, leader, leader_epoch, isr, zk_version; states by name.
    ``replicas``: topic, partition, replica, state; None if the side does not know them.
    ``writes``: written leaderships with their places; None for a ZooKeeper. ``is_whole``: the side
    records every write of a state znode.
    """

    name: str
    what: str
    partitions: DataFrame
    replicas: DataFrame | None
    writes: DataFrame | None
    names: DataFrame
    is_whole: bool


class Difference(NamedTuple):
    """A field that differs between A and B. ``replica`` -1: a field of the partition."""

    topic: str
    partition: int
    replica: int
    field: str
    a: str | None
    b: str | None


class Divergence(NamedTuple):
    """The first divergence: the earliest leadership that only one side has, "A" or "B"."""

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
    """Result of a comparison.

    The numbers of compared partitions and replicas (None: not compared), the number of differences
    with the first of them, the first divergence, and descriptions of what was not compared.
    """

    partitions: int
    replicas: int | None
    total: int
    shown: list[Difference]
    divergence: Divergence | None
    not_compared: list[str]


def side_of(
    table: EventTable, name: str, source: str | None = None, run: str | None = None
) -> Side:
    """Return an event table as a side; ``source`` and ``run`` select one of several.

    Raises UsageError if the selection still has several kinds of logs or several clusters.
    """
    held = {summary.source: summary for summary in table.manifest.sources}
    (summary, *others) = [held[source]] if source in held else held.values()
    if others:
        raise UsageError(
            f"{name} has several sources: {', '.join(held)}",
            hint=f"select one, for example --source {summary.source}",
        )
    events = table.events.where(F.col("source") == code_of(summary.source, SOURCES))
    runs = {covered.run: covered for covered in summary.runs}
    what, rows = summary.source, summary.rows
    if run in runs:
        events = events.where(F.col("run") == F.xxhash64(F.lit(run)))
        what, rows = f"{summary.source} of {run}", runs[run].rows
    elif summary.source not in _PARTIAL and len(runs) > 1:
        raise UsageError(
            f"{name} has several runs: {', '.join(runs)}",
            hint=f"select one, for example --run {next(iter(runs))}",
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
    """Return the state znodes of a live or dumped ZooKeeper as a side."""
    rows = [(at.topic, *at[1:]) for at in stored]
    states = spark.createDataFrame(rows, _STORED_SCHEMA).withColumn("topic", F.xxhash64("name"))
    names = states.select(F.lit("topic").alias("domain"), F.col("topic").alias("code"), "name")
    partitions = states.select(*_PARTITION, state_by_leader().alias("state"), *LEADERSHIP)
    return Side(name, what, partitions, None, None, names.distinct(), True)


def state_by_leader() -> Column:
    """Return the state that a partition should have by its state znode; a null leader: no znode."""
    leader = F.col("leader")
    return (
        F.when(leader.isNull(), PartitionState.NEW.value)
        .when(leader == NO_LEADER, PartitionState.OFFLINE.value)
        .otherwise(PartitionState.ONLINE.value)
    )


def compare(a: Side, b: Side, most: int = MOST_SHOWN) -> Differences:
    """Compare the final states of two sides, and find the first leadership that only one has."""
    not_compared = []
    is_whole = a.is_whole and b.is_whole
    if not is_whole:
        partial = a if not a.is_whole else b
        not_compared.append(
            f"ISRs with different znode versions: {partial.name} does not record all ISR changes"
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
        divergence = _first_divergence(a, b, names, is_whole=is_whole)
        return Differences(
            partitions.count(),
            replicas,
            total,
            [Difference(*row) for row in shown],
            divergence,
            not_compared,
        )
    finally:
        unpersist([found])


def beside(a: DataFrame, b: DataFrame, key: Sequence[str], fields: Sequence[str]) -> DataFrame:
    """Join two tables by key; ``a`` and ``b`` are structs of the fields, null if absent."""
    return a.select(*key, F.struct(*fields).alias("a")).join(
        b.select(*key, F.struct(*fields).alias("b")), list(key), "full_outer"
    )


def _differing(both: DataFrame, fields: Sequence[str], *, is_whole: bool) -> DataFrame:
    """Return a row for each field that differs: topic, partition, replica, field, a, b."""
    in_both = F.col("a").isNotNull() & F.col("b").isNotNull()
    found = [_found("existence", _is_there("a"), _is_there("b"), ~in_both)]
    for name in fields:
        both_say = F.col(f"a.{name}").isNotNull() & F.col(f"b.{name}").isNotNull()
        if name == "isr" and not is_whole:
            both_say &= F.col(f"a.{_VERSION}").eqNullSafe(F.col(f"b.{_VERSION}"))
        if name != "state":
            # In complete sources a null means that the partition has no leadership.
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
    return F.when(F.col(side).isNotNull(), "present").otherwise("absent")


def _text(column: str, name: str) -> Column:
    if name != "isr":
        return F.col(column).cast("string")
    # concat_ws would turn a null ISR into the text of an empty one.
    return F.when(F.col(column).isNotNull(), F.concat_ws(",", column))


# The first divergence


def _writes(events: DataFrame) -> DataFrame:
    """Return each recorded leadership with its place.

    ``is_snapshot``: read by a new controller, and written earlier.
    """
    return events.where(is_leadership() & F.col("topic").isNotNull()).select(
        *_PARTITION,
        *("leader", "leader_epoch", "isr", _VERSION, "file", "line", "place", "t_ms"),
        is_kind(Kind.PARTITION_SNAPSHOT).alias("is_snapshot"),
    )


def _first_divergence(a: Side, b: Side, names: DataFrame, *, is_whole: bool) -> Divergence | None:
    """Return the earliest write that only one side has; None if all agree, or for a ZooKeeper.

    If a side does not record every write, only leaders and leader epochs are compared.
    """
    if a.writes is None or b.writes is None:
        return None
    key = [*_PARTITION, "leader_epoch", "leader", *(("isr", _VERSION) if is_whole else ())]
    # A leadership without a znode version was never stored.
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
    return Divergence(*rows[0]) if rows else None


def _alone(ours: DataFrame, theirs: DataFrame, key: Sequence[str], side: str) -> DataFrame:
    other = theirs.select(*(F.col(name).alias(f"_{name}") for name in key)).distinct()
    equal = reduce(Column.__and__, (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key))
    written = ours.where(~F.col("is_snapshot"))
    return written.join(other, equal, "left_anti").withColumn("side", F.lit(side))
