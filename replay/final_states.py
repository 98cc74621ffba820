"""Comparison of a journal's final states with ZooKeeper's contents when the journal ended.

States are rebuilt from the journal's rows alone, without a controller. Kafka has no counterpart,
because its logs are not sufficient to rebuild states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from klamm.replay.diff import beside, state_by_leader
from klamm.replay.engines import Row, row, rows
from klamm.replay.event_table import EventTable
from klamm.replay.questions.final_states import final_tables
from klamm.statemachines.replica_state import ReplicaState

MOST_SHOWN: Final = 20
_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = ("topic", "partition", "replica")
_STORED_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("isr", pa.list_(pa.int32())),
        ("zk_version", pa.int32()),
    ]
)
_FIELDS: Final = ("state", "leader", "leader_epoch", "isr", "zk_version")


class StoredPartition(NamedTuple):
    """A partition in ZooKeeper: its replicas, and the content and version of its state znode.

    ``leader`` and the fields after it are None if the partition has no state znode.
    """

    topic: str
    partition: int
    replicas: Sequence[int]
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Sequence[int] | None = None
    zk_version: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing a journal with ZooKeeper.

    ``partitions``, ``replicas``: how many were compared. ``differing``: number of differences and
    unreadable lines. ``lines`` describes up to ``MOST_SHOWN`` of them.
    """

    partitions: int
    replicas: int
    differing: int
    lines: list[str]

    @property
    def agrees(self) -> bool:
        """Whether there are no differences, and every line of the journal could be read."""
        return not self.lines


def compare(
    table: EventTable, stored: Iterable[StoredPartition], live_brokers: Iterable[int]
) -> Comparison:
    """Compare the final states in a cluster's journal with ZooKeeper's contents at the same time.

    A partition must be Online if it has a leader, Offline if its leader is -1, and New if it has no
    state znode. A replica on a live broker must be Online. A replica on a dead broker may be Online
    or Offline, because Kafka sets the replicas of a new topic Online even on dead brokers.
    """
    engine = table.engine
    in_zookeeper = [dict(zip(_STORED_SCHEMA.names, at, strict=True)) for at in stored]
    expected = engine.table(pa.Table.from_pylist(in_zookeeper, _STORED_SCHEMA))
    ids = ", ".join(map(str, live_brokers)) or "-1"
    of_live = f"CASE WHEN replica IN ({ids}) THEN {{}} END AS state"
    final_partitions, final_replicas = (
        engine.view(table.in_words(f"SELECT * FROM {found}"))
        for found in final_tables(engine, table.events)
    )
    partitions = beside(
        final_partitions,
        f"(SELECT *, {state_by_leader()} AS state FROM {expected})",
        _PARTITION,
        _FIELDS,
    )
    replicas = beside(
        f"(SELECT topic, partition, replica, {of_live.format('state')} FROM {final_replicas})",
        f"(SELECT topic, partition, replica, {of_live.format(_ONLINE)} "
        f"FROM (SELECT topic, partition, unnest(replicas) AS replica FROM {expected}))",
        _REPLICA,
        ("state",),
    )
    unreadable = rows(
        engine, f"SELECT * FROM {table.damaged} ORDER BY file, line LIMIT {MOST_SHOWN}"
    )
    lines = [f"{at['file']}:{at['line']}: {at['problem']}: {at['text']}" for at in unreadable]
    counts, differing = [], len(unreadable)
    for sql, fields in ((partitions, _FIELDS), (replicas, ("state",))):
        differs = _differs(fields)
        count = f"count(*) AS n, count(*) FILTER (WHERE {differs}) AS differing"
        found = row(engine, f"SELECT {count} FROM ({sql})")
        counts.append(found["n"])
        differing += found["differing"]
        some = rows(engine, f"SELECT * FROM ({sql}) WHERE {differs} LIMIT {MOST_SHOWN}")
        lines += [f"{_name(at)}: {_differences(at, fields)}" for at in some]
    return Comparison(counts[0], counts[1], differing, lines[:MOST_SHOWN])


_ONLINE: Final = f"'{ReplicaState.ONLINE.value}'"


def _differs(fields: Sequence[str]) -> str:
    return " OR ".join(
        ("a IS NULL", "b IS NULL", *(f"a_{name} IS DISTINCT FROM b_{name}" for name in fields))
    )


def _name(at: Row) -> str:
    replica = f" on broker {at['replica']}" if "replica" in at else ""
    return f"{at['topic']}-{at['partition']}{replica}"


def _differences(at: Row, fields: Sequence[str]) -> str:
    if at["a"] is None:
        return "missing from the journal"
    if at["b"] is None:
        words = ", ".join(f"{name} {at[f'a_{name}']}" for name in fields)
        return f"missing from ZooKeeper; its final state in the journal is {words}"
    return "; ".join(
        f"{name} {at[f'a_{name}']} in the journal, {at[f'b_{name}']} in ZooKeeper"
        for name in fields
        if at[f"a_{name}"] != at[f"b_{name}"]
    )
