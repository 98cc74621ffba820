"""Comparison of a journal's final states with ZooKeeper's contents at that moment.

States are rebuilt from the journal's rows alone, without a controller. Kafka has no counterpart:
its logs are not sufficient for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from klamm.replay.diff import beside, state_by_leader
from klamm.replay.encode import encode
from klamm.replay.event_schema import SCHEMA_VERSION
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.questions.final_states import final_tables
from klamm.replay.sources import split
from klamm.replay.sources.journal import read_journals
from klamm.replay.spark_errors import unpersist
from klamm.statemachines.replica_state import ReplicaState

MOST_SHOWN: Final = 20
_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = ("topic", "partition", "replica")
_STORED_SCHEMA: Final = (
    "topic string, partition int, replicas array<int>, leader int, leader_epoch int, "
    "isr array<int>, zk_version int"
)


class StoredPartition(NamedTuple):
    """A partition in ZooKeeper: its assignment and its state znode (None: no state znode)."""

    topic: str
    partition: int
    replicas: Sequence[int]
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Sequence[int] | None = None
    zk_version: int | None = None


@dataclass(frozen=True, slots=True)
class FinalStates:
    """Final states of a log, as tables that are not computed yet.

    ``partitions``: topic, partition, state, leader, leader_epoch, isr, zk_version; the leadership
    is null if there never was a leader. ``replicas``: topic, partition, replica, state.
    ``damaged``: the lines that could not be read (DAMAGED_SCHEMA).
    """

    partitions: DataFrame
    replicas: DataFrame
    damaged: DataFrame


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison: the numbers of compared partitions and replicas and of differences,
    and one line for each difference, up to ``MOST_SHOWN``."""

    partitions: int
    replicas: int
    differing: int
    lines: list[str]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs and every line could be read."""
        return not self.lines


def rebuild(spark: SparkSession, journal_paths: Sequence[Path]) -> FinalStates:
    """Return the final state of every partition and replica in the journals of one cluster."""
    read = split(read_journals(spark, journal_paths))
    events, names = encode(read.events)
    return final_states(EventTable(events, names, read.damaged, Manifest(SCHEMA_VERSION, [])))


def final_states(table: EventTable) -> FinalStates:
    """Return the final states in a table with the events of one cluster."""
    partitions, replicas = map(table.in_words, final_tables(table.events))
    return FinalStates(partitions, replicas, table.damaged)


def compare(
    spark: SparkSession,
    final: FinalStates,
    stored: Iterable[StoredPartition],
    live_brokers: Iterable[int],
) -> Comparison:
    """Compare the final states of a log with ZooKeeper's contents at that moment.

    A partition is expected Online with a leader, Offline with leader -1, New without a state
    znode; a replica Online on a live broker. On a dead broker both states are accepted: ZooKeeper
    does not show which is right, because Kafka sets the replicas of a new topic Online even if
    their broker is dead.
    """
    expected = spark.createDataFrame(list(stored), _STORED_SCHEMA).withColumn(
        "state", state_by_leader()
    )
    fields = ("state", "leader", "leader_epoch", "isr", "zk_version")
    partitions = beside(final.partitions, expected, _PARTITION, fields).persist()
    is_live = F.col("replica").isin([int(broker_id) for broker_id in live_brokers])
    expected_replicas = expected.select(
        *_PARTITION, F.explode("replicas").alias("replica")
    ).withColumn("state", F.when(is_live, ReplicaState.ONLINE.value))
    on_live = final.replicas.withColumn("state", F.when(is_live, F.col("state")))
    replicas = beside(on_live, expected_replicas, _REPLICA, ("state",)).persist()
    unreadable = final.damaged.orderBy("file", "line").limit(MOST_SHOWN).collect()
    try:
        lines = [
            *(f"{at.file}:{at.line}: {at.problem}: {at.text}" for at in unreadable),
            *(f"{_name(row)}: {_differences(row)}" for row in _differing(partitions)),
            *(f"{_name(row)}: {_differences(row)}" for row in _differing(replicas)),
        ]
        differing = sum(table.filter(_differs()).count() for table in (partitions, replicas))
        return Comparison(
            partitions.count(), replicas.count(), differing + len(unreadable), lines[:MOST_SHOWN]
        )
    finally:
        unpersist([partitions, replicas])


def _differs() -> Column:
    return ~F.col("a").eqNullSafe(F.col("b"))


def _differing(beside: DataFrame) -> list[Row]:
    return beside.filter(_differs()).limit(MOST_SHOWN).collect()


def _name(row: Row) -> str:
    replica = f" on broker {row.replica}" if "replica" in row else ""
    return f"{row.topic}-{row.partition}{replica}"


def _differences(row: Row) -> str:
    if row.a is None:
        return "missing in the journal"
    if row.b is None:
        return f"missing in ZooKeeper; the journal ends with {_text(row.a)}"
    names = [name for name in row.a.asDict() if row.a[name] != row.b[name]]
    parts = (f"{name} {row.a[name]} in the journal, {row.b[name]} in ZooKeeper" for name in names)
    return "; ".join(parts)


def _text(fields: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.asDict().items())
