"""Reassignments: one replica of each partition goes to another broker, phase by phase.

Begins and completes them; which, and when, is history.py's. Mirrors onPartitionReassignment of
kafka/controller/KafkaController.scala as the journal's rows tell it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from cluster.journal import Kind
from cluster.types import ReplicaAssignment
from replay.event_schema import STATE_CODES
from replay.generate.options import REPLICATION_FACTOR
from replay.generate.rows import NOBODY, Array
from replay.generate.steps import lead, take_replicas_offline
from replay.generate.world import World, state_code
from statemachines.election import ReassignElection
from statemachines.partition_state import PartitionState
from statemachines.reassignment import Phase, reassignment_id
from statemachines.replica_state import ReplicaState

ADDED: Final = REPLICATION_FACTOR
"""The place of the replica that is being added."""
_REASSIGN: Final = str(ReassignElection())


class _Move(NamedTuple):
    removing_slot: int
    name: str
    during: ReplicaAssignment
    after: ReplicaAssignment


@dataclass(slots=True)
class Moves:
    """Those that are under way, by partition."""

    world: World
    running: dict[int, _Move]

    def begin(self, p: Array, removing_slot: Array, adding: Array, mark: int = -1) -> None:
        """Replicas in these places shall go to these brokers, which have none of them yet."""
        world = self.world
        for at, slot, broker in zip(
            p.tolist(), removing_slot.tolist(), adding.tolist(), strict=True
        ):
            during = world.full_assignment(at, broker, slot)
            name = reassignment_id(world.names[at], during)
            after = ReplicaAssignment(during.target_replicas)
            self.running[at] = _Move(slot, name, during, after)
        world.event("ZkPartitionReassignment")
        names, texts = self._texts(p, during=True)
        for phase in (Phase.U1, Phase.U2, Phase.A1):
            self._phase(phase, p, names, texts, mark)
            mark = -1
        before = world.leadership(p)
        world.leader_epoch[p] += 1
        columns = world.written(p, before)
        world.on_partitions(
            Kind.LEADER_EPOCH_BUMPED, p, reassignment=names, detail=texts, **columns
        )
        world.tick(3)
        self._phase(Phase.A2, p, names, texts)
        for at, broker in zip(p.tolist(), adding.tolist(), strict=True):
            world.replicas[at, ADDED] = broker
            since_ms, key_seq = world.gone.pop((at, broker), (0, 0))
            world.replica_since_ms[at, ADDED] = since_ms
            world.replica_key_seq[at, ADDED] = key_seq
        world.replica_state[p, ADDED] = state_code(ReplicaState.NON_EXISTENT)
        world.move_replicas(p, _all(p, ADDED), ReplicaState.NEW)

    def ready(self) -> Array:
        """Those that can be completed: every replica lives, the partition has a leader."""
        p = np.array(sorted(self.running), np.int64)
        live = self.world.is_live(p).sum(axis=1) == REPLICATION_FACTOR + 1
        return p[live & (self.world.state[p] == state_code(PartitionState.ONLINE))]

    def complete(self, p: Array) -> None:
        """The new replicas are in sync; the old ones go."""
        world = self.world
        if not len(p):
            return
        world.event(f"AlterIsrReceived({len(p)} partitions)")
        before = world.leadership(p)
        world.is_insync[p] = world.replicas[p] != NOBODY
        world.on_partitions(Kind.ISR_CHANGED, p, **world.written(p, before))
        names, texts = self._texts(p, during=True)
        self._phase(Phase.B1, p, names, texts)
        world.move_replicas(p, _all(p, ADDED), ReplicaState.ONLINE)
        names, texts = self._texts(p, during=False)
        self._phase(Phase.B2, p, names, texts)
        self._phase(Phase.B3, p, names, texts)
        leaving = np.array([self.running[at].removing_slot for at in p.tolist()])
        leads = world.leader[p] == world.replicas[p, leaving]
        # The first of the target: the new replica where it takes the first place.
        lead(world, p[leads], np.where(leaving[leads] == 0, ADDED, 0), _REASSIGN)
        self._bump(p[~leads], names[~leads], texts[~leads])
        world.tick(4)
        self._phase(Phase.B4, p, names, texts)
        take_replicas_offline(world, p, leaving)
        for state in (
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            world.move_replicas(p, leaving, state)
        self._swap(p, leaving)
        for phase in (Phase.B5, Phase.B6, Phase.B7, Phase.B8):
            self._phase(phase, p, names, texts)
        for at in p.tolist():
            del self.running[at]

    def give_up(self, p: int) -> str:
        """Nobody works on a move any more, though it is under way. Returns its name."""
        return self.running.pop(p).name

    def _bump(self, p: Array, names: Array, texts: Array) -> None:
        world = self.world
        before = world.leadership(p)
        world.leader_epoch[p] += 1
        world.on_partitions(
            Kind.LEADER_EPOCH_BUMPED,
            p,
            reassignment=names,
            detail=texts,
            **world.written(p, before),
        )

    def _swap(self, p: Array, leaving: Array) -> None:
        """The new replica takes the old one's place."""
        world = self.world
        for at, slot in zip(p.tolist(), leaving.tolist(), strict=True):
            key = (at, int(world.replicas[at, slot]))
            since_ms, key_seq = world.replica_since_ms[at, slot], world.replica_key_seq[at, slot]
            world.gone[key] = (int(since_ms), int(key_seq))
        for array in (
            world.replicas,
            world.is_insync,
            world.replica_state,
            world.replica_since_ms,
            world.replica_key_seq,
        ):
            array[p, leaving] = array[p, ADDED]
        world.replicas[p, ADDED] = NOBODY
        world.is_insync[p, ADDED] = False
        world.replica_state[p, ADDED] = state_code(ReplicaState.NON_EXISTENT)
        world.replica_since_ms[p, ADDED] = 0
        world.replica_key_seq[p, ADDED] = 0

    def _phase(self, phase: Phase, p: Array, names: Array, texts: Array, mark: int = -1) -> None:
        self.world.on_partitions(
            Kind.REASSIGNMENT_PHASE,
            p,
            to_state=STATE_CODES[phase.value],
            reassignment=names,
            detail=texts,
            mark=mark,
        )

    def _texts(self, p: Array, *, during: bool) -> tuple[Array, Array]:
        text = self.world.rows.text
        moves = [self.running[at] for at in p.tolist()]
        names = np.array([text(move.name) for move in moves], np.int32)
        details = [text(move.during if during else move.after) for move in moves]
        return names, np.array(details, np.int32)


def _all(p: Array, slot: int) -> Array:
    return np.full(len(p), slot)
