"""A broker's state of one replica: its log, the last LeaderAndIsr state, and the followers.

``Partition`` is small on purpose, because a broker hosts tens of thousands of replicas. It keeps
the state object of the LeaderAndIsr request instead of a copy. It sends no messages and does not
access other partitions. brokers/followers/follower.py applies fetched data. Mirrors
kafka.cluster.Partition.
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
    pack_followers,
    unpack_followers,
)
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import UNKNOWN_OFFSET, FetchedPartition, FetchPartition
from klamm.cluster.records import UNDEFINED_EPOCH_END, Produced
from klamm.cluster.requests import LeaderAndIsrPartitionState
from klamm.cluster.types import NO_EPOCH, LeaderAndIsr

HIGH_WATERMARK_CHECKPOINT_MS: Final = 5_000.0
"""Default of replica.high.watermark.checkpoint.interval.ms."""


class _Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """The high watermark in replication-offset-checkpoint during one checkpoint interval.

    ``number`` is the number of the interval. In-memory logs have no checkpoint file:
    ``Partition.stored_high_watermark`` computes what the file would contain.
    """

    number: int
    high_watermark: int


class Partition(msgspec.Struct, gc=False):
    """A replica that this broker hosts, as leader or as follower.

    - ``state``: the last LeaderAndIsr state applied, updated by later AlterIsr responses.
    - ``pending``: the ISR proposal that has no final response yet.
    - ``log``: the replica's log; None until the log is created.
    - ``high_watermark``: all replicas in the ISR have the records below this offset.
    - ``checkpoint``: the last checkpointed high watermark, if ``high_watermark`` has changed since.

    Only leaders use the remaining fields:

    - ``leader_since_ms``: the time when the replica became the leader.
    - ``epoch_start_offset``: the log end offset at that time.
    - ``known``: the followers that have fetched at this leader epoch. To save memory, an in-sync
      follower does not fetch, and is not added, before the partition has records.
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
        """The followers that have fetched at this leader epoch. Callers may change their state."""
        known = self.known
        if isinstance(known, bytes):
            known = self.known = unpack_followers(known)
        return known

    def pack(self, now_ms: float) -> None:
        """Save memory while the replica is idle, by packing values into bytes."""
        if self.known and not isinstance(self.known, bytes):
            self.known = pack_followers(self.known)
        if isinstance(self.log, IntervalLog):
            self.log.pack()
        if self.stored_high_watermark(now_ms) == self.high_watermark:
            self.checkpoint = None

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last state applied; -1 before the first state."""
        return NO_EPOCH if self.state is None else self.state.leader_epoch

    def is_leader(self, broker_id: int) -> bool:
        """Return True if ``broker_id`` is the leader in the last LeaderAndIsr state."""
        return self.state is not None and self.state.leader == broker_id

    @property
    def is_untouched(self) -> bool:
        """True if the log has never contained a record."""
        return self.log is None or self.log.log_end_offset == 0

    @property
    def min_insync_replicas(self) -> int:
        """Minimum size of the ISR for producers with acks -1 (min.insync.replicas)."""
        assert self.log is not None
        return self.log.config.min_insync_replicas

    @property
    def leader_and_isr(self) -> LeaderAndIsr | None:
        """Leader, leader epoch, ISR and znode version as known to this broker.

        A follower learns the ISR only from LeaderAndIsr requests. ISR changes within a leader epoch
        are visible on the leader and in metadata caches.
        """
        state = self.state
        if state is None:
            return None
        return LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.zk_version)

    @property
    def replicas(self) -> tuple[int, ...]:
        """All replicas assigned to the partition."""
        return () if self.state is None else self.state.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        """The ISR confirmed by the controller."""
        return () if self.state is None else self.state.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, plus the replicas that a pending ISR proposal would add."""
        isr = self.isr
        if self.pending is None:
            return isr
        return (*isr, *(replica for replica in self.pending.isr if replica not in isr))

    def check_or_set_topic_id(self, topic_id: str | None) -> bool:
        """Set the topic id of the log if it has none. Return False if the log has another topic id.

        As in 2.8.2, the LeaderAndIsr request that creates the log does not set the topic id; the
        next LeaderAndIsr request does. Raises LogStorageError.
        """
        log = self.log
        if topic_id is None or log is None:
            return True
        if log.topic_id is None:
            log.assign_topic_id(topic_id)
        return log.topic_id == topic_id

    # -- becoming leader or follower

    def make_leader(self, state: LeaderAndIsrPartitionState, now_ms: float) -> None:
        """Become the leader, and record that the leader epoch starts at the log end.

        The leader needs the start of the epoch to find where the logs of followers diverge. The
        followers' positions are dropped even if this broker was already the leader: the high
        watermark cannot advance before the followers have fetched at this epoch (KIP-320; 2.8.2
        keeps the positions).
        """
        log = self._apply(state)
        self.leader_since_ms = now_ms
        self.epoch_start_offset = log.log_end_offset
        log.start_epoch(state.leader_epoch)

    def make_follower(self, state: LeaderAndIsrPartitionState) -> None:
        """Become a follower. The leader's first response determines where the log is truncated."""
        self._apply(state)
        self.epoch_start_offset = UNKNOWN_OFFSET

    def _apply(self, state: LeaderAndIsrPartitionState) -> ReplicaLog:
        assert self.log is not None, "a replica without a log can neither lead nor follow"
        self.state = state
        self.pending = None
        self.known = ()
        return self.log

    # -- followers' fetches

    def check_fetch(self, broker_id: int, leader_epoch: int) -> Errors:
        """Return NONE if a request with this leader epoch may read from the log, or else the error.

        A leader epoch of -1, which only clients send, is not checked (Partition.getLocalLog).
        """
        current = self.leader_epoch
        if current > leader_epoch != NO_EPOCH:
            return Errors.FENCED_LEADER_EPOCH
        if current < leader_epoch:
            return Errors.UNKNOWN_LEADER_EPOCH
        if not self.is_leader(broker_id) or self.log is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.NONE

    def check_offsets(self, asked: FetchPartition) -> FetchedPartition | None:
        """Return the response to a follower whose log diverges from this log, or else None.

        The log diverges if the follower's last epoch ends earlier in this log, or is missing. The
        response then contains the end offset of the largest epoch in this log up to the follower's
        last epoch. If this log cannot determine that offset, or if the fetch offset is out of
        range, the response is OFFSET_OUT_OF_RANGE with the available offsets.
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
        """Update the position of a follower from its fetch.

        Return False if no replica of the partition is assigned to the broker that fetches. Mirrors
        Partition.updateFollowerFetchState.
        """
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
        """Return the state of a follower, or None if it has not fetched at this leader epoch."""
        known = self.known
        for remote in self.remotes if isinstance(known, bytes) else known:
            if remote.replica_id == replica_id:
                return remote
        return None

    # -- the leader's log, the high watermark and the ISR

    def append_as_leader(self, produced: Produced, now_ms: int) -> Appended:
        """Append a producer's batch. Raises the errors of ReplicaLog.append_as_leader.

        ``now_ms`` is in milliseconds since the Unix epoch.
        """
        assert self.log is not None
        return self.log.append_as_leader(produced, self.leader_epoch, now_ms)

    def epoch_of(self, appended: Appended) -> int:
        """Return the leader epoch of an appended batch.

        Return -1 for a duplicate whose original batch has been deleted.
        """
        assert self.log is not None
        if not appended.is_duplicate:
            return self.leader_epoch
        if appended.first_offset < self.log.log_start_offset:
            return NO_EPOCH
        return first_epoch(self.log.read(appended.first_offset, 1))

    def maybe_increment_high_watermark(
        self, broker_id: int, now_ms: float, lag_time_max_ms: float
    ) -> bool:
        """Advance the high watermark to the smallest log end offset of the maximal ISR.

        Followers outside the ISR that have lagged for at most replica.lag.time.max.ms are included.
        Otherwise the high watermark could stay ahead of them, and they could never join the ISR.
        Return True if the high watermark advanced.
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
        """Return the followers that must have a record before the high watermark passes it.

        Return None if a member of the maximal ISR has not fetched at this leader epoch yet: the
        high watermark then cannot advance.
        """
        state = self.state
        isr = () if state is None else state.isr
        maximal_isr = isr if self.pending is None else self.maximal_isr
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
        """Set the high watermark, but keep the checkpointed value until the next checkpoint."""
        number = int(now_ms // HIGH_WATERMARK_CHECKPOINT_MS)
        if self.checkpoint is None or self.checkpoint.number != number:
            self.checkpoint = _Checkpoint(number, self.high_watermark)
        self.high_watermark = offset

    def stored_high_watermark(self, now_ms: float) -> int:
        """Return the high watermark at the last checkpoint. Checkpoints are taken every 5 s."""
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.number != int(now_ms // HIGH_WATERMARK_CHECKPOINT_MS):
            return self.high_watermark
        return checkpoint.high_watermark

    def caught_up(self) -> tuple[int, ...]:
        """Return the followers outside the ISR that may join the ISR.

        These followers have reached the high watermark and the start offset of this leader epoch.
        """
        isr = self.isr
        least = max(self.high_watermark, self.epoch_start_offset)
        return tuple(
            remote.replica_id
            for remote in self.remotes
            if remote.log_end_offset >= least and remote.replica_id not in isr
        )

    def out_of_sync(self, broker_id: int, now_ms: float, lag_time_max_ms: float) -> tuple[int, ...]:
        """Return the followers in the ISR that have lagged for longer than ``lag_time_max_ms``."""
        return tuple(
            replica_id
            for replica_id in self.isr
            if replica_id != broker_id
            and self.lags(replica_id)
            and now_ms - self.caught_up_ms(replica_id) > lag_time_max_ms
        )

    def lags(self, replica_id: int) -> bool:
        """Return True if a follower may lack records of the log, or must fetch to join the ISR."""
        assert self.log is not None
        remote = self.remote(replica_id)
        if remote is None:
            return self.log.log_end_offset > 0 or replica_id not in self.isr
        return not remote.keeps_up and self.log.log_end_offset > remote.log_end_offset

    def keeps_up(self, replica_id: int) -> bool:
        """Return True if a follower follows a constant-rate schedule and so need not fetch."""
        remote = self.remote(replica_id)
        return remote is not None and remote.keeps_up

    def caught_up_ms(self, replica_id: int) -> float:
        """Return the last time at which a follower was known to have all records.

        The time is in monotonic milliseconds.
        """
        remote = self.remote(replica_id)
        return self.leader_since_ms if remote is None else remote.caught_up_ms

    def propose(self, isr: tuple[int, ...]) -> LeaderAndIsr:
        """Create a proposal to change the ISR. No other proposal may be pending."""
        current = self.leader_and_isr
        assert current is not None and self.pending is None
        self.pending = LeaderAndIsr(current.leader, current.leader_epoch, isr, current.zk_version)
        return self.pending

    def commit(self, leader_and_isr: LeaderAndIsr) -> bool:
        """Apply an ISR that was written to ZooKeeper; return False if it is outdated."""
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
