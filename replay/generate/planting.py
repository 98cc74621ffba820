"""Plants anomalies in a history, each in a separate partition, while the cluster is healthy.

An anomaly of the cluster is recorded (recording.py). An anomaly of the log is a change of recorded
rows: one is lost, repeated, illegal, or written by another controller. The rows follow a controller
failover, after which every partition is in the same state as the recorded one. They contain the
number of the anomaly (``mark``), so that the writer can record their files and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from klamm.cluster.journal import JournalRow, Kind
from klamm.replay.generate.options import REPLICATION_FACTOR, Planted
from klamm.replay.generate.recording import GeneratedRecording
from klamm.replay.generate.rows import DAMAGED, LOST, REPEATED, WRITTEN, RowBlock, in_words
from klamm.replay.generate.tiling import PAUSE_MS, Player
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState


class Anomaly(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A planted anomaly, with values of the first row that shows it.

    - ``replica``: for FLAPPING, the replica that leaves the ISR.
    - ``begin_ms``, ``end_ms``: times of the first and last row that show it.
    - ``places``: file and line of these rows, added when they are written.
    """

    kind: Planted
    epoch: int
    controller: int
    topic: str | None = None
    partition: int = -1
    replica: int = -1
    key_seq: int = 0
    reassignment: str | None = None
    begin_ms: int
    end_ms: int
    places: list[dict[str, str | int]]


class _Line(NamedTuple):
    """A row to plant. ``shows``: whether it shows the anomaly."""

    row: JournalRow
    shows: bool = False
    fate: int = WRITTEN


class _Recorded(NamedTuple):
    """Rows of GeneratedRecording.anomaly: of a failover, and of what happened after it."""

    elected: JournalRow
    snapshot: JournalRow
    replicas: list[JournalRow]
    rows: list[JournalRow]


class Planting:
    """Plants anomalies, and lists them in ``found``. The mark of an anomaly is its index there."""

    def __init__(self, player: Player, recording: GeneratedRecording) -> None:
        self.found: list[Anomaly] = []
        self._player = player
        self._recording = recording
        self._recorded: dict[Planted, list[JournalRow]] = {}

    def plant(self, kind: Planted, p: int) -> RowBlock:
        """Return the rows of an anomaly in one of the partitions Layout.planted."""
        shows = _SHOWS.get(kind)
        recorded = self._record(Planted.FLAPPING if shows is None else kind)
        lines = (
            [_Line(row, shows(row)) for row in recorded.rows]
            if shows is not None
            else _CHANGES[kind](self, recorded)
        )
        block = self._player.insert(
            [line.row for line in lines],
            p,
            recorded.snapshot,
            fate=np.array([line.fate for line in lines], np.int8),
            mark=np.array([len(self.found) if line.shows else -1 for line in lines], np.int32),
        )
        self._player.t_ms += PAUSE_MS
        shown = [found.row for found in in_words(self._player.layout, block) if found.mark >= 0]
        self.found.append(_anomaly(kind, shown[0], shown[-1]))
        return block

    def _record(self, kind: Planted) -> _Recorded:
        if kind not in self._recorded:
            self._recorded[kind] = self._recording.anomaly(kind)
        controller = self._player.controller
        rows = [replace(row, controller=controller) for row in self._recorded[kind]]
        first = 2 + REPLICATION_FACTOR
        return _Recorded(rows[0], rows[1], rows[2:first], rows[first:])

    # Changes of the rows of a replica that leaves the ISR and rejoins it

    def _illegal(self, recorded: _Recorded) -> list[_Line]:
        follower = recorded.replicas[-1]
        if len(self.found) % 2:
            to = ReplicaState.DELETION_SUCCESSFUL.value
            return [_Line(replace(follower, to=to, key_seq=2), shows=True)]
        from_, to = PartitionState.ONLINE.value, PartitionState.NEW.value
        kind = Kind.PARTITION_TRANSITION.value
        row = replace(follower, kind=kind, replica=-1, from_=from_, to=to, key_seq=2)
        return [_Line(row, shows=True)]

    def _gap(self, recorded: _Recorded) -> list[_Line]:
        event, shrink, rejoining, expand = recorded.rows[:4]
        lost = _Line(shrink, fate=LOST)
        return [_Line(event), lost, _Line(rejoining), _Line(expand, shows=True)]

    def _duplicate(self, recorded: _Recorded) -> list[_Line]:
        lines = list(map(_Line, recorded.rows[:4]))
        lines.insert(2, _Line(recorded.rows[1], shows=True, fate=REPEATED))
        return lines

    def _two_controllers(self, recorded: _Recorded) -> list[_Line]:
        other = self._player.controller % self._player.layout.brokers + 1
        rows = (recorded.elected, recorded.replicas[0])
        return [_Line(replace(row, controller=other), shows=True) for row in rows]

    def _late_write(self, recorded: _Recorded) -> list[_Line]:
        """The previous controller removes the replica, instead of the leader."""
        _, shrink, rejoining, expand = recorded.rows[:4]
        (replica,) = {*(shrink.prev_isr or ())} - {*(shrink.isr or ())}
        before = self._player.played[-2].rows
        last = before[-1]
        key = (shrink.topic, shrink.partition, replica, last.epoch)
        late = replace(
            shrink,
            kind=Kind.ISR_REMOVED.value,
            controller=last.controller,
            epoch=shrink.epoch - 1,
            replica=replica,
            key_seq=1
            + max(
                row.key_seq
                for row in before
                if (row.topic, row.partition, row.replica, row.epoch) == key
            ),
            leader_epoch=(shrink.leader_epoch or 0) + 1,
        )
        leader_epoch, key_seq = late.leader_epoch, expand.key_seq - 1
        expand = replace(expand, leader_epoch=leader_epoch, key_seq=key_seq)
        return [_Line(late, shows=True), _Line(rejoining), _Line(expand)]

    def _damaged(self, recorded: _Recorded) -> list[_Line]:
        return [_Line(recorded.elected, shows=True, fate=DAMAGED)]


_CHANGES: Final[Mapping[Planted, Callable[[Planting, _Recorded], list[_Line]]]] = {
    Planted.ILLEGAL: Planting._illegal,
    Planted.GAP: Planting._gap,
    Planted.DUPLICATE: Planting._duplicate,
    Planted.TWO_CONTROLLERS: Planting._two_controllers,
    Planted.LATE_WRITE: Planting._late_write,
    Planted.DAMAGED: Planting._damaged,
}
_SHOWS: Final[Mapping[Planted, Callable[[JournalRow], bool]]] = {
    Planted.UNCLEAN: lambda row: row.prev_isr is not None and row.leader not in row.prev_isr,
    Planted.LEADERLESS: lambda row: (
        row.kind == Kind.PARTITION_TRANSITION.value
        and PartitionState.OFFLINE.value in (row.from_, row.to)
    ),
    Planted.STUCK: lambda row: row.to == Phase.U1.value,
    Planted.FLAPPING: lambda row: row.kind == Kind.ISR_CHANGED.value,
}
"""For each anomaly that is recorded: whether a row shows it."""


def _anomaly(kind: Planted, first: JournalRow, last: JournalRow) -> Anomaly:
    replica = first.replica
    if kind is Planted.FLAPPING:
        (replica,) = {*(first.prev_isr or ())} - {*(first.isr or ())}
    return Anomaly(
        kind=kind,
        epoch=first.epoch,
        controller=first.controller,
        topic=first.topic,
        partition=first.partition,
        replica=replica,
        key_seq=first.key_seq,
        reassignment=first.reassignment_id,
        begin_ms=first.t_ms,
        end_ms=last.t_ms,
        places=[],
    )
