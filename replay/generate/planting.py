"""Plants anomalies in a history, each in a separate partition.

Anomalies are planted between two episodes, while the cluster is healthy, so that all other rows are
those of a correct cluster. The rows of an anomaly contain its number (``mark``), so that the writer
can record their files and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER, ReplicaAssignment
from klamm.replay.event_schema import ELECTIONS, STATE_CODES, code_of
from klamm.replay.generate.options import Planted
from klamm.replay.generate.rows import DAMAGED, LOST, REPEATED, WRITTEN, RowBlock
from klamm.replay.generate.tiling import Player
from klamm.statemachines.election import OfflineElection, PreferredReplicaElection
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase, reassignment_id
from klamm.statemachines.replica_state import ReplicaState

FLAPS: Final = 12
_STEP_MS: Final = 700
_OFFLINE: Final = PartitionState.OFFLINE.value
_ONLINE_REPLICA: Final = ReplicaState.ONLINE.value
_CLEAN: Final = str(OfflineElection(allow_unclean=False))
_UNCLEAN: Final = str(OfflineElection(allow_unclean=True))
_PREFERRED: Final = str(PreferredReplicaElection())


class Anomaly(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A planted anomaly. ``places``: file and line of its rows, added when they are written."""

    kind: Planted
    epoch: int
    topic: str | None = None
    partition: int = -1
    replica: int = -1
    key_seq: int | None = None
    controller: int | None = None
    reassignment: str | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    places: list[dict[str, str | int]]


class Planting:
    """Plants anomalies, and lists them in ``found``. The mark of an anomaly is its index there."""

    def __init__(self, player: Player, rng: np.random.Generator) -> None:
        self.found: list[Anomaly] = []
        self._player = player
        self._rng = rng
        self._shared_epoch = 0

    def needs_new_epoch(self, kind: Planted) -> bool:
        """Return whether there must be a failover before an anomaly of this kind is planted.

        A late write needs an earlier epoch. A second controller needs an epoch that does not have
        two already.
        """
        if kind is Planted.TWO_CONTROLLERS:
            return self._player.epoch == self._shared_epoch
        return kind is Planted.LATE_WRITE and self._player.epoch == 1

    def plant(self, kind: Planted, p: int) -> RowBlock:
        """Return the rows of an anomaly in partition ``p``. Plant only one in each partition."""
        subject = _Subject(self._player, p)
        do: Callable[[_Subject], None] = getattr(self, f"_{kind.name.lower()}")
        do(subject)
        self._player.leader_epoch[p] = subject.leader_epoch
        self._player.zk_version[p] = subject.zk_version
        return RowBlock.of_rows(subject.rows)

    def _mark(self, kind: Planted, subject: _Subject | None = None, **fields: Any) -> int:
        if subject is not None:
            fields["topic"], fields["partition"] = subject.name
        about = {"epoch": self._player.epoch, **fields}
        self.found.append(Anomaly(kind=kind, places=[], **about))
        return len(self.found) - 1

    def _one_of(self, brokers: Iterable[int]) -> int:
        return int(self._rng.choice(list(brokers)))

    def _follower(self, subject: _Subject) -> int:
        return self._one_of(subject.replicas[1:])

    def _other_broker(self, excluded: tuple[int, ...]) -> int:
        brokers = range(1, self._player.layout.options.brokers + 1)
        return self._one_of(broker for broker in brokers if broker not in excluded)

    # Wrong, lost and duplicate rows

    def _illegal(self, subject: _Subject) -> None:
        replica, to = -1, PartitionState.NEW.value
        if len(self.found) % 2:
            replica, to = self._follower(subject), ReplicaState.DELETION_SUCCESSFUL.value
        key_seq = subject.keys[replica].seq + 1
        mark = self._mark(Planted.ILLEGAL, subject, replica=replica, key_seq=key_seq)
        subject.move(to, replica, mark=mark)

    def _gap(self, subject: _Subject) -> None:
        subject.shrink_isr(self._follower(subject), fate=LOST)
        mark = self._mark(Planted.GAP, subject, key_seq=subject.keys[-1].seq)
        subject.expand_isr(mark=mark)

    def _duplicate(self, subject: _Subject) -> None:
        if len(self.found) % 2:
            subject.shrink_isr(self._follower(subject))
        else:
            subject.lead(subject.leader, _PREFERRED)
        mark = self._mark(Planted.DUPLICATE, subject, key_seq=subject.keys[-1].seq)
        subject.rows.append({**subject.rows[-1], "fate": REPEATED, "mark": mark})
        subject.expand_isr()

    def _damaged(self, subject: _Subject) -> None:
        mark = self._mark(Planted.DAMAGED)
        subject.rows.append({**self._player.columns_now(), "fate": DAMAGED, "mark": mark})

    # Leaders

    def _leave_alone(self, subject: _Subject) -> None:
        """Add failures of the followers' log directories, so that only the leader is in the ISR."""
        subject.event("LogDirEventNotification")
        for replica in subject.replicas[1:]:
            subject.take_offline(replica)
        subject.event("LogDirEventNotification")
        for replica in subject.replicas[1:]:
            subject.move(_ONLINE_REPLICA, replica)
        subject.event("LogDirEventNotification")

    def _heal(self, subject: _Subject) -> None:
        subject.expand_isr()
        subject.event("ReplicaLeaderElection")
        subject.lead(subject.replicas[0], _PREFERRED)

    def _unclean(self, subject: _Subject) -> None:
        self._leave_alone(subject)
        leader, other = subject.leader, self._follower(subject)
        subject.move(_OFFLINE, **subject.leadership())
        mark = self._mark(Planted.UNCLEAN, subject, key_seq=subject.keys[-1].seq + 1)
        subject.lead(other, _UNCLEAN, isr=(other,), mark=mark)
        subject.take_offline(leader)
        subject.event("BrokerModifications")
        subject.move(_ONLINE_REPLICA, leader)
        self._heal(subject)

    def _leaderless(self, subject: _Subject) -> None:
        self._leave_alone(subject)
        leader, player = subject.leader, self._player
        mark = self._mark(Planted.LEADERLESS, subject, begin_ms=player.t_ms)
        subject.move(_OFFLINE, mark=mark, **subject.leadership())
        # The leader's own log directory failed, so that no candidate is left.
        subject.fail_election()
        subject.take_offline(leader, mark=mark)
        player.t_ms += int(self._rng.integers(1_000, 40_000))
        subject.event("BrokerModifications")
        subject.move(_ONLINE_REPLICA, leader)
        subject.lead(leader, _CLEAN, mark=mark)
        self.found[mark].end_ms = player.t_ms
        self._heal(subject)

    # Controllers

    def _two_controllers(self, subject: _Subject) -> None:
        epoch = self._shared_epoch = self._player.epoch
        other = self._other_broker((self._player.controller,))
        mark = self._mark(Planted.TWO_CONTROLLERS, controller=other)
        subject.record(Kind.CONTROLLER_ELECTED, by=(other, epoch), mark=mark)
        subject.record(
            Kind.REPLICA_TRANSITION,
            by=(other, epoch),
            mark=mark,
            p=subject.p,
            replica=subject.replicas[0],
            from_state=STATE_CODES[_ONLINE_REPLICA],
            to_state=STATE_CODES[_ONLINE_REPLICA],
            key_seq=1,
        )

    def _late_write(self, subject: _Subject) -> None:
        """Add a write by the previous controller, which removes a replica from the ISR.

        The leader adds the replica again.
        """
        replica, epoch = self._follower(subject), self._player.epoch - 1
        tile, tile_epoch = self._player.epoch_before()
        controller = tile.controller(tile_epoch)
        late = {
            "replica": replica,
            "key_seq": tile.key(*subject.recorded(replica), tile_epoch)[1] + 1,
        }
        mark = self._mark(Planted.LATE_WRITE, subject, epoch=epoch, controller=controller, **late)
        before = subject.leadership()
        subject.isr = tuple(broker for broker in subject.isr if broker != replica)
        subject.leader_epoch += 1
        late.update(subject.written(before))
        subject.record(Kind.ISR_REMOVED, by=(controller, epoch), mark=mark, p=subject.p, **late)
        subject.expand_isr()

    # Reassignments and ISRs

    def _stuck(self, subject: _Subject) -> None:
        removing, adding = self._follower(subject), self._other_broker(subject.replicas)
        target = (adding if broker == removing else broker for broker in subject.replicas)
        assignment = ReplicaAssignment((*target, removing), (adding,), (removing,))
        about: dict[str, Any] = {
            "reassignment": reassignment_id(subject.name, assignment),
            "detail": str(assignment),
        }
        begin_ms = self._player.t_ms
        name = about["reassignment"]
        mark = self._mark(Planted.STUCK, subject, begin_ms=begin_ms, reassignment=name)
        for phase in (Phase.U1, Phase.U2, Phase.A1, Phase.A2):
            if phase is Phase.A2:
                before = subject.leadership()
                subject.leader_epoch += 1
                bumped = subject.written(before)
                subject.on_key(Kind.LEADER_EPOCH_BUMPED, **about, **bumped)
            to_state = STATE_CODES[phase.value]
            subject.on_key(Kind.REASSIGNMENT_PHASE, to_state=to_state, mark=mark, **about)
            mark = -1
        subject.keys[adding] = _Key(0, 0, STATE_CODES[ReplicaState.NON_EXISTENT.value])
        subject.move(ReplicaState.NEW.value, adding)

    def _flapping(self, subject: _Subject) -> None:
        replica, player = self._follower(subject), self._player
        begin_ms = player.t_ms + _STEP_MS
        mark = self._mark(Planted.FLAPPING, subject, replica=replica, begin_ms=begin_ms)
        for _ in range(FLAPS):
            subject.shrink_isr(replica, mark=mark)
            subject.expand_isr(mark=mark)
        self.found[mark].end_ms = player.t_ms


@dataclass(slots=True)
class _Key:
    """The current state of a partition or replica.

    - ``since_ms``: time at which the state began.
    - ``seq``: number (key_seq) of the last row about the partition or replica.
    """

    since_ms: int
    seq: int
    state: int


class _Subject:
    """A partition in which an anomaly is being planted, and the rows added for the anomaly."""

    def __init__(self, player: Player, p: int) -> None:
        layout = player.layout
        self.p = p
        self.name = layout.names[p]
        self.rows: list[dict[str, Any]] = []
        self.replicas = self.isr = layout.assignment(p)
        self.leader = self.replicas[0]
        self.leader_epoch = int(player.leader_epoch[p])
        self.zk_version = int(player.zk_version[p])
        self._player = player
        tile, began_ms = player.played[-1]
        self.keys: dict[int, _Key] = {}
        """States keyed by replica; the key -1 stands for the partition itself."""
        for replica in (-1, *self.replicas):
            since_ms, seq = tile.key(*self.recorded(replica), tile.epochs - 1)
            state = PartitionState.ONLINE.value if replica < 0 else _ONLINE_REPLICA
            self.keys[replica] = _Key(began_ms + since_ms, seq, STATE_CODES[state])

    def recorded(self, replica: int) -> tuple[int, int]:
        """Return the recorded partition and replica of which this partition's replica is a copy.

        ``replica``: broker id, or -1 for the partition itself.
        """
        layout = self._player.layout
        shift = int(layout.group[self.p]) * layout.brokers
        return int(layout.base[self.p]), replica - shift if replica >= 0 else replica

    def event(self, text: str) -> None:
        """Advance the time and start a new controller event."""
        self._player.t_ms += _STEP_MS
        self._player.event_id += 1
        self.record(Kind.EVENT, detail=text)

    def record(self, kind: Kind, by: tuple[int, int] | None = None, **columns: Any) -> None:
        """Add a row. ``by``: controller and epoch; None: the current ones."""
        self.rows.append({**self._player.next_row(kind, by), **columns})

    def on_key(self, kind: Kind, replica: int = -1, **columns: Any) -> None:
        """Add a row about a replica (-1: about the partition), with the next ``key_seq``."""
        key = self.keys[replica]
        key.seq += 1
        self.record(kind, p=self.p, replica=replica, key_seq=key.seq, **columns)

    def move(self, to: str, replica: int = -1, **columns: Any) -> None:
        """Add a state transition of a replica, or of the partition if ``replica`` is -1."""
        key, state = self.keys[replica], STATE_CODES[to]
        kind = Kind.PARTITION_TRANSITION if replica < 0 else Kind.REPLICA_TRANSITION
        moved = {"from_state": key.state, "to_state": state, "since_ms": key.since_ms}
        self.on_key(kind, replica, **moved, **columns)
        key.state, key.since_ms = state, self._player.t_ms

    # Leaders and ISRs

    def leadership(self) -> dict[str, Any]:
        """Return the columns leader, leader_epoch, isr and zk_version."""
        names = ("leader", "leader_epoch", "isr", "zk_version")
        return {name: getattr(self, name) for name in names}

    def written(self, before: dict[str, Any]) -> dict[str, Any]:
        """Bump the znode version. Return the columns for the new and previous leader and ISR.

        ``before``: result of ``leadership`` before the change.
        """
        self.zk_version += 1
        previous = {"prev_leader": before["leader"], "prev_isr": before["isr"]}
        return {**self.leadership(), **previous}

    def lead(
        self, leader: int, election: str, isr: tuple[int, ...] | None = None, mark: int = -1
    ) -> None:
        """Add a leader election. ``isr``: new ISR; None: unchanged."""
        before = self.leadership()
        self.leader, self.isr = leader, isr or self.isr
        self.leader_epoch += 1
        columns = self.written(before)
        code = code_of(election, ELECTIONS)
        self.move(PartitionState.ONLINE.value, election=code, mark=mark, **columns)

    def fail_election(self) -> None:
        """Add a leader election that fails because no replica in the ISR is alive."""
        key = self.keys[-1]
        self.on_key(
            Kind.PARTITION_FAILED,
            from_state=key.state,
            to_state=STATE_CODES[PartitionState.ONLINE.value],
            since_ms=key.since_ms,
            election=code_of(_CLEAN, ELECTIONS),
            outcome=f"Failed to elect leader for partition {self.name} under strategy {_CLEAN}",
        )

    def take_offline(self, replica: int, mark: int = -1) -> None:
        """Add the removal of a replica from the ISR, and its transition to OfflineReplica."""
        before = columns = self.leadership()
        if replica in self.isr:
            if self.leader == replica:
                self.leader = NO_LEADER
            self.isr = tuple(broker for broker in self.isr if broker != replica) or self.isr
            self.leader_epoch += 1
            columns = self.written(before)
        self.on_key(Kind.ISR_REMOVED, replica, mark=mark, **columns)
        self.move(ReplicaState.OFFLINE.value, replica)

    def shrink_isr(self, replica: int, fate: int = WRITTEN, mark: int = -1) -> None:
        """Add an ISR change in which the leader removes a lagging replica."""
        rest = tuple(broker for broker in self.isr if broker != replica)
        self._change_isr(rest, fate, mark)

    def expand_isr(self, mark: int = -1) -> None:
        """Add an ISR change in which the leader adds all missing replicas."""
        if set(self.isr) != set(self.replicas):
            self._change_isr(self.replicas, WRITTEN, mark)

    def _change_isr(self, isr: tuple[int, ...], fate: int, mark: int) -> None:
        self.event("AlterIsrReceived(1 partitions)")
        before = self.leadership()
        self.isr = isr
        self.on_key(Kind.ISR_CHANGED, fate=fate, mark=mark, **self.written(before))
