"""What a journal says the cluster ended with, and where ZooKeeper has something else.

A rebuild from rows alone: it never asks a controller. Each key's last row is found by (epoch, seq)
in a hash aggregation over whole numbers, so no key's history is sorted or brought together. Mirrors
nothing of Kafka, whose logs do not suffice for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cluster.journal import Kind
from cluster.types import NO_LEADER
from replay.journal_table import read_journals, readable, unreadable_lines
from statemachines.partition_state import PartitionState
from statemachines.replica_state import ReplicaState

MOST_SHOWN: Final = 20
_SEQ_BITS: Final = 40
_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = ("topic", "partition", "replica")
_NUMBERS: Final = ("leader", "leader_epoch", "zk_version")
_PARTITION_STATES: Final = (Kind.PARTITION_SNAPSHOT, Kind.PARTITION_TRANSITION)
_LEADERSHIPS: Final = (
    *_PARTITION_STATES,
    Kind.ISR_CHANGED,
    Kind.ISR_REMOVED,
    Kind.LEADER_EPOCH_BUMPED,
)
_STORED_SCHEMA: Final = (
    "topic string, partition bigint, replicas array<bigint>, leader bigint, leader_epoch bigint, "
    "isr array<bigint>, zk_version bigint"
)


class StoredPartition(NamedTuple):
    """A partition as ZooKeeper has it: its assignment, and its state znode or four times None."""

    topic: str
    partition: int
    replicas: Sequence[int]
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Sequence[int] | None = None
    zk_version: int | None = None


@dataclass(frozen=True, slots=True)
class FinalStates:
    """What is left at the end of a journal, as tables that are not computed yet.

    ``partitions``: topic, partition, state, leader, leader_epoch, isr, zk_version; leadership is
    null where there never was a leader. ``replicas``: topic, partition, replica, state. ``lines``:
    the journal with what cannot be read.
    """

    partitions: DataFrame
    replicas: DataFrame
    lines: DataFrame


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many keys were compared, and one line for each that differs, up to ``MOST_SHOWN``."""

    partitions: int
    replicas: int
    differing: int
    lines: list[str]

    @property
    def agrees(self) -> bool:
        """True if nothing differs and every line of the journal could be read."""
        return not self.lines


def rebuild(spark: SparkSession, journal_paths: Sequence[Path]) -> FinalStates:
    """The final state of every partition and replica by the journals of one cluster."""
    lines = read_journals(spark, journal_paths)
    rows = readable(lines).withColumn(
        "place", F.shiftleft("epoch", _SEQ_BITS).bitwiseOR(F.col("seq"))
    )
    return FinalStates(_final_partitions(rows), _final_replicas(rows), lines)


def compare(
    spark: SparkSession,
    final: FinalStates,
    stored: Iterable[StoredPartition],
    live_brokers: Iterable[int],
) -> Comparison:
    """What the journal ended with beside what ZooKeeper has at that moment.

    A partition is expected Online with a leader, Offline with leader -1, New without a state
    znode; a replica Online on a live broker. On a dead one it may be either, as ZooKeeper cannot
    tell: Kafka puts a replica Online when its topic is created, whether its broker lives or not.
    """
    expected = spark.createDataFrame(list(stored), _STORED_SCHEMA).withColumn(
        "state", _state_by_leader()
    )
    fields = ("state", "leader", "leader_epoch", "isr", "zk_version")
    partitions = _beside(final.partitions, expected, _PARTITION, fields).persist()
    is_live = F.col("replica").isin([int(broker_id) for broker_id in live_brokers])
    expected_replicas = expected.select(
        *_PARTITION, F.explode("replicas").alias("replica")
    ).withColumn("state", F.when(is_live, ReplicaState.ONLINE.value))
    on_live = final.replicas.withColumn("state", F.when(is_live, F.col("state")))
    replicas = _beside(on_live, expected_replicas, _REPLICA, ("state",)).persist()
    unreadable = unreadable_lines(final.lines, MOST_SHOWN)
    try:
        lines = [
            *(f"journal: cannot read {line}" for line in unreadable),
            *(f"{_name(row)}: {_differences(row)}" for row in _differing(partitions)),
            *(f"{_name(row)}: {_differences(row)}" for row in _differing(replicas)),
        ]
        differing = sum(table.filter(_differs()).count() for table in (partitions, replicas))
        return Comparison(
            partitions.count(), replicas.count(), differing + len(unreadable), lines[:MOST_SHOWN]
        )
    finally:
        partitions.unpersist()
        replicas.unpersist()


# The last row of each key


def _final_partitions(rows: DataFrame) -> DataFrame:
    state_place = F.when(F.col("kind").isin(*_PARTITION_STATES), F.col("place"))
    place = F.when(F.col("kind").isin(*_LEADERSHIPS) & F.col("leader").isNotNull(), F.col("place"))
    last = rows.groupBy(*_PARTITION).agg(
        F.max_by(_code("to", PartitionState), state_place).alias("code"),
        F.max(place).alias("isr_place"),
        *(F.max_by(name, place).alias(name) for name in _NUMBERS),
    )
    last = last.filter(_exists("code", PartitionState))
    # An ISR does not fit a hash aggregation's fixed-width buffer: it is fetched by its row.
    isrs = rows.filter(F.col("isr").isNotNull()).select(
        *(F.col(name).alias(f"isr_{name}") for name in _PARTITION),
        F.col("place").alias("isr_row"),
        "isr",
    )
    of_that_row = (
        (F.col("isr_place") == F.col("isr_row"))
        & (F.col("isr_topic") == F.col("topic"))
        & (F.col("isr_partition") == F.col("partition"))
    )
    return last.join(isrs, of_that_row, "left").select(
        *_PARTITION,
        _decode("code", PartitionState).alias("state"),
        "leader",
        "leader_epoch",
        "isr",
        "zk_version",
    )


def _final_replicas(rows: DataFrame) -> DataFrame:
    return (
        rows.filter(F.col("kind") == Kind.REPLICA_TRANSITION)
        .groupBy(*_REPLICA)
        .agg(F.max_by(_code("to", ReplicaState), F.col("place")).alias("code"))
        .filter(_exists("code", ReplicaState))
        .select(*_REPLICA, _decode("code", ReplicaState).alias("state"))
    )


def _exists(column: str, states: type[PartitionState] | type[ReplicaState]) -> Column:
    """True for a key that has a state and was not deleted since."""
    gone = list(states).index(states.NON_EXISTENT) + 1
    return F.col(column) != gone


def _code(column: str, states: type[Enum]) -> Column:
    """A state's number, counted from 1; 0 for a name that is none."""
    names = F.array(*(F.lit(state.value) for state in states))
    return F.array_position(names, F.col(column))


def _decode(column: str, states: type[Enum]) -> Column:
    names = F.array(*(F.lit(state.value) for state in states))
    return F.when(F.col(column) > 0, F.element_at(names, F.col(column).cast("int")))


# The comparison


def _state_by_leader() -> Column:
    leader = F.col("leader")
    return (
        F.when(leader.isNull(), PartitionState.NEW.value)
        .when(leader == NO_LEADER, PartitionState.OFFLINE.value)
        .otherwise(PartitionState.ONLINE.value)
    )


def _beside(
    ours: DataFrame, theirs: DataFrame, key: Sequence[str], fields: Sequence[str]
) -> DataFrame:
    """Key, and both sides' fields as the structs ``journal`` and ``zookeeper``, null if absent."""
    return ours.select(*key, F.struct(*fields).alias("journal")).join(
        theirs.select(*key, F.struct(*fields).alias("zookeeper")), list(key), "full_outer"
    )


def _differs() -> Column:
    return ~F.col("journal").eqNullSafe(F.col("zookeeper"))


def _differing(beside: DataFrame) -> list[Row]:
    return beside.filter(_differs()).limit(MOST_SHOWN).collect()


def _name(row: Row) -> str:
    replica = f" on broker {row.replica}" if "replica" in row else ""
    return f"{row.topic}-{row.partition}{replica}"


def _differences(row: Row) -> str:
    if row.journal is None:
        return "the journal knows nothing of it"
    if row.zookeeper is None:
        return f"the journal ends with {_text(row.journal)}, ZooKeeper does not have it"
    names = [name for name in row.journal.asDict() if row.journal[name] != row.zookeeper[name]]
    parts = (
        f"{name} {row.journal[name]} in the journal, {row.zookeeper[name]} in ZooKeeper"
        for name in names
    )
    return "; ".join(parts)


def _text(fields: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.asDict().items())
