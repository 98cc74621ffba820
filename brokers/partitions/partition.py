"""One replica on its broker: its log, what the controller said of it, and what its followers have.

Small on purpose: a broker holds tens of thousands. It keeps the request's own state object instead
of a copy, sends nothing and knows no other partition. How a follower takes what it fetched is in
brokers/followers/follower.py. Mirrors kafka.cluster.Partition.
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
    fold,
    unfold,
)
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import UNKNOWN_OFFSET, FetchedPartition, FetchPartition
from klamm.cluster.records import UNDEFINED_EPOCH_END, Produced
from klamm.cluster.requests import LeaderAndIsrPartitionState
from klamm.cluster.types import NO_EPOCH, LeaderAndIsr

HIGH_WATERMARK_CHECKPOINT_MS: Final = 5_000.0
"""replica.high.watermark.checkpoint.interval.ms"""


class _Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A checkpoint of high watermarks, and the one that it holds. Checkpoints are counted instead
    of made: see ``Partition.stored_high_watermark``."""

    number: int
    high_watermark: int


class Partition(msgspec.Struct, gc=False):
    """A hosted replica.

    ``state``: the last LeaderAndIsr state that was applied, with what an AlterIsr has made of it
    since. ``pending``: the proposal to the controller that has no final answer yet. ``log``: None
    before there is one. ``high_watermark``: the offset below which the whole ISR has the records;
    ``checkpoint``: what a disk had of it before its last change, None if that was long ago.

    Of a leader alone: ``epoch_start_offset``, its log's end when it became one, at
    ``leader_since_ms``; ``known``, the followers that have fetched at this epoch. A follower in
    the ISR of which nothing is known costs nothing while there is nothing to send it.
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
        """What is known of the followers, to be changed in place."""
        known = self.known
        if isinstance(known, bytes):
            known = self.known = unfold(known)
        return known

    def fold(self, now_ms: float) -> None:
        """Take less memory, for a replica of which nobody has asked for a while: what follows from
        other numbers goes, the rest is written close together until somebody needs it."""
        if self.known and not isinstance(self.known, bytes):
            self.known = fold(self.known)
        if isinstance(self.log, IntervalLog):
            self.log.fold()
        if self.stored_high_watermark(now_ms) == self.high_watermark:
            self.checkpoint = None

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last state applied, -1 before the first."""
        return NO_EPOCH if self.state is None else self.state.leader_epoch

    def is_leader(self, broker_id: int) -> bool:
        """True if the broker that hosts this replica leads the partition."""
        return self.state is not None and self.state.leader == broker_id

    @property
    def is_untouched(self) -> bool:
        """True if the log never held a record."""
        return self.log is None or self.log.log_end_offset == 0

    @property
    def min_insync_replicas(self) -> int:
        """How large the ISR must be for a producer with acks -1."""
        assert self.log is not None
        return self.log.config.min_insync_replicas

    @property
    def leader_and_isr(self) -> LeaderAndIsr | None:
        """Leader, leader epoch, ISR and znode version as this broker knows them.

        A follower learns of the ISR only through LeaderAndIsr requests: what its leader changes
        within a leader epoch shows on the leader and in the metadata caches.
        """
        state = self.state
        if state is None:
            return None
        return LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.zk_version)

    @property
    def replicas(self) -> tuple[int, ...]:
        """All replicas that the controller has assigned."""
        return () if self.state is None else self.state.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        """The ISR that the controller has confirmed."""
        return () if self.state is None else self.state.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR and whom a proposal under way would add: all who may already be in it."""
        isr = self.isr
        if self.pending is None:
            return isr
        return (*isr, *(replica for replica in self.pending.isr if replica not in isr))

    def check_or_set_topic_id(self, topic_id: str | None) -> bool:
        """False if the log has another topic id.

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
        """Lead from the log's end on; the log notes that this epoch begins there, so that it can
        tell followers where theirs part from it.

        What followers of an older epoch had is forgotten, also if this broker led then: the high
        watermark waits until they have fetched at this epoch (KIP-320; 2.8.2 remembers).
        """
        log = self._apply(state)
        self.leader_since_ms = now_ms
        self.epoch_start_offset = log.log_end_offset
        log.start_epoch(state.leader_epoch)

    def make_follower(self, state: LeaderAndIsrPartitionState) -> None:
        """Follow; the log is cut when the leader has said where (brokers/followers/follower.py)."""
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
        """Whether who knows ``leader_epoch`` may fetch here; -1, from clients only, is not checked
        (Partition.getLocalLog)."""
        current = self.leader_epoch
        if current > leader_epoch != NO_EPOCH:
            return Errors.FENCED_LEADER_EPOCH
        if current < leader_epoch:
            return Errors.UNKNOWN_LEADER_EPOCH
        if not self.is_leader(broker_id) or self.log is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.NONE

    def check_offsets(self, asked: FetchPartition) -> FetchedPartition | None:
        """What a follower is answered whose log is not a beginning of this one, else None.

        Where its last epoch ended here, if that is an earlier epoch or offset than it has; or, if
        this log cannot tell, the range of offsets that it has.
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
        """Note where a follower is; False if it is none (updateFollowerFetchState)."""
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
        """What is known of a follower; None if it has not fetched at this epoch."""
        known = self.known
        for remote in self.remotes if isinstance(known, bytes) else known:
            if remote.replica_id == replica_id:
                return remote
        return None

    # -- the leader's log, the high watermark and the ISR

    def append_as_leader(self, produced: Produced, now_ms: int) -> Appended:
        """Append a producer's batch; ``now_ms`` since the epoch. Raises as ReplicaLog does."""
        assert self.log is not None
        return self.log.append_as_leader(produced, self.leader_epoch, now_ms)

    def epoch_of(self, appended: Appended) -> int:
        """The leader epoch that wrote a batch; -1 if it was sent again and is deleted by now."""
        assert self.log is not None
        if not appended.is_duplicate:
            return self.leader_epoch
        if appended.first_offset < self.log.log_start_offset:
            return NO_EPOCH
        return first_epoch(self.log.read(appended.first_offset, 1))

    def maybe_increment_high_watermark(
        self, broker_id: int, now_ms: float, lag_time_max_ms: float
    ) -> bool:
        """Move the high watermark to the least log end of the maximal ISR; True if it moved.

        Followers outside of it that are not far behind count too, so that they are not left behind
        for ever while they try to join.
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
        """The followers that the high watermark waits for; None if one of them has not fetched at
        this epoch."""
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
        """Note a high watermark, and the one before for a disk that has not heard of it yet."""
        number = int(now_ms // HIGH_WATERMARK_CHECKPOINT_MS)
        if self.checkpoint is None or self.checkpoint.number != number:
            self.checkpoint = _Checkpoint(number, self.high_watermark)
        self.high_watermark = offset

    def stored_high_watermark(self, now_ms: float) -> int:
        """The high watermark as replication-offset-checkpoint holds it, which Kafka writes every
        five seconds."""
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.number != int(now_ms // HIGH_WATERMARK_CHECKPOINT_MS):
            return self.high_watermark
        return checkpoint.high_watermark

    def caught_up(self) -> tuple[int, ...]:
        """Followers outside the ISR that may join it: they have all that is below the high
        watermark, and have come to the beginning of this leader epoch."""
        isr = self.isr
        least = max(self.high_watermark, self.epoch_start_offset)
        return tuple(
            remote.replica_id
            for remote in self.remotes
            if remote.log_end_offset >= least and remote.replica_id not in isr
        )

    def out_of_sync(self, broker_id: int, now_ms: float, lag_time_max_ms: float) -> tuple[int, ...]:
        """Followers in the ISR that are behind and have been for longer than is allowed."""
        return tuple(
            replica_id
            for replica_id in self.isr
            if replica_id != broker_id
            and self.lags(replica_id)
            and now_ms - self.caught_up_ms(replica_id) > lag_time_max_ms
        )

    def lags(self, replica_id: int) -> bool:
        """True if there are records that a follower is not known to have."""
        assert self.log is not None
        remote = self.remote(replica_id)
        if remote is None:
            return self.log.log_end_offset > 0
        return not remote.keeps_up and self.log.log_end_offset > remote.log_end_offset

    def keeps_up(self, replica_id: int) -> bool:
        """True if a follower stays at the log's end without fetching."""
        remote = self.remote(replica_id)
        return remote is not None and remote.keeps_up

    def caught_up_ms(self, replica_id: int) -> float:
        """When a follower last had everything, as far as this leader knows."""
        remote = self.remote(replica_id)
        return self.leader_since_ms if remote is None else remote.caught_up_ms

    def propose(self, isr: tuple[int, ...]) -> LeaderAndIsr:
        """Ask for this ISR; until the answer nothing else is asked."""
        current = self.leader_and_isr
        assert current is not None and self.pending is None
        self.pending = LeaderAndIsr(current.leader, current.leader_epoch, isr, current.zk_version)
        return self.pending

    def commit(self, leader_and_isr: LeaderAndIsr) -> bool:
        """Take over what the controller has written; False if it is older than what is known."""
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
