"""One replica on its broker: its log, the last LeaderAndIsr state, and its followers' positions.

Small on purpose: a broker hosts tens of thousands. It stores the request's state object instead
of a copy, sends nothing and knows no other partition. brokers/followers/follower.py applies fetched
data. Mirrors kafka.cluster.Partition.
"""

from __future__ import annotations

from typing import Final

import msgspec

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.record_batch import first_epoch
from klamm.brokers.logs.replica_log import Appended, ReplicaLog
from klamm.brokers.partitions.remote_replica import (
    NEVER_MS,
    RemoteReplica,
    RemoteReplicas,
    pack,
    unpack,
)
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import UNKNOWN_OFFSET, FetchedPartition, FetchPartition
from klamm.cluster.records import UNDEFINED_EPOCH_END, Produced
from klamm.cluster.requests import LeaderAndIsrPartitionState
from klamm.cluster.types import NO_EPOCH, LeaderAndIsr

HIGH_WATERMARK_CHECKPOINT_MS: Final = 5_000.0
"""replica.high.watermark.checkpoint.interval.ms"""


class _Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A high watermark in replication-offset-checkpoint, with the number of the checkpoint.

    Checkpoints are computed, not written: see ``Partition.stored_high_watermark``."""

    number: int
    high_watermark: int


class Partition(msgspec.Struct, gc=False):
    """A hosted replica.

    ``state``: the last LeaderAndIsr state applied, updated by later AlterIsr responses.
    ``pending``: the ISR proposal without a final response. ``log``: None until it is created.
    ``high_watermark``: offset below which the whole ISR has the records. ``checkpoint``: the
    checkpointed high watermark before its last change; None if that was long ago.

    Leaders only: ``epoch_start_offset``: log end when it became leader, at ``leader_since_ms``.
    ``known``: followers that have fetched at this epoch. An in-sync follower without an entry
    costs nothing while there is nothing to send to it.
    """

    state: LeaderAndIsrPartitionState | None = None
    pending: LeaderAndIsr | None = None
    log: ReplicaLog | None = None
    high_watermark: int = 0
    checkpoint: _Checkpoint | None = None
    epoch_start_offset: int = UNKNOWN_OFFSET
    leader_since_ms: float = NEVER_MS
    known: RemoteReplicas | bytes = ()

    @property
    def remotes(self) -> RemoteReplicas:
        """State of the followers, which may be changed in place."""
        known = self.known
        if isinstance(known, bytes):
            known = self.known = unpack(known)
        return known

    def pack(self, now_ms: float) -> None:
        """Pack an idle replica: drop derived values, and pack the rest until its next use."""
        if self.known and not isinstance(self.known, bytes):
            self.known = pack(self.known)
        if isinstance(self.log, IntervalLog):
            self.log.pack()
        if self.stored_high_watermark(now_ms) == self.high_watermark:
            self.checkpoint = None

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last state applied; -1 before the first."""
        return NO_EPOCH if self.state is None else self.state.leader_epoch

    def is_leader(self, broker_id: int) -> bool:
        """Return True if the broker that hosts this replica leads the partition."""
        return self.state is not None and self.state.leader == broker_id

    @property
    def is_untouched(self) -> bool:
        """True if the log never held a record."""
        return self.log is None or self.log.log_end_offset == 0

    @property
    def min_insync_replicas(self) -> int:
        """Minimum size of the ISR for a producer with acks -1."""
        assert self.log is not None
        return self.log.config.min_insync_replicas

    @property
    def leader_and_isr(self) -> LeaderAndIsr | None:
        """Leader, leader epoch, ISR and znode version as this broker knows them.

        A follower learns the ISR only from LeaderAndIsr requests. ISR changes within a leader epoch
        are visible on the leader and in metadata caches.
        """
        state = self.state
        if state is None:
            return None
        return LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.zk_version)

    @property
    def replicas(self) -> tuple[int, ...]:
        """All assigned replicas."""
        return () if self.state is None else self.state.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        """The ISR confirmed by the controller."""
        return () if self.state is None else self.state.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, and the replicas that a pending proposal would add."""
        isr = self.isr
        if self.pending is None:
            return isr
        return (*isr, *(replica for replica in self.pending.isr if replica not in isr))

    def check_or_set_topic_id(self, topic_id: str | None) -> bool:
        """Return False if the log has another topic id.

        As in 2.8.2 the request that creates the log leaves it without an id; the next one sets it.
        Raises LogStorageError.
        """
        log = self.log
        if topic_id is None or log is None:
            return True
        if log.topic_id is None:
            log.assign_topic_id(topic_id)
        return log.topic_id == topic_id

    # -- becoming leader or follower

    def make_leader(self, state: LeaderAndIsrPartitionState, now_ms: float) -> None:
        """Become the leader; record that the epoch starts at the log end.

        With it, the leader can answer followers where their logs diverge. Positions of followers
        from an older epoch are dropped, even if this broker led then: the high watermark waits
        until they have fetched at this epoch (KIP-320; 2.8.2 keeps them).
        """
        log = self._apply(state)
        self.leader_since_ms = now_ms
        self.epoch_start_offset = log.log_end_offset
        log.start_epoch(state.leader_epoch)

    def make_follower(self, state: LeaderAndIsrPartitionState) -> None:
        """Become a follower; the log is truncated later, after a response of the leader."""
        self._apply(state)
        self.epoch_start_offset = UNKNOWN_OFFSET

    def _apply(self, state: LeaderAndIsrPartitionState) -> ReplicaLog:
        assert self.log is not None, "a replica without a log neither leads nor follows"
        self.state = state
        self.pending = None
        self.known = ()
        return self.log

    # -- followers' fetches

    def check_fetch(self, broker_id: int, leader_epoch: int) -> Errors:
        """Return the error for a request with this leader epoch, or NONE if it may read here.

        -1, which only clients send, is not checked (Partition.getLocalLog)."""
        current = self.leader_epoch
        if current > leader_epoch != NO_EPOCH:
            return Errors.FENCED_LEADER_EPOCH
        if current < leader_epoch:
            return Errors.UNKNOWN_LEADER_EPOCH
        if not self.is_leader(broker_id) or self.log is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.NONE

    def check_offsets(self, asked: FetchPartition) -> FetchedPartition | None:
        """Return the response to a follower with a diverging log; None if its log is a prefix.

        The end of the follower's last epoch in this log, if that is an earlier epoch or offset. If
        this log cannot determine it: OFFSET_OUT_OF_RANGE with the available offsets.
        """
        log = self.log
        assert log is not None
        epoch = asked.last_fetched_epoch
        end = log.end_offset_for(epoch) if epoch >= 0 else None
        start = log.log_start_offset
        if end == UNDEFINED_EPOCH_END or not start <= asked.fetch_offset <= (
            log.log_end_offset if end is None else asked.fetch_offset
        ):
            return FetchedPartition(
                Errors.OFFSET_OUT_OF_RANGE,
                asked.current_leader_epoch,
                asked.fetch_offset,
                epoch,
                log_start_offset=start,
                log_end_offset=log.log_end_offset,
            )
        if end is not None and (end.leader_epoch < epoch or end.end_offset < asked.fetch_offset):
            return FetchedPartition(
                Errors.NONE, asked.current_leader_epoch, asked.fetch_offset, epoch, diverging=end
            )
        return None

    def record_fetch(self, replica_id: int, asked: FetchPartition, now_ms: float) -> bool:
        """Update a follower's position; False if it is not a replica (updateFollowerFetchState)."""
        assert self.state is not None and self.log is not None
        if replica_id not in self.state.replicas:
            return False
        remote = self.remote(replica_id)
        if remote is None:
            in_sync = replica_id in self.isr
            remote = RemoteReplica(replica_id, self.leader_since_ms if in_sync else NEVER_MS)
            self.known = (*self.remotes, remote)
        remote.record_fetch(asked, self.log.log_end_offset, now_ms)
        return True

    def remote(self, replica_id: int) -> RemoteReplica | None:
        """Return the state of a follower; None if it has not fetched at this epoch."""
        known = self.known
        for remote in self.remotes if isinstance(known, bytes) else known:
            if remote.replica_id == replica_id:
                return remote
        return None

    # -- the leader's log, the high watermark and the ISR

    def append_as_leader(self, produced: Produced, now_ms: int) -> Appended:
        """Append a producer's batch; ``now_ms`` since the epoch. Raises ReplicaLog's errors."""
        assert self.log is not None
        return self.log.append_as_leader(produced, self.leader_epoch, now_ms)

    def epoch_of(self, appended: Appended) -> int:
        """Return the leader epoch of an appended batch; -1 for a duplicate deleted by now."""
        assert self.log is not None
        if not appended.is_duplicate:
            return self.leader_epoch
        if appended.first_offset < self.log.log_start_offset:
            return NO_EPOCH
        return first_epoch(self.log.read(appended.first_offset, 1))

    def maybe_increment_high_watermark(
        self, broker_id: int, now_ms: float, lag_time_max_ms: float
    ) -> bool:
        """Advance the high watermark to the smallest log end of the maximal ISR; True if advanced.

        Followers outside it that lag only a little count too. Otherwise the high watermark would
        stay ahead of them and they could never join.
        """
        assert self.log is not None
        new = self.log.log_end_offset
        if new <= self.high_watermark:
            return False
        counted = self.counted(broker_id, now_ms, lag_time_max_ms)
        if counted is None:
            return False
        for remote in counted:
            if remote.log_end_offset < new:
                new = remote.log_end_offset
        if new <= self.high_watermark:
            return False
        self.set_high_watermark(new, now_ms)
        return True

    def counted(
        self, broker_id: int, now_ms: float, lag_time_max_ms: float
    ) -> list[RemoteReplica] | None:
        """Return the followers that the high watermark waits for.

        None if one of them has not fetched at this epoch."""
        maximal_isr = self.maximal_isr
        unknown = len(maximal_isr) - (broker_id in maximal_isr)
        found = []
        for remote in self.remotes:
            if remote.replica_id in maximal_isr:
                unknown -= 1
                found.append(remote)
            elif now_ms - remote.caught_up_ms <= lag_time_max_ms:
                found.append(remote)
        return None if unknown else found

    def set_high_watermark(self, offset: int, now_ms: float) -> None:
        """Set the high watermark; the previous one stays checkpointed until the next checkpoint."""
        number = int(now_ms // HIGH_WATERMARK_CHECKPOINT_MS)
        if self.checkpoint is None or self.checkpoint.number != number:
            self.checkpoint = _Checkpoint(number, self.high_watermark)
        self.high_watermark = offset

    def stored_high_watermark(self, now_ms: float) -> int:
        """Return the high watermark in replication-offset-checkpoint, written every 5 s."""
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.number != int(now_ms // HIGH_WATERMARK_CHECKPOINT_MS):
            return self.high_watermark
        return checkpoint.high_watermark

    def caught_up(self) -> tuple[int, ...]:
        """Return the followers outside the ISR that may join it.

        They have reached the high watermark and the start offset of this leader epoch."""
        isr = self.isr
        least = max(self.high_watermark, self.epoch_start_offset)
        return tuple(
            remote.replica_id
            for remote in self.remotes
            if remote.log_end_offset >= least and remote.replica_id not in isr
        )

    def out_of_sync(self, broker_id: int, now_ms: float, lag_time_max_ms: float) -> tuple[int, ...]:
        """Return the followers in the ISR that have lagged for longer than allowed."""
        return tuple(
            replica_id
            for replica_id in self.isr
            if replica_id != broker_id
            and self.lags(replica_id)
            and now_ms - self.caught_up_ms(replica_id) > lag_time_max_ms
        )

    def lags(self, replica_id: int) -> bool:
        """Return True if the log has records that a follower is not known to have."""
        assert self.log is not None
        remote = self.remote(replica_id)
        if remote is None:
            return self.log.log_end_offset > 0
        return not remote.keeps_up and self.log.log_end_offset > remote.log_end_offset

    def keeps_up(self, replica_id: int) -> bool:
        """Return True if a follower stays at the log end without fetching."""
        remote = self.remote(replica_id)
        return remote is not None and remote.keeps_up

    def caught_up_ms(self, replica_id: int) -> float:
        """Return when a follower last had all records, as far as this leader knows."""
        remote = self.remote(replica_id)
        return self.leader_since_ms if remote is None else remote.caught_up_ms

    def propose(self, isr: tuple[int, ...]) -> LeaderAndIsr:
        """Set and return a proposal for this ISR; there must be no pending one."""
        current = self.leader_and_isr
        assert current is not None and self.pending is None
        self.pending = LeaderAndIsr(current.leader, current.leader_epoch, isr, current.zk_version)
        return self.pending

    def commit(self, leader_and_isr: LeaderAndIsr) -> bool:
        """Apply an ISR that the controller wrote; return False if it is outdated."""
        state = self.state
        assert state is not None
        if (
            leader_and_isr.leader_epoch != state.leader_epoch
            or leader_and_isr.zk_version < state.zk_version
        ):
            return False
        self.state = msgspec.structs.replace(
            state, isr=leader_and_isr.isr, zk_version=leader_and_isr.zk_version
        )
        self.pending = None
        return True
