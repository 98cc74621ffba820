"""One replica on its broker: what the controller said of it, and the ISR that a leader proposes.

Small on purpose: a broker holds tens of thousands. It keeps the request's own state object instead
of a copy, sends nothing and knows no other partition. Mirrors kafka.cluster.Partition.
"""

from __future__ import annotations

import msgspec

from cluster.api_errors import Errors
from cluster.requests import LeaderAndIsrPartitionState
from cluster.types import NO_EPOCH, LeaderAndIsr


class Partition(msgspec.Struct, gc=False):
    """A hosted replica.

    ``state``: the last LeaderAndIsr state that was applied. ``committed``: what an AlterIsr has
    made of it since. ``pending``: the proposal to the controller that has no final answer yet.
    ``caught_up``: replicas outside the ISR that have fetched at this leader epoch. ``log_dir``:
    where the replica's log is, None before there is one. ``topic_id``: what the log says it is.
    """

    state: LeaderAndIsrPartitionState | None = None
    committed: LeaderAndIsr | None = None
    pending: LeaderAndIsr | None = None
    caught_up: tuple[int, ...] = ()
    log_dir: str | None = None
    topic_id: str | None = None

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last state applied, -1 before the first."""
        return NO_EPOCH if self.state is None else self.state.leader_epoch

    def is_leader(self, broker_id: int) -> bool:
        """True if the broker that hosts this replica leads the partition."""
        return self.state is not None and self.state.leader == broker_id

    @property
    def leader_and_isr(self) -> LeaderAndIsr | None:
        """Leader, leader epoch, ISR and znode version as this broker knows them.

        A follower learns of the ISR only through LeaderAndIsr requests: what its leader changes
        within a leader epoch shows on the leader and in the metadata caches.
        """
        state = self.state
        if self.committed is not None or state is None:
            return self.committed
        return LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.zk_version)

    def check_or_set_topic_id(self, topic_id: str | None) -> bool:
        """False if the log has another topic id.

        As in 2.8.2 the request that creates the log leaves it without an id; the next one sets it.
        """
        if topic_id is None or self.log_dir is None:
            return True
        if self.topic_id is None:
            self.topic_id = topic_id
        return self.topic_id == topic_id

    def apply(self, state: LeaderAndIsrPartitionState) -> None:
        """Become leader or follower as ``state`` says; a proposal under way is forgotten."""
        self.state = state
        self.committed = None
        self.pending = None
        self.caught_up = ()

    def check_fetch(self, broker_id: int, leader_epoch: int) -> Errors:
        """Whether a follower that knows ``leader_epoch`` may fetch here (Partition.getLocalLog)."""
        current = self.leader_epoch
        if current > leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        if current < leader_epoch:
            return Errors.UNKNOWN_LEADER_EPOCH
        if not self.is_leader(broker_id):
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.NONE

    def record_fetch(self, replica_id: int) -> bool:
        """Note that a follower has fetched at this epoch; True if it may now join the ISR.

        A replica that is not assigned is not recorded (updateFollowerFetchState).
        """
        current = self.leader_and_isr
        assert self.state is not None and current is not None
        if replica_id not in self.state.replicas or replica_id in current.isr:
            return False
        if replica_id not in self.caught_up:
            self.caught_up = (*self.caught_up, replica_id)
        return self.pending is None

    def propose_expansion(self, replica_id: int) -> LeaderAndIsr:
        """Ask for ``replica_id`` at the end of the ISR; until the answer nothing else is asked."""
        current = self.leader_and_isr
        assert current is not None and self.pending is None
        self.pending = LeaderAndIsr(
            current.leader, current.leader_epoch, (*current.isr, replica_id), current.zk_version
        )
        return self.pending

    def commit(self, leader_and_isr: LeaderAndIsr) -> bool:
        """Take over what the controller has written; False if it is older than what is known."""
        current = self.leader_and_isr
        assert current is not None
        if (
            leader_and_isr.leader_epoch != current.leader_epoch
            or leader_and_isr.zk_version < current.zk_version
        ):
            return False
        self.committed = leader_and_isr
        self.pending = None
        self.caught_up = tuple(r for r in self.caught_up if r not in leader_and_isr.isr)
        return True
