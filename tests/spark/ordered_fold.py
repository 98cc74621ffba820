"""The replay as an exact fold over an event table: each partition's rows in order, by the product's
own rules.

An engine only sorts; the state machines run here: an illegal event changes nothing. It also says
where rows do not follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from klamm.cluster.journal import Kind
from klamm.replay.engines import Engine, Row, rows
from klamm.replay.event_schema import LEADERSHIP_DELETED, STATE_CODES
from klamm.replay.questions.columns import LEADERSHIPS, PARTITION, kind_code
from klamm.statemachines import partition_state, replica_state

_COLUMNS: Final = (
    f"{PARTITION}, place, replica, kind, epoch, from_state, to_state, leader, leader_epoch, isr, "
    "zk_version"
)
_LEGAL: Final = frozenset(
    (STATE_CODES[before.value], STATE_CODES[target.value])
    for table in (partition_state.PREVIOUS, replica_state.PREVIOUS)
    for target, sources in table.items()
    for before in sources
)
_SNAPSHOT: Final = kind_code(Kind.PARTITION_SNAPSHOT)
_PARTITION: Final = kind_code(Kind.PARTITION_TRANSITION)
_REPLICA: Final = kind_code(Kind.REPLICA_TRANSITION)
_DELETED: Final = kind_code(LEADERSHIP_DELETED)
_GONE: Final = STATE_CODES[partition_state.PartitionState.NON_EXISTENT.value]
_LEADERSHIP_CODES: Final = frozenset(map(kind_code, LEADERSHIPS))
_KEY: Final = tuple(PARTITION.split(", "))


def ordered_fold(engine: Engine, events: str) -> list[Row]:
    """The end of every partition (replica -1) and replica.

    ``breaks``: legal rows that do not come from the state that the row before them led to, in the
    same epoch.
    """
    ordered = f"SELECT {_COLUMNS} FROM {events} WHERE topic IS NOT NULL ORDER BY {PARTITION}, place"
    found: list[Row] = []
    for key, some in groupby(rows(engine, ordered), lambda row: tuple(row[n] for n in _KEY)):
        partition = _Partition()
        for row in some:
            partition.apply(row)
        found += partition.told(dict(zip(_KEY, key, strict=True)))
    return found


@dataclass(slots=True)
class _State:
    """A partition's or replica's state machine."""

    state: int | None = None
    place: int | None = None
    epoch: int = -1
    rows: int = 0
    illegal: int = 0
    breaks: int = 0

    def apply(self, row: Row, is_snapshot: bool) -> None:
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

    def apply(self, row: Row) -> None:
        kind = row["kind"]
        if kind == _REPLICA:
            self.replicas.setdefault(row["replica"], _State()).apply(row, is_snapshot=False)
        elif kind in (_SNAPSHOT, _PARTITION):
            self.own.apply(row, is_snapshot=kind == _SNAPSHOT)
        is_legal = (row["from_state"], row["to_state"]) in _LEGAL
        ends = kind == _PARTITION and is_legal and _GONE in (row["from_state"], row["to_state"])
        if kind == _DELETED or ends:
            self.leadership = (None, None, None, None)
        elif kind in _LEADERSHIP_CODES and row["leader"] is not None:
            self.leadership = (row["leader"], row["leader_epoch"], row["isr"], row["zk_version"])

    def told(self, key: Row) -> Iterator[Row]:
        for replica, at in ((-1, self.own), *sorted(self.replicas.items())):
            leadership = self.leadership if replica == -1 else (None, None, None, None)
            names = ("leader", "leader_epoch", "isr", "zk_version")
            yield {
                **key,
                "replica": replica,
                "state": at.state,
                **dict(zip(names, leadership, strict=True)),
                "rows": at.rows,
                "illegal": at.illegal,
                "breaks": at.breaks,
            }
