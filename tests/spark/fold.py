"""The replay without Spark: one plain fold over a journal's rows, in order, in this process.

An oracle for the passes of replay.run on logs that fit in memory; it knows the product's rules and
the journal's rows, and nothing of codes or of Spark. A row is judged by what it says it comes from:
an illegal one changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import NO_LEADER
from klamm.statemachines import partition_state, replica_state
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState

_LEADERSHIPS: Final = (
    Kind.PARTITION_SNAPSHOT,
    Kind.PARTITION_TRANSITION,
    Kind.ISR_REMOVED,
    Kind.ISR_CHANGED,
    Kind.LEADER_EPOCH_BUMPED,
)
_OF_REPLICAS: Final = (Kind.REPLICA_TRANSITION, Kind.REPLICA_FAILED, Kind.ISR_REMOVED)
_FAILURES: Final = (Kind.PARTITION_FAILED, Kind.REPLICA_FAILED)
_OFFLINE: Final = PartitionState.OFFLINE.value


class Line(NamedTuple):
    """A row of a journal and the line it stands on, from 1."""

    line: int
    row: JournalRow


class Partition(NamedTuple):
    """A partition of a run."""

    run: str
    topic: str
    partition: int


class History(NamedTuple):
    """What key_seq counts: a partition (replica -1) or a replica in a controller's epoch."""

    run: str
    topic: str
    partition: int
    replica: int
    controller: int
    epoch: int


class Leadership(NamedTuple):
    """What a partition's state znode was last said to hold."""

    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    zk_version: int | None = None


class Interval(NamedTuple):
    """A stay in OfflinePartition."""

    partition: Partition
    epoch: int
    start_ms: int | None
    end_ms: int | None
    ended_by: str | None


class Leaderless(NamedTuple):
    """A time in which a state znode had leader -1."""

    partition: Partition
    lost: int | None
    start_ms: int
    end_ms: int | None


class IsrMove(NamedTuple):
    """A replica's way out of an ISR or into it."""

    t_ms: int
    is_out: bool


class Burst(NamedTuple):
    """How often a replica left an ISR and came back, from the first time to the last."""

    shrinks: int
    expands: int
    start_ms: int
    end_ms: int


@dataclass(slots=True)
class Folded:
    """What the fold found. Lines are those of the rows."""

    states: dict[Partition, str] = field(default_factory=dict)
    replica_states: dict[tuple[Partition, int], str] = field(default_factory=dict)
    leaderships: dict[Partition, Leadership] = field(default_factory=dict)
    missing: dict[History, int] = field(default_factory=dict)
    copies: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    illegal: list[int] = field(default_factory=list)
    unclean: list[int] = field(default_factory=list)
    late_writes: list[int] = field(default_factory=list)
    shared_epochs: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    offline: list[Interval] = field(default_factory=list)
    offlines: Counter[Partition] = field(default_factory=Counter)
    leaderless: list[Leaderless] = field(default_factory=list)
    shrinks: Counter[tuple[Partition, int]] = field(default_factory=Counter)
    expands: Counter[tuple[Partition, int]] = field(default_factory=Counter)
    isr_moves: dict[tuple[Partition, int], list[IsrMove]] = field(default_factory=dict)
    failed: int = 0
    ready_after_ms: dict[tuple[str, int], int | None] = field(default_factory=dict)


def fold(lines: Iterable[Line]) -> Folded:
    """What a run's journals say, taken in the order of epochs and ``seq``."""
    return _Fold().run(list(lines))


def worst_burst(moves: Iterable[IsrMove], flaps: int, window_ms: int) -> Burst | None:
    """Of the windows with ``flaps`` moves out and in, that with most; they begin every half."""
    by_time = sorted(moves)
    half_ms = window_ms // 2
    begins = range(by_time[0].t_ms // half_ms * half_ms - half_ms, by_time[-1].t_ms + 1, half_ms)
    worst: Burst | None = None
    for begin_ms in begins:
        among = [move for move in by_time if begin_ms <= move.t_ms < begin_ms + window_ms]
        shrinks = sum(move.is_out for move in among)
        expands = len(among) - shrinks
        if min(shrinks, expands) >= flaps and (
            worst is None or len(among) > worst.shrinks + worst.expands
        ):
            worst = Burst(shrinks, expands, among[0].t_ms, among[-1].t_ms)
    return worst


def is_legal(row: JournalRow) -> bool:
    """True if the state machine has a transition row; one that says no ``from`` is not judged."""
    if row.from_ is None:
        return True
    try:
        if row.kind == Kind.PARTITION_TRANSITION:
            before = partition_state.VALID_PREVIOUS[PartitionState(row.to)]
            return PartitionState(row.from_) in before
        return ReplicaState(row.from_) in replica_state.VALID_PREVIOUS[ReplicaState(row.to)]
    except ValueError:
        return False


class _Fold:
    def __init__(self) -> None:
        self.found = Folded()
        # By controller and epoch: the last state, and when a row said that it changed.
        self._last: dict[tuple[int, int, Partition], tuple[str, int | None]] = {}
        # The last row that left a partition Offline which it was before: (since, until).
        self._pieces: dict[tuple[int, int, Partition], tuple[int | None, int]] = {}
        self._without_leader: dict[Partition, tuple[int | None, int]] = {}
        # What is written of a partition while it is deleted says nothing of leaders.
        self._gone: set[Partition] = set()

    def run(self, lines: list[Line]) -> Folded:
        unique = list(self._unique(lines))
        self._epochs(unique)
        for line, row in unique:
            self._apply(line, row)
        self._close(unique)
        self._count(unique)
        return self.found

    def _unique(self, lines: list[Line]) -> Iterator[Line]:
        by_number: dict[tuple[str, int, int, int], list[Line]] = defaultdict(list)
        for at in lines:
            row = at.row
            by_number[(row.run_id, row.epoch, row.seq, row.controller)].append(at)
        for (run, epoch, seq, controller), same in sorted(by_number.items()):
            if len(same) > 1:
                self.found.copies[(run, controller, epoch, seq)] = len(same)
            yield min(same, key=lambda at: at.line)

    def _apply(self, line: int, row: JournalRow) -> None:
        if row.topic is None:
            return
        partition = Partition(row.run_id, row.topic, row.partition)
        if row.kind in _FAILURES:
            self.found.failed += 1
        if row.kind in (Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION) and not is_legal(row):
            self.found.illegal.append(line)
        elif row.kind == Kind.REPLICA_TRANSITION and row.to is not None:
            self.found.replica_states[(partition, row.replica)] = row.to
        elif row.kind in (Kind.PARTITION_SNAPSHOT, Kind.PARTITION_TRANSITION):
            self._enter(partition, row)
        if row.kind in _LEADERSHIPS and row.leader is not None:
            self._lead(line, partition, row)

    def _enter(self, partition: Partition, row: JournalRow) -> None:
        assert row.to is not None, "rows of partitions say their state"
        is_snapshot = row.kind == Kind.PARTITION_SNAPSHOT
        # A leader that died with the controller is still named in the state znode.
        is_new = row.leader not in (None, NO_LEADER) if is_snapshot else row.from_ != _OFFLINE
        self.found.offlines[partition] += row.to == _OFFLINE and is_new
        self.found.states[partition] = row.to
        key = (row.controller, row.epoch, partition)
        if row.from_ == _OFFLINE:
            since_ms = row.since_ms or None
            before = self._pieces.pop(key, None)
            if before is not None and before[1] == since_ms:
                since_ms = before[0]
            if row.to == _OFFLINE:
                self._pieces[key] = (since_ms, row.t_ms)
            else:
                interval = Interval(partition, row.epoch, since_ms, row.t_ms, "transition")
                self.found.offline.append(interval)
        changed_ms = row.t_ms if row.from_ != row.to else self._last.get(key, ("", None))[1]
        self._last[key] = (row.to, changed_ms)
        if is_snapshot:
            return
        if row.to == PartitionState.NON_EXISTENT.value:
            self._has_leader(partition, row.t_ms)
            self._gone.add(partition)
        elif row.from_ == PartitionState.NON_EXISTENT.value:
            self._gone.discard(partition)

    def _lead(self, line: int, partition: Partition, row: JournalRow) -> None:
        assert row.leader is not None, "asked before"
        self.found.leaderships[partition] = Leadership(
            row.leader, row.leader_epoch, row.isr, row.zk_version
        )
        if row.leader == NO_LEADER:
            if row.kind == Kind.PARTITION_SNAPSHOT:
                self._gone.discard(partition)
            if row.prev_leader != NO_LEADER and partition not in self._gone:
                self._without_leader.setdefault(partition, (row.prev_leader, row.t_ms))
        elif row.prev_leader == NO_LEADER:
            self._has_leader(partition, row.t_ms)
            self._gone.discard(partition)
        if row.prev_isr is None or row.isr is None:
            return
        is_new = row.leader not in (NO_LEADER, row.prev_leader)
        if is_new and row.leader not in row.prev_isr and row.kind != Kind.PARTITION_SNAPSHOT:
            self.found.unclean.append(line)
        for replica in set(row.prev_isr).difference(row.isr):
            self.found.shrinks[(partition, replica)] += 1
            self._move(partition, replica, IsrMove(row.t_ms, is_out=True))
        for replica in set(row.isr).difference(row.prev_isr):
            self.found.expands[(partition, replica)] += 1
            self._move(partition, replica, IsrMove(row.t_ms, is_out=False))

    def _move(self, partition: Partition, replica: int, move: IsrMove) -> None:
        self.found.isr_moves.setdefault((partition, replica), []).append(move)

    def _has_leader(self, partition: Partition, t_ms: int) -> None:
        began = self._without_leader.pop(partition, None)
        if began is not None:
            self.found.leaderless.append(Leaderless(partition, *began, t_ms))

    def _close(self, unique: list[Line]) -> None:
        """What is still Offline at the end of its epoch, or without a leader at all."""
        snapshots: dict[tuple[str, int], int] = {}
        for _, row in unique:
            if row.kind == Kind.PARTITION_SNAPSHOT:
                at = (row.run_id, row.epoch)
                snapshots[at] = min(row.t_ms, snapshots.get(at, row.t_ms))
        for (_, epoch, partition), (state, start_ms) in self._last.items():
            if state != _OFFLINE:
                continue
            later = [e for run, e in snapshots if run == partition.run and e > epoch]
            end_ms = snapshots[(partition.run, min(later))] if later else None
            ended_by = "snapshot" if later else None
            self.found.offline.append(Interval(partition, epoch, start_ms, end_ms, ended_by))
        for partition, began in self._without_leader.items():
            self.found.leaderless.append(Leaderless(partition, *began, None))

    def _count(self, unique: list[Line]) -> None:
        numbers: dict[History, list[int]] = defaultdict(list)
        for _, row in unique:
            if row.topic is not None and row.key_seq:
                replica = row.replica if row.kind in _OF_REPLICAS else -1
                key = History(
                    row.run_id, row.topic, row.partition, replica, row.controller, row.epoch
                )
                numbers[key].append(row.key_seq)
        for key, seen in numbers.items():
            lost = max(seen) - len(seen)
            if lost > 0:
                self.found.missing[key] = lost

    def _epochs(self, unique: list[Line]) -> None:
        first_ms: dict[tuple[str, int], int] = {}
        who: dict[tuple[str, int], set[int]] = defaultdict(set)
        elected: dict[tuple[str, int], int] = {}
        for _, row in unique:
            at = (row.run_id, row.epoch)
            first_ms[at] = min(row.t_ms, first_ms.get(at, row.t_ms))
            who[at].add(row.controller)
            if row.kind == Kind.CONTROLLER_ELECTED:
                elected[at] = row.t_ms
                self.found.ready_after_ms.setdefault(at, None)
            elif row.kind == Kind.CONTROLLER_READY and at in elected:
                self.found.ready_after_ms[at] = row.t_ms - elected[at]
        self.found.shared_epochs = {at: sorted(ids) for at, ids in who.items() if len(ids) > 1}
        for line, row in unique:
            newer = [ms for (run, e), ms in first_ms.items() if run == row.run_id and e > row.epoch]
            if newer and row.t_ms > min(newer) and _is_write(row):
                self.found.late_writes.append(line)


def _is_write(row: JournalRow) -> bool:
    is_told = row.kind in _LEADERSHIPS and row.kind != Kind.PARTITION_SNAPSHOT
    is_first = row.kind == Kind.PARTITION_TRANSITION
    return is_told and row.leader is not None and (is_first or row.prev_isr is not None)
