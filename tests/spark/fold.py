"""The replay without an engine: one plain fold over a journal's rows, in order, in this process.

An oracle for the passes of replay.run on logs that fit in memory; it knows the product's rules and
the journal's rows, and nothing of codes or of SQL. A row is judged by what it says it comes from:
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
_NOT_THERE: Final = PartitionState.NON_EXISTENT.value


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
    """A time without a live leader."""

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
    lost_rows: Counter[str] = field(default_factory=Counter)
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


def run_of(row: JournalRow) -> str:
    """The cluster that wrote a row; its epochs continue when its process is started again."""
    return row.cluster_id or row.run_id


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
            before = partition_state.PREVIOUS[PartitionState(row.to)]
            return PartitionState(row.from_) in before
        return ReplicaState(row.from_) in replica_state.PREVIOUS[ReplicaState(row.to)]
    except ValueError:
        return False


@dataclass(slots=True)
class _Outage:
    """A time without a live leader that has not ended yet.

    ``is_proven``: a dead leader, or a partition that was Offline and did not end at once.
    """

    lost: int | None
    start_ms: int
    is_counted: bool
    is_proven: bool = False


class _Fold:
    def __init__(self) -> None:
        self.found = Folded()
        self._offline_since: dict[Partition, tuple[int, int | None]] = {}
        # Partitions whose last row put them Offline: if they end now, they were being deleted.
        self._just_offline: dict[Partition, bool] = {}
        self._deleting: set[tuple[str, str]] = set()
        self._dead: set[tuple[str, int]] = set()
        self._without_leader: dict[Partition, _Outage] = {}
        # The last leader, None after a birth or a death.
        self._leaders: dict[Partition, int | None] = {}

    def run(self, lines: list[Line]) -> Folded:
        unique = list(self._unique(lines))
        self._epochs(unique)
        for line, row in unique:
            self._apply(line, row)
        self._close()
        self._count(unique)
        return self.found

    def _unique(self, lines: list[Line]) -> Iterator[Line]:
        by_number: dict[tuple[str, int, int, int], list[Line]] = defaultdict(list)
        for at in lines:
            row = at.row
            by_number[(run_of(row), row.epoch, row.seq, row.controller)].append(at)
        for (run, epoch, seq, controller), same in sorted(by_number.items()):
            if not epoch:
                # Rows without a controller, such as a start, have no numbers.
                yield from same
                continue
            if len(same) > 1:
                self.found.copies[(run, controller, epoch, seq)] = len(same)
            yield min(same, key=lambda at: at.line)

    def _apply(self, line: int, row: JournalRow) -> None:
        if row.topic is None:
            self._look_at_brokers(row)
            return
        partition = Partition(run_of(row), row.topic, row.partition)
        if row.kind == Kind.TOPIC_DELETION_STARTED:
            self._deleting.add((run_of(row), row.topic))
        elif row.kind == Kind.TOPIC_CREATED:
            self._deleting.discard((run_of(row), row.topic))
        if row.kind in _FAILURES:
            self.found.failed += 1
        is_state = row.kind == Kind.PARTITION_SNAPSHOT
        if row.kind in (Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION) and not is_legal(row):
            self.found.illegal.append(line)
        elif row.kind == Kind.REPLICA_TRANSITION and row.to is not None:
            self.found.replica_states[(partition, row.replica)] = row.to
        elif row.kind == Kind.PARTITION_TRANSITION:
            is_state = True
        is_leadership = row.kind in _LEADERSHIPS and row.leader is not None
        said = self._leaders.get(partition, row.prev_leader if is_leadership else None)
        just_offline = self._just_offline.get(partition)
        if is_state:
            self._enter(partition, row)
        if is_leadership:
            self._lead(line, partition, row, is_state=is_state)
        if is_state or is_leadership:
            was_just_offline = just_offline is not None
            self._look_for_a_leader(partition, row, said, was_just_offline=was_just_offline)
            if just_offline is not None:
                self._just_offline.pop(partition)

    def _enter(self, partition: Partition, row: JournalRow) -> None:
        assert row.to is not None, "rows of partitions say their state"
        is_snapshot = row.kind == Kind.PARTITION_SNAPSHOT
        says_offline = row.from_ == _OFFLINE and not is_snapshot
        was_offline = self.found.states.get(partition) == _OFFLINE
        is_end = row.to == _NOT_THERE and partition in self._just_offline
        self.found.states[partition] = row.to
        since_ms = min(row.since_ms, row.t_ms) if row.since_ms else None
        if row.to == _OFFLINE and not was_offline:
            start_ms = since_ms if says_offline else row.t_ms
            self._offline_since[partition] = (row.epoch, start_ms)
            # A leader that died with the controller is still named in the state znode.
            is_new = not is_snapshot or row.leader not in (None, NO_LEADER)
            self.found.offlines[partition] += is_new and start_ms is not None
            if not says_offline:
                self._just_offline[partition] = is_new
        elif row.to != _OFFLINE and was_offline:
            ended_by = "snapshot" if is_snapshot else "transition"
            began = self._offline_since.pop(partition)
            if is_end:
                self.found.offlines[partition] -= self._just_offline[partition]
            else:
                self.found.offline.append(Interval(partition, *began, row.t_ms, ended_by))
        elif row.to != _OFFLINE and says_offline:
            interval = Interval(partition, row.epoch, since_ms, row.t_ms, "transition")
            self.found.offline.append(interval)
            self.found.offlines[partition] += since_ms is not None
        if not is_snapshot and _NOT_THERE in (row.to, row.from_):
            self._leaders[partition] = None
            self.found.leaderships.pop(partition, None)

    def _lead(self, line: int, partition: Partition, row: JournalRow, *, is_state: bool) -> None:
        assert row.leader is not None, "asked before"
        is_snapshot = row.kind == Kind.PARTITION_SNAPSHOT
        if not is_state or is_snapshot or _NOT_THERE not in (row.to, row.from_):
            self._leaders[partition] = row.leader
            self.found.leaderships[partition] = Leadership(
                row.leader, row.leader_epoch, row.isr, row.zk_version
            )
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

    def _look_at_brokers(self, row: JournalRow) -> None:
        """A controller that is ready has told every state: what died before it is over."""
        if row.kind == Kind.BROKER_OFFLINE:
            self._dead.add((run_of(row), row.replica))
        elif row.kind == Kind.BROKER_ONLINE:
            self._dead.discard((run_of(row), row.replica))
        elif row.kind == Kind.CONTROLLER_READY:
            self._dead = {at for at in self._dead if at[0] != run_of(row)}
        else:
            return
        for partition in [at for at in self._leaders if at.run == run_of(row)]:
            self._look_for_a_leader(partition, row, self._leaders[partition])

    def _look_for_a_leader(
        self,
        partition: Partition,
        row: JournalRow,
        said: int | None,
        *,
        was_just_offline: bool = False,
    ) -> None:
        """What is written of a partition that does not exist says nothing of leaders."""
        state, leader = self.found.states.get(partition), self._leaders.get(partition)
        is_there = state != _NOT_THERE
        is_dead = state != _OFFLINE and (partition.run, leader) in self._dead
        is_said = state == _OFFLINE and row.from_ == _OFFLINE
        at = self._without_leader.get(partition)
        if is_there and (state == _OFFLINE or leader == NO_LEADER or is_dead):
            if at is None:
                lost = next((at for at in (leader, said) if at not in (None, NO_LEADER)), None)
                is_deleted = (partition.run, partition.topic) in self._deleting
                at = self._without_leader[partition] = _Outage(lost, row.t_ms, not is_deleted)
            at.is_proven |= is_dead or is_said or was_just_offline
        elif at is not None:
            self._without_leader.pop(partition)
            if at.is_counted and (is_there or at.is_proven):
                self.found.leaderless.append(Leaderless(partition, at.lost, at.start_ms, row.t_ms))

    def _move(self, partition: Partition, replica: int, move: IsrMove) -> None:
        self.found.isr_moves.setdefault((partition, replica), []).append(move)

    def _close(self) -> None:
        """What is still Offline at the end, or without a leader."""
        for partition, began in self._offline_since.items():
            self.found.offline.append(Interval(partition, *began, None, None))
        for partition, at in self._without_leader.items():
            if at.is_counted:
                self.found.leaderless.append(Leaderless(partition, at.lost, at.start_ms, None))

    def _count(self, unique: list[Line]) -> None:
        numbers: dict[History, list[int]] = defaultdict(list)
        seqs: dict[tuple[str, int, int], set[int]] = defaultdict(set)
        for _, row in unique:
            seqs[(run_of(row), row.controller, row.epoch)].add(row.seq)
            if row.topic is not None and row.key_seq:
                replica = row.replica if row.kind in _OF_REPLICAS else -1
                key = History(
                    run_of(row), row.topic, row.partition, replica, row.controller, row.epoch
                )
                numbers[key].append(row.key_seq)
        for (run, _, _), found in seqs.items():
            self.found.lost_rows[run] += max(found) - len(found - {0})
        for key, seen in numbers.items():
            lost = max(seen) - len(seen)
            if lost > 0:
                self.found.missing[key] = lost

    def _epochs(self, unique: list[Line]) -> None:
        first_ms: dict[tuple[str, int], int] = {}
        who: dict[tuple[str, int], set[int]] = defaultdict(set)
        elected: dict[tuple[str, int], int] = {}
        for _, row in unique:
            at = (run_of(row), row.epoch)
            first_ms[at] = min(row.t_ms, first_ms.get(at, row.t_ms))
            who[at].add(row.controller)
            if row.kind == Kind.CONTROLLER_ELECTED:
                elected[at] = row.t_ms
                self.found.ready_after_ms.setdefault(at, None)
            elif row.kind == Kind.CONTROLLER_READY and at in elected:
                self.found.ready_after_ms[at] = row.t_ms - elected[at]
        self.found.shared_epochs = {at: sorted(ids) for at, ids in who.items() if len(ids) > 1}
        for line, row in unique:
            newer = [
                ms for (run, e), ms in first_ms.items() if run == run_of(row) and e > row.epoch
            ]
            if newer and row.t_ms > min(newer) and _is_write(row):
                self.found.late_writes.append(line)


def _is_write(row: JournalRow) -> bool:
    is_told = row.kind in _LEADERSHIPS and row.kind != Kind.PARTITION_SNAPSHOT
    is_first = row.kind == Kind.PARTITION_TRANSITION
    return is_told and row.leader is not None and (is_first or row.prev_isr is not None)
