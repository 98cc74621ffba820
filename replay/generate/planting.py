"""What is wrong on purpose: each anomaly done to a partition of its own, and remembered.

Rows of an anomaly carry its mark, by which a writer tells where they stand. Everything beside the
anomaly stays consistent: what comes before and after it is what a sound cluster would have written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from cluster.journal import Kind
from replay.generate.moves import Moves
from replay.generate.options import REPLICATION_FACTOR, Planted
from replay.generate.rows import DAMAGED, LOST, REPEATED, Array
from replay.generate.steps import (
    PREFERRED,
    UNCLEAN,
    elect_offline,
    election_code,
    expand_isr,
    fail_election,
    go_offline,
    lead,
    shrink_isr,
    take_replicas_offline,
)
from replay.generate.world import World, state_code
from statemachines.partition_state import PartitionState
from statemachines.replica_state import ReplicaState

FLAPS: Final = 12
_FLAP_MS: Final = 700
_SECOND_MS: Final = 1_000


@dataclass(slots=True)
class Anomaly:
    """One that was planted. ``places``: file and line of its rows, in order, once written."""

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
    places: list[tuple[str, int]] = field(default_factory=list)


class Planting:
    """Plants anomalies, one at a time; ``found`` are those that were, their places being marks."""

    def __init__(self, world: World, moves: Moves, rng: np.random.Generator) -> None:
        self.found: list[Anomaly] = []
        self._world = world
        self._moves = moves
        self._rng = rng
        self._leaderless: list[tuple[int, Anomaly, int]] = []
        self._shared_epoch = 0
        self._plants: dict[Planted, Callable[[int], None]] = {
            Planted.ILLEGAL: self._illegal,
            Planted.GAP: self._gap,
            Planted.DUPLICATE: self._duplicate,
            Planted.UNCLEAN: self._unclean,
            Planted.TWO_CONTROLLERS: self._two_controllers,
            Planted.LATE_WRITE: self._late_write,
            Planted.LEADERLESS: self._begin_leaderless,
            Planted.STUCK: self._stuck,
            Planted.FLAPPING: self._flapping,
            Planted.DAMAGED: self._damaged,
        }

    def is_ready(self, p: int) -> bool:
        """True for a partition with a leader, all of its replicas alive and in sync."""
        world, at = self._world, np.array([p])
        whole = world.is_insync[p, :REPLICATION_FACTOR].all() and world.is_live(at).sum() == (
            REPLICATION_FACTOR
        )
        return bool(whole and world.state[p] == state_code(PartitionState.ONLINE))

    def needs_new_epoch(self, kind: Planted) -> bool:
        """True for a late write, and for a second controller where there is one already."""
        if kind is Planted.TWO_CONTROLLERS:
            return self._world.epoch == self._shared_epoch
        return kind is Planted.LATE_WRITE

    def plant(self, kind: Planted, p: int) -> None:
        """One anomaly at a partition that is ready, and of which nothing else is asked."""
        self._plants[kind](p)

    def end_leaderless(self) -> None:
        """Those that have no leader on purpose get one."""
        world = self._world
        for p, anomaly, mark in self._leaderless:
            at, slot = np.array([p]), self._insync(p)
            world.event("BrokerModifications")
            world.move_replicas(at, slot, ReplicaState.ONLINE)
            elect_offline(world, at, mark)
            anomaly.end_ms = world.t_ms
            world.tick(_SECOND_MS)
            expand_isr(world, at)
        self._leaderless.clear()

    @property
    def is_leaderless(self) -> bool:
        """True while a partition has no leader on purpose."""
        return bool(self._leaderless)

    def _mark(self, kind: Planted, p: int = -1, **fields: Any) -> int:
        world = self._world
        if p >= 0:
            fields["topic"], fields["partition"] = world.names[p]
        self.found.append(Anomaly(kind, **{"epoch": world.epoch, **fields}))
        return len(self.found) - 1

    def _insync(self, p: int) -> Array:
        return np.nonzero(self._world.is_insync[p])[0]

    def _follower(self, p: int) -> Array:
        """The place of a replica that does not lead."""
        followers = np.nonzero(self._world.replicas[p] != self._world.leader[p])[0]
        followers = followers[followers < REPLICATION_FACTOR]
        return np.array([followers[int(self._rng.integers(len(followers)))]])

    # Rows that are wrong, missing, or there twice

    def _illegal(self, p: int) -> None:
        world, at = self._world, np.array([p])
        if len(self.found) % 2:
            slot = self._follower(p)
            key_seq = int(world.replica_key_seq[p, slot[0]]) + 1
            replica = int(world.replicas[p, slot[0]])
            mark = self._mark(Planted.ILLEGAL, p, replica=replica, key_seq=key_seq)
            world.on_replicas(
                Kind.REPLICA_TRANSITION,
                at,
                slot,
                from_state=world.replica_state[at, slot],
                to_state=state_code(ReplicaState.DELETION_SUCCESSFUL),
                since_ms=world.replica_since_ms[at, slot],
                mark=mark,
            )
            return
        mark = self._mark(Planted.ILLEGAL, p, key_seq=int(world.key_seq[p]) + 1)
        world.on_partitions(
            Kind.PARTITION_TRANSITION,
            at,
            from_state=world.state[at],
            to_state=state_code(PartitionState.NEW),
            since_ms=world.since_ms[at],
            mark=mark,
        )

    def _gap(self, p: int) -> None:
        at = np.array([p])
        shrink_isr(self._world, at, self._follower(p), fate=LOST)
        mark = self._mark(Planted.GAP, p, key_seq=int(self._world.key_seq[p]))
        self._world.tick(_SECOND_MS)
        expand_isr(self._world, at, mark)

    def _duplicate(self, p: int) -> None:
        world, at = self._world, np.array([p])
        if len(self.found) % 2:
            lead(world, at, self._follower(p), PREFERRED)
        else:
            shrink_isr(world, at, self._follower(p))
        mark = self._mark(Planted.DUPLICATE, p, key_seq=int(world.key_seq[p]))
        world.rows.repeat(mark, REPEATED)
        world.tick(_SECOND_MS)
        expand_isr(world, at)

    def _damaged(self, p: int) -> None:
        world = self._world
        seq = world.seq
        world.record(1, Kind.EVENT, fate=DAMAGED, mark=self._mark(Planted.DAMAGED))
        world.seq = seq

    # Leaders

    def _leave_alone(self, p: int) -> None:
        """The followers' disks fail for a moment: the leader is alone in the ISR."""
        world, at = self._world, np.array([p])
        world.event("LogDirEventNotification")
        followers = np.nonzero(world.replicas[p, :REPLICATION_FACTOR] != world.leader[p])[0]
        for slot in followers:
            take_replicas_offline(world, at, np.array([slot]))
        world.tick(_SECOND_MS)
        world.event("LogDirEventNotification")
        for slot in followers:
            world.move_replicas(at, np.array([slot]), ReplicaState.ONLINE)
        world.tick(_SECOND_MS)

    def _unclean(self, p: int) -> None:
        world, at = self._world, np.array([p])
        self._leave_alone(p)
        world.event("LogDirEventNotification")
        slot, other = self._insync(p), self._follower(p)
        go_offline(world, at)
        world.tick(3)
        before = world.leadership(at)
        world.leader[p] = world.replicas[p, other[0]]
        world.leader_epoch[p] += 1
        world.is_insync[p] = False
        world.is_insync[p, other[0]] = True
        columns = world.written(at, before)
        mark = self._mark(Planted.UNCLEAN, p, key_seq=int(world.key_seq[p]) + 1)
        world.move(at, PartitionState.ONLINE, election=election_code(UNCLEAN), mark=mark, **columns)
        take_replicas_offline(world, at, slot)
        world.tick(_SECOND_MS)
        world.event("BrokerModifications")
        world.move_replicas(at, slot, ReplicaState.ONLINE)
        world.tick(_SECOND_MS)
        expand_isr(world, at)

    def _begin_leaderless(self, p: int) -> None:
        world, at = self._world, np.array([p])
        self._leave_alone(p)
        world.event("LogDirEventNotification")
        slot = self._insync(p)
        mark = self._mark(Planted.LEADERLESS, p, begin_ms=world.t_ms)
        go_offline(world, at, mark)
        # Its own disk is what failed: nobody may be elected.
        fail_election(world, at)
        take_replicas_offline(world, at, slot, mark)
        self._leaderless.append((p, self.found[mark], mark))

    # Controllers

    def _two_controllers(self, p: int) -> None:
        world = self._world
        others = np.nonzero(world.live)[0]
        others = others[others != world.controller]
        other = int(others[int(self._rng.integers(len(others)))])
        mark = self._mark(Planted.TWO_CONTROLLERS, controller=other)
        controller, seq = world.controller, world.seq
        self._shared_epoch = world.epoch
        # Each controller counts its own rows.
        world.controller, world.seq = other, 0
        world.record(1, Kind.CONTROLLER_ELECTED, mark=mark)
        at, slot = np.array([p]), np.array([0])
        states = world.replica_state[at, slot]
        columns = {"from_state": states, "to_state": states, "key_seq": 1, "mark": mark}
        replica = world.replicas[at, slot]
        world.record(1, Kind.REPLICA_TRANSITION, p=at, replica=replica, **columns)
        world.controller, world.seq = controller, seq

    def _late_write(self, p: int) -> None:
        """The controller of before takes a replica out of the ISR; the leader takes it back."""
        world, before, at = self._world, self._world.before, np.array([p])
        assert before is not None, "there was a controller before"
        slot = self._follower(p)
        key_seq = int(before.replica_key_seq[p, slot[0]]) + 1
        before.replica_key_seq[p, slot[0]] = key_seq
        before.seq += 1
        replica = int(world.replicas[p, slot[0]])
        mark = self._mark(
            Planted.LATE_WRITE,
            p,
            epoch=before.epoch,
            replica=replica,
            key_seq=key_seq,
            controller=before.controller,
        )
        leadership = world.leadership(at)
        world.is_insync[p, slot] = False
        world.leader_epoch[p] += 1
        columns = world.written(at, leadership)
        seq = world.seq
        world.record(
            1,
            Kind.ISR_REMOVED,
            p=at,
            replica=replica,
            mark=mark,
            **columns,
            **{
                "seq": before.seq,
                "controller": before.controller,
                "epoch": before.epoch,
                "key_seq": key_seq,
            },
        )
        world.seq = seq
        world.tick(_SECOND_MS)
        expand_isr(world, at)

    # Moves and ISRs

    def _stuck(self, p: int) -> None:
        world, slot = self._world, self._follower(p)
        others = np.nonzero(world.live)[0]
        others = others[~np.isin(others, world.replicas[p])]
        adding = np.array([others[int(self._rng.integers(len(others)))]])
        mark = self._mark(Planted.STUCK, p, begin_ms=world.t_ms)
        self._moves.begin(np.array([p]), slot, adding, mark)
        self.found[mark].reassignment = self._moves.give_up(p)

    def _flapping(self, p: int) -> None:
        world, at, slot = self._world, np.array([p]), self._follower(p)
        replica = int(world.replicas[p, slot[0]])
        mark = self._mark(Planted.FLAPPING, p, replica=replica, begin_ms=world.t_ms)
        for _ in range(FLAPS):
            shrink_isr(world, at, slot, mark=mark)
            world.tick(_FLAP_MS)
            expand_isr(world, at, mark)
            self.found[mark].end_ms = world.t_ms
            world.tick(_FLAP_MS)
