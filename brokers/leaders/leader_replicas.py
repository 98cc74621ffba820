"""The partitions that a broker leads: follower fetches, the high watermark, the ISR.

Requests are passed in and responses are returned as values; unsolicited responses to followers are
stored until the broker takes them. produces.py handles producers, and consumer_reads.py consumers.
Kafka's followers fetch continuously. klamm's followers fetch once; the leader then sends an
unsolicited response when it has more records, and repeats the response if the follower does not
fetch from the next offset within replica.fetch.wait.max.ms. Mirrors the leader's side of
kafka.server.ReplicaManager: fetchMessages, readFromLocalLog and kafka.server.DelayedFetch.
Unsolicited responses replace fetch sessions (KIP-227).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from typing import Final

from klamm.brokers.bandwidth.copying import ReplicaCopy
from klamm.brokers.config import BrokerConfig
from klamm.brokers.leaders.alter_isr_manager import AlterIsrResult
from klamm.brokers.leaders.consumer_reads import ConsumerReads
from klamm.brokers.leaders.copies import Copies
from klamm.brokers.leaders.deleted_records import RecordDeletion
from klamm.brokers.leaders.fetch_sessions import FetchSessions
from klamm.brokers.leaders.isr_changes import IsrChanges
from klamm.brokers.leaders.produces import Produces
from klamm.brokers.leaders.zk_isr_manager import IsrManager
from klamm.brokers.logs.errors import OnLogError, ReplicaLogError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.replica_log import Appended, ReplicaLog
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.partitions.log_schedules import LogSchedules
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import (
    UNKNOWN_OFFSET,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from klamm.cluster.quirks import Quirks
from klamm.cluster.records import Produced, Records
from klamm.cluster.requests import LeaderAndIsrPartitionState
from klamm.cluster.timers import earliest
from klamm.cluster.types import PartitionAndReplica, TopicPartition

_RARELY: Final = 5
"""Factor by which notifications to unreachable followers are delayed more than to others."""


class LeaderReplicas:
    """Handles the partitions that this broker leads.

    ReplicaManager updates ``partitions`` (all partitions that the broker hosts) and
    ``offline_partitions``. ``on_log_error`` handles a log failure and returns the error for the
    response. ``schedules``: the logs that grow without requests.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        metadata_cache: MetadataCache,
        partitions: Mapping[TopicPartition, Partition],
        offline_partitions: Container[TopicPartition],
        alter_isr_manager: IsrManager,
        on_log_error: OnLogError,
        copies: Copies,
        quirks: Quirks,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._metadata_cache = metadata_cache
        self._partitions = partitions
        self._offline_partitions = offline_partitions
        self.produces = Produces(
            broker_id, partitions, self._not_hosted, self._append, on_log_error
        )
        self.schedules = LogSchedules()
        self.isr_changes = IsrChanges(
            broker_id, config, metadata_cache, self._look_up, alter_isr_manager
        )
        sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.consumers = ConsumerReads(self.find, on_log_error, sessions, config.fetch_max_bytes)
        self.deletes = RecordDeletion(
            self.find, self._notify_of_start, on_log_error, metadata_cache
        )
        self._fetches = FollowerNotifications(config.replica_fetch_wait_max_ms)
        self._on_log_error = on_log_error
        self._stalls_after_shrinking = quirks.kafka_13091 and config.is_alter_isr_enabled
        self._unreachable = FollowerNotifications(_RARELY * config.replica_fetch_wait_max_ms)
        self._copies = copies
        self._probes: dict[PartitionAndReplica, None] = {}

    def use(self, schedules: LogSchedules) -> None:
        """Let logs grow by schedules, too."""
        self.schedules = self.consumers.schedules = schedules

    # -- leaders come and go

    def begin(self, partition: Partition, state: LeaderAndIsrPartitionState, now_ms: float) -> None:
        """Become the leader of a partition.

        Followers that need records fetch without being notified. If the log has records, in-sync
        followers that have not fetched within replica.fetch.wait.max.ms are notified. So are
        followers outside the ISR if this broker was restarted: it may have led at the same leader
        epoch before, and then they wait for a response.
        """
        tp = state.topic_partition
        was_restarted = partition.state is None and not state.is_new
        self.isr_changes.forget(tp, partition)
        self.schedules.on_new_epoch(tp)
        partition.make_leader(state, now_ms)
        if was_restarted:
            for replica_id in [r for r in partition.replicas if r not in partition.isr]:
                self._fetches.add_owing(tp, replica_id, now_ms)
        if partition.is_untouched:
            return
        self.increment_high_watermark(tp, partition, now_ms)
        for replica_id in partition.isr:
            if replica_id != self._broker_id:
                self._fetches.add_owing(tp, replica_id, now_ms)
                self.isr_changes.watch(tp, now_ms)

    def end(self, tp: TopicPartition, partition: Partition, error: Errors) -> None:
        """Stop leading a partition, if this broker leads it, and answer its delayed requests."""
        self.isr_changes.forget(tp, partition)
        self.schedules.end(tp, error)
        self.produces.end(tp, error)
        self.deletes.end(tp, error)
        self.consumers.end(tp, error)

    # -- appends

    def _append(
        self,
        tp: TopicPartition,
        partition: Partition,
        produced: Produced,
        now_ms: float,
        wall_ms: int,
    ) -> Appended:
        self.schedules.end(tp, Errors.NONE)
        appended = partition.append_as_leader(produced, wall_ms)
        self.notify_followers(tp, partition, now_ms)
        self.increment_high_watermark(tp, partition, now_ms)
        return appended

    def notify_followers(self, tp: TopicPartition, partition: Partition, now_ms: float) -> None:
        """Queue notifications of followers about appended records.

        The notifications are sent once the broker has handled the current message or timer.
        """
        followers = [r for r in partition.replicas if r != self._broker_id]
        if followers:
            self._fetches.add_pending(tp, followers)
            self.isr_changes.watch(tp, now_ms)

    def _notify_of_start(self, tp: TopicPartition, partition: Partition, now_ms: float) -> None:
        self.schedules.end(tp, Errors.NONE)
        self.notify_followers(tp, partition, now_ms)

    # -- fetches

    def fetch(self, request: FetchRequest, now_ms: float) -> FetchResponse:
        """Update a follower's positions, and respond with what is new in each partition.

        The fetch may let the follower join the ISR. It may also advance the high watermark; the
        other followers are then notified.
        """
        answers: dict[TopicPartition, FetchedPartition] = {}
        for tp, asked in request.partitions.items():
            partition = self.find(tp, asked.current_leader_epoch)
            if isinstance(partition, Errors):
                answers[tp] = FetchedPartition.refused(partition, asked)
                continue
            answer = partition.check_offsets(asked)
            try:
                if answer is None:
                    answer = self._fetched(tp, partition, request.replica_id, asked, now_ms)
            except ReplicaLogError as error:
                answer = FetchedPartition.refused(self._on_log_error(tp, error), asked)
            if answer is not None:
                answers[tp] = answer
        return FetchResponse(answers)

    def _fetched(
        self,
        tp: TopicPartition,
        partition: Partition,
        replica_id: int,
        asked: FetchPartition,
        now_ms: float,
    ) -> FetchedPartition | None:
        if not partition.record_fetch(replica_id, asked, now_ms):
            return None
        self._fetches.remove_owing(tp, replica_id)
        self._unreachable.remove_owing(tp, replica_id)
        if not self.schedules.on_fetch(tp, partition, replica_id, asked):
            return FetchedPartition(Errors.NONE, partition.leader_epoch, UNKNOWN_OFFSET)
        self.isr_changes.maybe_expand(tp, partition, replica_id)
        self.increment_high_watermark(tp, partition, now_ms)
        self.deletes.on_fetch(tp, partition)
        return self._next_response(tp, partition, replica_id, now_ms)

    def find(self, tp: TopicPartition, current_leader_epoch: int) -> Partition | Errors:
        """Return a partition that this broker leads at the given epoch.

        If this broker does not lead the partition at the epoch, return the error for the response.
        """
        partition = self._look_up(tp)
        if partition is None:
            return self._not_hosted(tp)
        return partition.check_fetch(self._broker_id, current_leader_epoch) or partition

    def _look_up(self, tp: TopicPartition) -> Partition | None:
        self.schedules.look_up(tp)
        return self._partitions.get(tp)

    def _not_hosted(self, partition: TopicPartition) -> Errors:
        if partition in self._offline_partitions:
            return Errors.KAFKA_STORAGE_ERROR
        if partition in self._metadata_cache:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.UNKNOWN_TOPIC_OR_PARTITION

    def _next_response(
        self, tp: TopicPartition, partition: Partition, replica_id: int, now_ms: float
    ) -> FetchedPartition | None:
        answer = pending_data_for(partition, replica_id, self._config.replica_fetch_max_bytes)
        offered = self.schedules.offer(tp, partition, replica_id, answer)
        if offered is not None:
            answer = offered
        elif answer is not None and self._copies.begin(tp, partition, replica_id, answer):
            return None
        if self.schedules.may_lag(tp, partition, replica_id) or (
            answer is not None and (answer.records is not None or answer.fetch_offset < 0)
        ):
            self.expect_fetch(tp, replica_id, now_ms)
        return answer

    def expect_fetch(self, tp: TopicPartition, replica_id: int, now_ms: float) -> None:
        """Expect a fetch from a follower, and notify the follower again if no fetch arrives.

        Followers that cannot be offered the schedule of a partition are notified less often.
        """
        is_reachable = self.schedules.is_reachable(tp, replica_id)
        (self._fetches if is_reachable else self._unreachable).add_owing(tp, replica_id, now_ms)

    def on_arrived(self, copy_id: ReplicaCopy, size_bytes: int, now_ms: float) -> None:
        """Handle the end of a copy, after which the follower is expected to fetch."""
        if (partition := self._led(copy_id.topic_partition)) is not None:
            self._copies.on_arrived(copy_id.follower, size_bytes, partition, now_ms)
            self.expect_fetch(copy_id.topic_partition, copy_id.follower, now_ms)

    def take_unsolicited_responses(self, now_ms: float) -> list[tuple[int, FetchResponse]]:
        """Remove and return the queued unsolicited responses, one for each live follower."""
        responses: list[tuple[int, FetchResponse]] = []
        alive = self._metadata_cache.alive_brokers
        for replica_id, tps in self._fetches.take_pending().items():
            if replica_id not in alive:
                continue
            answers: dict[TopicPartition, FetchedPartition] = {}
            for tp in tps:
                partition = self._led(tp)
                if partition is not None and replica_id in partition.replicas:
                    try:
                        answer = self._probe(tp, partition, replica_id) or self._next_response(
                            tp, partition, replica_id, now_ms
                        )
                    except ReplicaLogError as error:
                        self._on_log_error(tp, error)
                        continue
                    if answer is not None:
                        answers[tp] = answer
            if answers:
                responses.append((replica_id, FetchResponse(answers, is_unsolicited=True)))
        return responses

    def _is_behind(self, tp: TopicPartition, partition: Partition, replica_id: int) -> bool:
        """Return True if a follower lags, or does not follow the schedule of the partition."""
        return self.schedules.may_lag(tp, partition, replica_id) or partition.lags(replica_id)

    def _resend(
        self, tp: TopicPartition, partition: Partition, replica_id: int, now_ms: float
    ) -> None:
        """Resend records to a follower that has not fetched beyond the records sent last.

        If bandwidth is limited, first make the follower fetch, so that its position is known.
        """
        remote = partition.remote(replica_id)
        if remote is not None and remote.owes_fetch and self._copies.copying.is_limited:
            self._probes[PartitionAndReplica(tp, replica_id)] = None
            self.expect_fetch(tp, replica_id, now_ms)
        elif remote is not None and replica_id in self._metadata_cache.alive_brokers:
            remote.owes_fetch = False
        self._fetches.add_pending(tp, (replica_id,))

    def _probe(
        self, tp: TopicPartition, partition: Partition, replica_id: int
    ) -> FetchedPartition | None:
        """Return a response that makes a follower fetch, if ``_resend`` has requested this."""
        if not self._probes:
            return None
        key = PartitionAndReplica(tp, replica_id)
        if key not in self._probes:
            return None
        del self._probes[key]
        return FetchedPartition(Errors.NONE, partition.leader_epoch, UNKNOWN_OFFSET)

    def _led(self, tp: TopicPartition) -> Partition | None:
        partition = self._look_up(tp)
        return partition if partition and partition.is_leader(self._broker_id) else None

    def on_brokers_alive(self, returned: Set[int], now_ms: float) -> None:
        """Notify followers on brokers that are alive again, because they may have missed responses.

        An in-sync follower with an empty log fetches only after a response from the leader.
        """
        for tp, partition in self._partitions.items():
            if returned.isdisjoint(partition.replicas) or not partition.is_leader(self._broker_id):
                continue
            for replica_id in partition.replicas:
                if replica_id == self._broker_id or replica_id not in returned:
                    continue
                if self._is_behind(tp, partition, replica_id):
                    self._fetches.add_owing(tp, replica_id, now_ms)
                elif partition.remote(replica_id) is not None:
                    self._fetches.add_pending(tp, (replica_id,))

    # -- the high watermark and the ISR

    def increment_high_watermark(
        self, tp: TopicPartition, partition: Partition, now_ms: float, foreseen: bool = False
    ) -> None:
        """Advance the high watermark if the ISR allows it, and notify followers and clients.

        ``foreseen``: LogSchedules.enough_ms said when to retry delayed fetches, not now."""
        max_lag_ms = self._config.replica_lag_time_max_ms
        if partition.maybe_increment_high_watermark(self._broker_id, now_ms, max_lag_ms):
            self._fetches.add_pending(tp, self.schedules.to_notify(tp, partition))
            self.produces.complete(tp, partition)
            if not foreseen:
                self.consumers.on_high_watermarks((tp,), now_ms)

    def on_alter_isr_result(self, result: AlterIsrResult, now_ms: float) -> None:
        """Apply the controller's decision on an ISR proposal.

        If the ISR shrinks or a replica does not join it, the high watermark may advance.
        """
        tp = result.topic_partition
        if self.isr_changes.on_result(result) and not self._stalls_after_shrinking:
            self.increment_high_watermark(tp, self._partitions[tp], now_ms)

    def on_schedules_acknowledged(
        self, followers: Mapping[TopicPartition, Iterable[int]], now_ms: float
    ) -> None:
        """Notify followers and retry delayed fetches when schedules begin or cease to apply.

        While a schedule applies, the high watermark is a function of time, without messages."""
        for tp, replica_ids in followers.items():
            self._fetches.add_pending(tp, replica_ids)
        self.consumers.on_high_watermarks(followers, now_ms)

    # -- timers

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds."""
        due = (
            self._fetches.next_due_ms(self._metadata_cache.alive_brokers),
            self._unreachable.next_due_ms(self._metadata_cache.alive_brokers),
            self.isr_changes.next_due_ms(),
            self.produces.delayed.next_due_ms(),
            self.consumers.next_due_ms(),
            self.deletes.delayed.next_due_ms(),
        )
        return earliest(due)

    def on_timer(self, now_ms: float) -> None:
        """Resend unacknowledged records, check ISRs, and expire delayed requests."""
        due = (*self._fetches.take_due(now_ms), *self._unreachable.take_due(now_ms))
        for tp, replica_id in due:
            partition = self._led(tp)
            if partition is None:
                continue
            if partition.keeps_up(replica_id):
                self.isr_changes.maybe_expand(tp, partition, replica_id)
            elif self._is_behind(tp, partition, replica_id):
                self._resend(tp, partition, replica_id, now_ms)
        self.isr_changes.on_timer(now_ms)
        self.produces.delayed.on_timer(now_ms)
        self.consumers.on_timer(now_ms)
        self.deletes.delayed.on_timer(now_ms)


def pending_data_for(
    partition: Partition, replica_id: int, max_bytes: int
) -> FetchedPartition | None:
    """Return the records, high watermark and log start offset that are new for a follower.

    Return None if nothing is new, or if the follower has not acknowledged the last response. If the
    follower has not fetched at this leader epoch, return a response that makes it fetch.
    """
    log, epoch = partition.log, partition.leader_epoch
    assert log is not None
    remote = partition.remote(replica_id)
    if remote is None:
        return FetchedPartition(Errors.NONE, epoch, UNKNOWN_OFFSET)
    offset, start = remote.log_end_offset, log.log_start_offset
    high_watermark = partition.high_watermark
    has_records = offset < log.log_end_offset
    if remote.owes_fetch or not (
        has_records
        or remote.sent_high_watermark < high_watermark
        or remote.sent_log_start_offset < start
    ):
        return None
    records = None
    if has_records:
        records = _read(log, offset, max_bytes, is_in_isr=replica_id in partition.isr)
    remote.owes_fetch = has_records
    remote.sent_high_watermark = high_watermark
    remote.sent_log_start_offset = start
    return FetchedPartition(
        Errors.NONE,
        epoch,
        offset,
        remote.last_fetched_epoch,
        records,
        high_watermark,
        start,
    )


def _read(log: ReplicaLog, offset: int, max_bytes: int, *, is_in_isr: bool) -> Records:
    """Read the records to send to a follower.

    If the log is offset-only and the follower is outside the ISR, read all records at once.
    Otherwise, read at most ``max_bytes``.
    """
    if isinstance(log, IntervalLog) and not is_in_isr:
        return log.read_all(offset)
    return log.read(offset, max_bytes)


class FollowerNotifications:
    """Followers to notify of new data, and followers that are expected to fetch.

    A follower that has not fetched within ``repeat_after_ms`` is notified again.
    """

    def __init__(self, repeat_after_ms: float) -> None:
        self._repeat_after_ms = repeat_after_ms
        self._pending: dict[int, dict[TopicPartition, None]] = {}
        self._owing: dict[PartitionAndReplica, float] = {}

    def add_pending(self, partition: TopicPartition, replica_ids: Iterable[int]) -> None:
        """Queue notifications about a partition for followers."""
        for replica_id in replica_ids:
            pending = self._pending.get(replica_id)
            if pending is None:
                pending = self._pending[replica_id] = {}
            pending[partition] = None

    def take_pending(self) -> dict[int, dict[TopicPartition, None]]:
        """Remove and return the partitions with queued notifications, keyed by follower."""
        pending, self._pending = self._pending, {}
        return pending

    def add_owing(self, partition: TopicPartition, replica_id: int, now_ms: float) -> None:
        """Expect a follower to fetch a partition within ``repeat_after_ms``."""
        key = PartitionAndReplica(partition, replica_id)
        # All timeouts are equal, so the dictionary is sorted by expiry.
        self._owing.pop(key, None)
        self._owing[key] = now_ms + self._repeat_after_ms

    def remove_owing(self, partition: TopicPartition, replica_id: int) -> None:
        """Stop expecting a fetch of a partition from a follower, because the fetch has arrived."""
        if self._owing:
            self._owing.pop(PartitionAndReplica(partition, replica_id), None)

    def next_due_ms(self, alive: Container[int]) -> float | None:
        """Return the time at which a live follower is notified again, in monotonic milliseconds.

        Return None if no live follower is expected to fetch.
        """
        if not self._owing:
            return None
        return next((due for key, due in self._owing.items() if key.replica in alive), None)

    def take_due(self, now_ms: float) -> list[PartitionAndReplica]:
        """Remove and return the followers that have not fetched in time."""
        due = []
        for key, due_ms in self._owing.items():
            if due_ms > now_ms:
                break
            due.append(key)
        for key in due:
            del self._owing[key]
        return due
