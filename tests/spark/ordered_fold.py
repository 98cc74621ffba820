"""The replay as an exact fold on Spark: each key's rows in order, through the product's own rules.

Rows of a partition are brought together and sorted, and a Python worker runs the state machines
over them: an illegal event changes nothing. Slower than the passes of replay.run, and their oracle
on logs that do not fit in one process; it also says where rows do not follow one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import LEADERSHIP_DELETED, STATE_CODES
from klamm.replay.questions.columns import LEADERSHIPS, PARTITION, kind_code
from klamm.statemachines import partition_state, replica_state

FOLDED_SCHEMA: Final = (
    "source tinyint, run bigint, topic bigint, partition int, replica int, state tinyint, "
    "state_place bigint, leader int, leader_epoch int, isr array<int>, zk_version int, "
    "rows bigint, illegal bigint, breaks bigint"
)
"""A row a partition (replica -1) or replica. ``breaks``: legal rows that do not come from the
state that the row before them led to, in the same epoch."""

_COLUMNS: Final = (
    *PARTITION,
    "place",
    "replica",
    "kind",
    "epoch",
    "from_state",
    "to_state",
    "leader",
    "leader_epoch",
    "isr",
    "zk_version",
)
_LEGAL: Final = frozenset(
    (STATE_CODES[before.value], STATE_CODES[target.value])
    for table in (partition_state.VALID_PREVIOUS, replica_state.VALID_PREVIOUS)
    for target, sources in table.items()
    for before in sources
)
_SNAPSHOT: Final = kind_code(Kind.PARTITION_SNAPSHOT)
_PARTITION: Final = kind_code(Kind.PARTITION_TRANSITION)
_REPLICA: Final = kind_code(Kind.REPLICA_TRANSITION)
_DELETED: Final = kind_code(LEADERSHIP_DELETED)
_LEADERSHIP_CODES: Final = frozenset(map(kind_code, LEADERSHIPS))
_SHUFFLE_BY: Final = PARTITION
_Row = dict[str, Any]


def ordered_fold(events: DataFrame) -> DataFrame:
    """The end of every partition and replica by FOLDED_SCHEMA; one shuffle and one sort."""
    return (
        events.where("topic IS NOT NULL")
        .select(*_COLUMNS)
        .repartition(*_SHUFFLE_BY)
        .sortWithinPartitions(*PARTITION, "place")
        .mapInArrow(_fold_batches, FOLDED_SCHEMA)
    )


@dataclass(slots=True)
class _State:
    """A partition's or replica's state machine."""

    state: int | None = None
    place: int | None = None
    epoch: int = -1
    rows: int = 0
    illegal: int = 0
    breaks: int = 0

    def apply(self, row: _Row, is_snapshot: bool) -> None:
        self.rows += 1
        before = row["from_state"]
        if not is_snapshot:
            if before and (before, row["to_state"]) not in _LEGAL:
                self.illegal += 1
                return
            follows = self.epoch != row["epoch"] or not before or before == self.state
            self.breaks += not follows
        self.state, self.place, self.epoch = row["to_state"], row["place"], row["epoch"]


@dataclass(slots=True)
class _Partition:
    own: _State = field(default_factory=_State)
    replicas: dict[int, _State] = field(default_factory=dict)
    leadership: tuple[Any, ...] = (None, None, None, None)

    def apply(self, row: _Row) -> None:
        kind = row["kind"]
        if kind == _REPLICA:
            self.replicas.setdefault(row["replica"], _State()).apply(row, is_snapshot=False)
        elif kind in (_SNAPSHOT, _PARTITION):
            self.own.apply(row, is_snapshot=kind == _SNAPSHOT)
        if kind == _DELETED:
            self.leadership = (None, None, None, None)
        elif kind in _LEADERSHIP_CODES and row["leader"] is not None:
            self.leadership = (row["leader"], row["leader_epoch"], row["isr"], row["zk_version"])

    def told(self, key: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        for replica, at in ((-1, self.own), *sorted(self.replicas.items())):
            leadership = self.leadership if replica == -1 else (None, None, None, None)
            counts = (at.rows, at.illegal, at.breaks)
            yield (*key, replica, at.state, at.place, *leadership, *counts)


def _fold_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One batch out for each that comes in, and one for what the last left."""
    key: tuple[Any, ...] | None = None
    partition = _Partition()
    for batch in batches:
        ended: list[tuple[Any, ...]] = []
        columns = batch.to_pydict()
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            found = tuple(row[name] for name in PARTITION)
            if found != key:
                if key is not None:
                    ended += partition.told(key)
                key, partition = found, _Partition()
            partition.apply(row)
        if ended:
            yield _batch(ended)
    if key is not None:
        yield _batch(list(partition.told(key)))


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    arrays = [
        pa.array(values, type_)
        for values, type_ in zip(zip(*rows, strict=True), _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, [column.split()[0] for column in _NAMED])


_NAMED: Final = tuple(part.strip() for part in FOLDED_SCHEMA.split(", "))
_TYPES: Final = {
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "array<int>": pa.list_(pa.int32()),
}
_ARROW: Final = tuple(_TYPES[column.split()[1]] for column in _NAMED)
