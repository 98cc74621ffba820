"""ISR changes that leaders propose: expansion by caught-up followers, shrinking by lagging ones.

brokers/partitions/ decides by a partition's offsets; an IsrManager sends the proposal. No clock is
read and nothing is sent. Mirrors the callers of Partition.{maybeExpandIsr, maybeShrinkIsr} and
Partition.handleAlterIsrResponse.
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
    """Proposed ISR changes of all partitions led by one broker.

    ``look_up`` returns the current state of a hosted partition. ISRs are checked every half
    replica.lag.time.max.ms, and only while a follower in an ISR may be lagging.
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
        """Drop the proposal of a partition: its leader, epoch or log is about to change."""
        if partition.pending is not None:
            self._alter_isr.clear_pending(tp)

    # -- expansion

    def maybe_expand(self, tp: TopicPartition, partition: Partition, replica_id: int) -> None:
        """Propose a follower that has just fetched, if it may join and no proposal is pending."""
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
        """Apply the controller's decision on a proposal; return True if the ISR changed.

        As in 2.8.2 a proposal with a final error stays pending, so that nothing is proposed until
        the controller sends a new state. Any other error is retried later; 2.8.2 intends to retry
        at once but throws.
        """
        tp = result.topic_partition
        partition = self._look_up(tp)
        if partition is None or partition.pending != result.proposed:
            return False
        answer = result.answer
        if isinstance(answer, LeaderAndIsr):
            if partition.commit(answer):
                self._propose_next(tp, partition)
                return True
        elif answer not in _FINAL_ERRORS:
            partition.pending = None
            self._waiting[tp] = None
        return False

    @property
    def has_waiting(self) -> bool:
        """True if a caught-up replica of a live broker is still to be proposed."""
        return any(self._candidate(partition) is not None for partition in self._waiting_ones())

    def propose_waiting(self) -> None:
        """Propose replicas that were refused, or on brokers that are alive again."""
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
        """Check a partition from now on: a follower in this leader's ISR may be lagging."""
        self._lagging[tp] = None
        if self._check_at_ms is None:
            self._check_at_ms = now_ms + self._lag_time_max_ms / 2

    def next_due_ms(self) -> float | None:
        """Return when the ISRs of lagging partitions are to be checked; None: never."""
        return self._check_at_ms

    def on_timer(self, now_ms: float) -> None:
        """Propose ISRs without followers that have lagged for replica.lag.time.max.ms."""
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
    """Return the replicas that may join the ISR without another fetch.

    In Kafka these would fetch at the log end repeatedly. A replica that lags has to fetch first."""
    return [replica for replica in partition.caught_up() if not partition.lags(replica)]
