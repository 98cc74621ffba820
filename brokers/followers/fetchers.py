"""Follower fetches of one broker, with at most one request in flight per leader.

A follower stops fetching once it has caught up, so that idle partitions cause no traffic. The
leader remembers the follower's position, and sends an unsolicited response when there are more
records. Mirrors kafka.server.{ReplicaFetcherManager, AbstractFetcherThread}.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Container

from klamm.brokers.config import BrokerConfig
from klamm.brokers.followers.follower import NextFetch, fetch_position, take_fetched
from klamm.brokers.logs.corrupt_batch import CorruptBatch, readable_batches
from klamm.brokers.logs.errors import CorruptRecord, InvalidRecord, OnLogError, ReplicaLogError
from klamm.brokers.logs.log_journal import FetchedCorruptBatch, LogJournal, Truncation
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
from klamm.cluster.protocols import SendRequest
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)


class _Fetcher:
    """State of the fetches from one leader.

    ``delayed`` contains the partitions whose fetch failed, with the time of the next attempt.
    """

    __slots__ = ("correlation_id", "delayed", "due_ms", "in_flight", "partitions")

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.delayed: dict[TopicPartition, float] = {}
        self.in_flight: dict[TopicPartition, FetchPartition] = {}
        self.correlation_id = -1
        self.due_ms = 0.0

    def remove(self, tp: TopicPartition) -> None:
        del self.partitions[tp]
        self.delayed.pop(tp, None)

    def ready(self) -> dict[TopicPartition, FetchPartition]:
        delayed = self.delayed
        if delayed and len(delayed) == len(self.partitions):
            return {}
        return {tp: fetch_position(p) for tp, p in self.partitions.items() if tp not in delayed}


class ReplicaFetcherManager:
    """All fetchers of one broker, keyed by leader.

    - ``on_log_error``: called with the errors of the followers' logs.
    - ``schedules``: the logs that grow without requests.
    - ``failed``: partitions with a log error, and those that a broker follows while it is shutting
      down. They are not fetched until the next LeaderAndIsr request for them.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        send: SendRequest,
        on_log_error: OnLogError,
        log_journal: LogJournal | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._send = send
        self.schedules = LogSchedules()
        self._fetchers: dict[int, _Fetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._on_log_error = on_log_error
        self._log_journal = log_journal
        self._reported_corrupt: dict[TopicPartition, FetchedCorruptBatch] = {}
        self._behind: dict[TopicPartition, tuple[float, Partition]] = {}
        self.failed: dict[TopicPartition, None] = {}

    @property
    def partition_count(self) -> int:
        """Number of partitions that are being fetched or are waiting to be fetched."""
        return len(self._leaders)

    def add(self, tp: TopicPartition, partition: Partition) -> None:
        """Fetch a partition from its leader until the leader has nothing new."""
        self.remove(tp)
        assert partition.state is not None
        leader = partition.state.leader
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = _Fetcher()
        fetcher.partitions[tp] = partition
        self._leaders[tp] = leader

    def remove(self, partition: TopicPartition) -> None:
        """Stop fetching a partition until the leader sends an unsolicited response, if ever."""
        self.failed.pop(partition, None)
        self._behind.pop(partition, None)
        leader = self._leaders.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].remove(partition)

    def stop(self, partition: TopicPartition) -> None:
        """Stop fetching a partition, and ignore unsolicited responses."""
        self.remove(partition)
        self.failed[partition] = None

    def maybe_fetch(self, alive: Container[int], now_ms: float) -> None:
        """Fetch the ready partitions, with at most one request in flight per leader.

        A request in flight to a dead leader is abandoned, and its partitions are fetched when the
        leader is alive again.
        """
        for leader, fetcher in self._fetchers.items():
            if leader not in alive:
                fetcher.in_flight = {}
                continue
            if fetcher.in_flight:
                continue
            ready = fetcher.ready()
            if ready:
                self.schedules.name_agreements(ready)
                fetcher.in_flight = ready
                fetcher.due_ms = now_ms + self._config.replica_socket_timeout_ms
                fetcher.correlation_id = self._send(
                    Address("broker", leader), FetchRequest(self._broker_id, ready)
                )

    def on_response(
        self, leader: int, correlation_id: int, response: FetchResponse, now_ms: float
    ) -> None:
        """Process the response to the fetch in flight.

        If a partition is missing from the response, the leader has nothing new for the partition.
        """
        fetcher = self._fetchers.get(leader)
        if fetcher is None or not fetcher.in_flight or fetcher.correlation_id != correlation_id:
            return
        sent, fetcher.in_flight = fetcher.in_flight, {}
        answers = response.partitions
        for tp, asked in sent.items():
            partition = fetcher.partitions.get(tp)
            if partition is None or partition.leader_epoch != asked.current_leader_epoch:
                continue
            answer = answers.get(tp)
            if answer is None:
                self._await_notification(tp, partition, now_ms)
            else:
                self._follow_up(tp, partition, self._take(tp, partition, answer, now_ms), now_ms)

    def on_unsolicited_response(
        self, tp: TopicPartition, partition: Partition, answer: FetchedPartition, now_ms: float
    ) -> None:
        """Process one partition of an unsolicited response from the current leader.

        If the response does not start at the follower's position, the follower fetches. If a fetch
        of the partition is already in flight, the request or its response was lost, and a new
        request is sent.
        """
        if tp in self.failed:
            return
        next_fetch = self._take(tp, partition, answer, now_ms)
        if tp in self.failed:
            return
        leader = self._leaders.get(tp)
        if next_fetch is NextFetch.ON_NOTIFICATION:
            if leader is None:
                self._await_notification(tp, partition, now_ms)
            return
        if leader is None:
            self.add(tp, partition)
        elif tp in self._fetchers[leader].in_flight:
            self._fetchers[leader].in_flight = {}
        self._follow_up(tp, partition, next_fetch, now_ms)

    def take_early(
        self, tp: TopicPartition, partition: Partition, answer: FetchedPartition, now_ms: float
    ) -> None:
        """Process the part of a response that has arrived so far, if bandwidth is limited.

        The rest arrives later, or is lost.
        """
        if tp not in self.failed:
            self._take(tp, partition, answer, now_ms)

    def _take(
        self, tp: TopicPartition, partition: Partition, answer: FetchedPartition, now_ms: float
    ) -> NextFetch:
        """Process one partition of a response; return the condition of the next fetch.

        Corrupt records are fetched again later. The partition is marked as failed if the follower's
        disk fails, or if the log does not accept the records.
        """
        try:
            if self.schedules.on_answer(tp, answer, now_ms):
                return NextFetch.ON_NOTIFICATION
            if answer.diverging is None and answer.error is Errors.NONE:
                next_fetch = take_fetched(partition, answer, now_ms)
                has_agreed = self.schedules.accept(tp, partition, answer)
                return NextFetch.AT_ONCE if has_agreed else next_fetch
            if answer.error is Errors.CORRUPT_MESSAGE:
                reason = "the leader cannot read the batch"
                self._report_corrupt_batch(tp, partition, answer, reason)
            return self._take_and_report_truncation(tp, partition, answer, now_ms)
        except (CorruptRecord, InvalidRecord) as error:
            self._report_corrupt_batch(tp, partition, answer, str(error))
            return NextFetch.DELAYED
        except ReplicaLogError as error:
            logger.error("Error while processing data for partition %s: %s", tp, error)
            self._on_log_error(tp, error)
            self.stop(tp)
            return NextFetch.NEVER

    def _take_and_report_truncation(
        self, tp: TopicPartition, partition: Partition, answer: FetchedPartition, now_ms: float
    ) -> NextFetch:
        log = partition.log
        assert log is not None and partition.state is not None
        end, size_bytes = log.log_end_offset, log.size_bytes
        high_watermark = partition.high_watermark
        next_fetch = take_fetched(partition, answer, now_ms)
        if log.log_end_offset < high_watermark:
            logger.warning(
                "broker %d: Truncating %s to offset %d below high watermark %d",
                self._broker_id,
                tp,
                log.log_end_offset,
                high_watermark,
            )
        if log.log_end_offset < end and self._log_journal is not None:
            cut = Truncation(
                end,
                log.log_end_offset,
                size_bytes - log.size_bytes,
                partition.state.leader,
                partition.leader_epoch,
            )
            self._log_journal.truncated(self._broker_id, tp, cut)
        return next_fetch

    def _report_corrupt_batch(
        self, tp: TopicPartition, partition: Partition, answer: FetchedPartition, reason: str
    ) -> None:
        """Log a corrupt batch and write it to the journal, but only when it is first fetched."""
        offset, records = answer.fetch_offset, answer.records
        batch = readable_batches(records, offset).corrupt if isinstance(records, bytes) else None
        assert partition.state is not None
        corrupt = FetchedCorruptBatch(
            tp,
            partition.state.leader,
            partition.leader_epoch,
            batch or CorruptBatch(offset, UNKNOWN_OFFSET, reason),
        )
        if self._reported_corrupt.get(tp) == corrupt:
            return
        self._reported_corrupt[tp] = corrupt
        logger.error(
            "broker %d: Found invalid messages during fetch for partition %s offset %d from broker "
            "%d: %s",
            self._broker_id,
            tp,
            corrupt.batch.offset,
            corrupt.leader,
            corrupt.batch.reason,
        )
        if self._log_journal is not None:
            self._log_journal.corrupt(corrupt, fetched_by=f"broker {self._broker_id}")

    def _follow_up(
        self, tp: TopicPartition, partition: Partition, next_fetch: NextFetch, now_ms: float
    ) -> None:
        match next_fetch:
            case NextFetch.ON_NOTIFICATION:
                self._await_notification(tp, partition, now_ms)
            case NextFetch.NEVER:
                self.stop(tp)
            case NextFetch.DELAYED:
                delayed = self._fetchers[self._leaders[tp]].delayed
                delayed.pop(tp, None)
                delayed[tp] = now_ms + self._config.replica_fetch_backoff_ms
            case NextFetch.AT_ONCE:
                self._fetchers[self._leaders[tp]].delayed.pop(tp, None)

    def _await_notification(self, tp: TopicPartition, partition: Partition, now_ms: float) -> None:
        """Stop fetching a partition until the leader sends an unsolicited response.

        A follower that has records above the high watermark fetches again after
        replica.fetch.wait.max.ms, because the leader does not repeat a lost update of the high
        watermark. (Kafka's followers always fetch again.)
        """
        self.remove(tp)
        if tp in self.schedules or partition.log is None:
            return
        if partition.high_watermark < partition.log.log_end_offset:
            again_ms = now_ms + self._config.replica_fetch_wait_max_ms
            self._behind[tp] = again_ms, partition

    def next_due_ms(self, alive: Container[int]) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return None if nothing is due before a message arrives. Requests to leaders that are not in
        ``alive`` are ignored.
        """
        # All delays are equal, so the oldest entry of a dictionary is due first.
        due = [next(iter(self._behind.values()))[0]] if self._behind else []
        for leader, fetcher in self._fetchers.items():
            if not (fetcher.in_flight or fetcher.delayed) or leader not in alive:
                continue
            if fetcher.in_flight:
                due.append(fetcher.due_ms)
            else:
                due.append(next(iter(fetcher.delayed.values())))
        return min(due) if due else None

    def on_timer(self, now_ms: float) -> None:
        """Time out unanswered requests, and retry partitions whose delay is over."""
        due = itertools.takewhile(lambda item: item[1][0] <= now_ms, self._behind.items())
        for tp, (_, partition) in list(due):
            self.add(tp, partition)
        for fetcher in self._fetchers.values():
            if fetcher.in_flight and now_ms >= fetcher.due_ms:
                fetcher.in_flight = {}
            over = [tp for tp, due_ms in fetcher.delayed.items() if due_ms <= now_ms]
            for tp in over:
                del fetcher.delayed[tp]
