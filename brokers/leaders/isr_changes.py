"""ISR changes that leaders propose: add followers that caught up, remove followers that lag.

brokers/partitions/ determines which followers have caught up or lag; an IsrManager sends the
proposals. This module reads no clock and sends no messages. Mirrors the callers of
Partition.{maybeExpandIsr, maybeShrinkIsr} and Partition.handleAlterIsrResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from klamm.brokers.config import BrokerConfig
from klamm.brokers.leaders.alter_isr_manager import AlterIsrResult
from klamm.brokers.leaders.zk_isr_manager import IsrManager
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.types import LeaderAndIsr, TopicPartition

_FINAL_ERRORS = frozenset(
    (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
    )
)


class IsrChanges:
    """Proposes ISR changes for all partitions that one broker leads.

    ``look_up`` returns a partition by name, or None if this broker does not host it. ISRs are
    checked every replica.lag.time.max.ms / 2, and only while a follower in an ISR may be lagging.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        metadata_cache: MetadataCache,
        look_up: Callable[[TopicPartition], Partition | None],
        alter_isr_manager: IsrManager,
    ) -> None:
        self._broker_id = broker_id
        self._lag_time_max_ms = config.replica_lag_time_max_ms
        self._metadata_cache = metadata_cache
        self._look_up = look_up
        self._alter_isr = alter_isr_manager
        self._waiting: dict[TopicPartition, None] = {}
        self._lagging: dict[TopicPartition, None] = {}
        self._check_at_ms: float | None = None

    def forget(self, tp: TopicPartition, partition: Partition) -> None:
        """Drop the proposal of a partition, because its leader, epoch or log is about to change."""
        if partition.pending is not None:
            self._alter_isr.clear_pending(tp)

    # -- expansion

    def maybe_expand(self, tp: TopicPartition, partition: Partition, replica_id: int) -> None:
        """Propose to add a follower to the ISR, if it has caught up with its latest fetch.

        Does nothing if another proposal for the partition is pending.
        """
        if replica_id in partition.isr or partition.pending is not None:
            return
        if replica_id in partition.caught_up():
            self._waiting.pop(tp, None)
            self._submit(tp, partition, (*partition.isr, replica_id))

    def _submit(self, tp: TopicPartition, partition: Partition, isr: tuple[int, ...]) -> None:
        assert partition.state is not None, "only a leader proposes"
        proposed = partition.propose(isr)
        self._alter_isr.submit(tp, proposed, partition.state.controller_epoch)

    def on_result(self, result: AlterIsrResult) -> bool:
        """Apply the controller's decision on a proposal.

        Return True if the high watermark may advance, because it no longer waits for the same
        replicas: the ISR changed, or a replica that would have joined did not.

        As in 2.8.2, a proposal that fails with one of ``_FINAL_ERRORS`` stays pending: the leader
        makes no other proposal until the controller sends a new state. After any other error, or if
        the controller responds with the ISR before the proposal, the proposal is retried later;
        2.8.2 tries to retry immediately after an error, but throws an exception.
        """
        tp = result.topic_partition
        partition = self._look_up(tp)
        if partition is None or partition.pending != result.proposed:
            return False
        answer = result.answer
        proposed = result.proposed
        if isinstance(answer, LeaderAndIsr) and answer.zk_version != proposed.zk_version:
            if partition.commit(answer):
                self._propose_next(tp, partition)
                return True
        elif answer not in _FINAL_ERRORS:
            partition.pending = None
            self._waiting[tp] = None
            return True
        return False

    @property
    def has_waiting(self) -> bool:
        """True if ``propose_waiting`` would propose to add a live replica to an ISR."""
        return any(self._candidate(partition) is not None for partition in self._waiting_ones())

    def propose_waiting(self) -> None:
        """Propose again to add replicas that were rejected or whose brokers were dead."""
        for tp in list(self._waiting):
            partition = self._look_up(tp)
            if partition is None or not _caught_up_at_end(partition):
                del self._waiting[tp]
            else:
                self._propose_next(tp, partition)

    def _propose_next(self, tp: TopicPartition, partition: Partition) -> None:
        if not _caught_up_at_end(partition):
            return
        candidate = self._candidate(partition)
        if candidate is None:
            self._waiting[tp] = None
        else:
            self._waiting.pop(tp, None)
            self._submit(tp, partition, (*partition.isr, candidate))

    def _candidate(self, partition: Partition) -> int | None:
        if partition.pending is not None:
            return None
        alive = self._metadata_cache.alive_brokers
        return next((replica for replica in _caught_up_at_end(partition) if replica in alive), None)

    def _waiting_ones(self) -> Iterator[Partition]:
        hosted = (self._look_up(tp) for tp in self._waiting)
        return (partition for partition in hosted if partition is not None)

    # -- shrinking

    def watch(self, tp: TopicPartition, now_ms: float) -> None:
        """Check the ISR of a partition regularly from now on, because a follower may be lagging."""
        self._lagging[tp] = None
        if self._check_at_ms is None:
            self._check_at_ms = now_ms + self._lag_time_max_ms / 2

    def next_due_ms(self) -> float | None:
        """Return the time of the next check of ISRs, in monotonic milliseconds.

        Return None if no partition needs a check.
        """
        return self._check_at_ms

    def on_timer(self, now_ms: float) -> None:
        """Propose to remove the followers that have lagged for replica.lag.time.max.ms."""
        if self._check_at_ms is None or now_ms < self._check_at_ms:
            return
        for tp in list(self._lagging):
            partition = self._look_up(tp)
            if partition is None or not self._lags(partition):
                del self._lagging[tp]
            elif partition.pending is None:
                self._maybe_shrink(tp, partition, now_ms)
        period_ms = self._lag_time_max_ms / 2
        self._check_at_ms = now_ms + period_ms if self._lagging else None
        if not self._lagging:
            # A dictionary never shrinks: release the memory of a large one.
            self._lagging = {}

    def _lags(self, partition: Partition) -> bool:
        broker_id = self._broker_id
        return partition.is_leader(broker_id) and any(
            partition.lags(replica_id) for replica_id in partition.isr if replica_id != broker_id
        )

    def _maybe_shrink(self, tp: TopicPartition, partition: Partition, now_ms: float) -> None:
        behind = partition.out_of_sync(self._broker_id, now_ms, self._lag_time_max_ms)
        if behind:
            self._submit(tp, partition, tuple(r for r in partition.isr if r not in behind))


def _caught_up_at_end(partition: Partition) -> list[int]:
    """Return the replicas outside the ISR that have all records and so need not fetch again.

    If the controller rejects such a replica, a Kafka leader proposes the replica again at the
    replica's next fetch. In klamm the leader must repeat the proposal without a fetch, because
    followers that have all records do not fetch.
    """
    return [replica for replica in partition.caught_up() if not partition.lags(replica)]
