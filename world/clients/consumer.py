"""A consumer of manually assigned partitions: finds leaders, fetches, and tracks its position.

The consumer does no I/O and reads no clock: messages are passed in and returned as values, and the
time is an argument. The caller calls ``on_timer`` at the time returned by ``next_due_ms``. The
consumer records the offsets it has read, and every log truncation below its position. There are no
consumer groups and no committed offsets. Mirrors Fetcher and SubscriptionState of
org.apache.kafka.clients.consumer.internals.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from klamm.brokers.logs.corrupt_batch import CorruptBatch
from klamm.brokers.logs.log_journal import FetchedCorruptBatch, LogJournal
from klamm.brokers.logs.record_batch import walk
from klamm.brokers.logs.records import decode_batch
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    LeaderEpochEnd,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)
from klamm.cluster.data_requests import (
    CONSUMER_REPLICA_ID,
    UNKNOWN_OFFSET,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from klamm.cluster.records import Records, StoredRecord, Stretch
from klamm.cluster.requests import Address, Message, Request
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.world.clients.config import ConsumerConfig
from klamm.world.clients.network_client import Ended, NetworkClient
from klamm.world.clients.ranges import add_stretch, readable_part
from klamm.world.clients.retriable import INVALID_METADATA


class Position(NamedTuple):
    """A consumer's position in a partition.

    - ``offset``: the offset of the next record.
    - ``epoch``: the leader epoch of the record before the next record; -1 if it is unknown.
    - ``validated_epoch``: the last leader epoch for which the consumer has checked that the
      leader's log contains the position.
    """

    offset: int
    epoch: int = NO_EPOCH
    validated_epoch: int = NO_EPOCH

    def must_be_validated(self, leader_epoch: int) -> bool:
        """Return True if a newer leader may have truncated the log below the position."""
        return self.epoch != NO_EPOCH and leader_epoch > self.validated_epoch


NOWHERE: Final = Position(-1)


class AwaitReset(msgspec.Struct, frozen=True):
    """State of a partition whose position is unknown and has to be looked up by timestamp.

    A ``timestamp_ms`` of -1 means the high watermark, and -2 means the log start offset.
    """

    timestamp_ms: int
    position: Position = NOWHERE


class AwaitValidation(msgspec.Struct, frozen=True):
    """State of a partition whose leader epoch has changed.

    The consumer checks that the new leader's log contains the position.
    """

    position: Position


class Fetching(msgspec.Struct, frozen=True):
    """State of a partition whose position is valid, so that it can be fetched."""

    position: Position


FetchState = AwaitReset | AwaitValidation | Fetching


logger = logging.getLogger(__name__)

_RESETS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class Read(NamedTuple):
    """Fetched records of one partition.

    The first batch may begin before ``offset``; the consumer skips the records before ``offset``.
    """

    topic_partition: TopicPartition
    offset: int
    records: Records
    stretches: tuple[Stretch, ...]

    def decoded(self) -> Iterator[tuple[int, StoredRecord]]:
        """Yield the records, each after its leader epoch; none if only counts were fetched.

        Transaction markers are omitted. Raises CorruptRecord."""
        records = self.records
        if not isinstance(records, bytes):
            return
        for at, header in walk(records):
            if header.is_control:
                continue
            for stored in decode_batch(records[at : at + header.size_bytes], header):
                if stored.offset >= self.offset:
                    yield header.leader_epoch, stored


class LogTruncation(NamedTuple):
    """A log truncation that removed records that the consumer had already read.

    - ``position``: the consumer's position when it detected the truncation.
    - ``diverged_at``: offset of the first removed record; -1 if it is unknown.
    """

    topic_partition: TopicPartition
    position: Position
    diverged_at: int


class Consumer:
    """One consumer. Times are in monotonic milliseconds.

    - ``bootstrap``: ids of the brokers to contact first.
    - ``read``: the offset ranges that were read from each partition, in reading order.
    - ``errors``: partitions that the consumer has stopped reading, each with Kafka's error message.
      ``seek`` clears the error.
    - ``is_paused``: if True, no fetches are sent.
    - ``keeps_records``: if True, fetched records are stored until ``take_records`` is called, and
      no more records of the same partition are fetched until then.
    - ``log_journal``: receives journal rows about corrupt batches.
    """

    def __init__(
        self,
        address: Address,
        bootstrap: Iterable[int],
        config: ConsumerConfig | None = None,
        *,
        keeps_records: bool = False,
        log_journal: LogJournal | None = None,
    ) -> None:
        self.address = address
        self._log_journal = log_journal
        self.config = config or ConsumerConfig()
        self._keeps_records = keeps_records
        self.network = NetworkClient(address, self.config, bootstrap)
        self.read: dict[TopicPartition, list[Stretch]] = {}
        self.truncations: list[LogTruncation] = []
        self.errors: dict[TopicPartition, str] = {}
        self.last_errors: dict[TopicPartition, Errors] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.is_paused = False
        self._states: dict[TopicPartition, FetchState] = {}
        self._retry_ms: dict[TopicPartition, float] = {}
        self._asked: dict[TopicPartition, int] = {}
        self._fetched: dict[TopicPartition, Read] = {}
        self._validated = 0

    # -- interface for callers

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assigned partitions.

        Newly assigned partitions are read from the offset that auto.offset.reset determines.
        """
        wanted = dict.fromkeys(partitions)
        self._states = {tp: self._states.get(tp) or self._reset_state(tp) for tp in wanted}
        for tp in wanted:
            self.network.metadata.add_topic(tp.topic)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue reading a partition at this offset."""
        self._set(tp, Fetching(Position(offset)))

    def seek_to_time(self, tp: TopicPartition, timestamp_ms: int) -> None:
        """Continue reading a partition at the first record at or after a timestamp.

        If there is no such record, continue at the high watermark.
        """
        self._set(tp, AwaitReset(timestamp_ms))

    def seek_to_beginning(self, tp: TopicPartition) -> None:
        """Continue reading a partition at its log start offset."""
        self._set(tp, AwaitReset(EARLIEST_TIMESTAMP))

    def seek_to_end(self, tp: TopicPartition) -> None:
        """Continue reading a partition at its high watermark."""
        self._set(tp, AwaitReset(LATEST_TIMESTAMP))

    def position(self, tp: TopicPartition) -> int | None:
        """Return the offset of the next record to read, or None if it is not known yet."""
        position = self._states[tp].position
        return None if position is NOWHERE else position.offset

    @property
    def has_records(self) -> bool:
        """True if ``take_records`` would return records."""
        return bool(self._fetched)

    def take_records(self) -> list[Read]:
        """Remove and return the records fetched since the last call.

        Records are kept for this method only if ``keeps_records`` is True.
        """
        fetched, self._fetched = self._fetched, {}
        return list(fetched.values())

    # -- messages and timers

    def take_messages(self) -> list[Message]:
        """Remove and return the messages to be sent."""
        return self.network.take_messages()

    def receive(self, message: Message, now_ms: float) -> None:
        """Process a response or a lost connection."""
        for ended in self.network.receive(message, now_ms):
            self._on_ended(ended, now_ms)
        self.on_timer(now_ms)

    def on_timer(self, now_ms: float) -> None:
        """Do everything that is due: time out requests, look up positions, fetch."""
        for ended in self.network.on_timer(now_ms):
            self._on_ended(ended, now_ms)
        metadata = self.network.metadata
        if self._validated != metadata.update_count:
            self._validated = metadata.update_count
            for tp, state in self._states.items():
                epoch = metadata.leader_of(tp).epoch
                if isinstance(state, Fetching) and state.position.must_be_validated(epoch):
                    self._states[tp] = AwaitValidation(state.position)
        self._ask(now_ms)

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return None if nothing is due before a message arrives.
        """
        due_ms, leader_of = self.network.next_due_ms(), self.network.metadata.leader_of
        busy = self.network.in_flight_of(FetchRequest)
        for tp in self._states:
            if tp not in self._asked:
                due_ms = min(due_ms, self._ready_ms(tp, leader_of(tp).leader, busy))
        return None if due_ms == math.inf else due_ms

    def _ready_ms(self, tp: TopicPartition, leader: int, busy: Container[int]) -> float:
        """Return the time from which a request for a partition without a request may be sent.

        Return infinity if the partition must wait for a message or for a call such as ``seek``.
        ``busy``: the brokers that have a fetch in flight.
        """
        state = self._states[tp]
        if tp in self.errors or leader < 0:
            return math.inf
        if isinstance(state, Fetching) and (
            self.is_paused or tp in self._fetched or leader in busy
        ):
            return math.inf
        return max(self._retry_ms.get(tp, 0.0), self.network.ready_ms(leader))

    # -- asking

    def _ask(self, now_ms: float) -> None:
        """Send each leader at most one request of each type for the partitions that are ready."""
        ready: dict[tuple[int, type[FetchState]], list[TopicPartition]] = {}
        metadata = self.network.metadata
        invalid_topics, busy = metadata.invalid_topics, self.network.in_flight_of(FetchRequest)
        for tp, state in self._states.items():
            leader = metadata.leader_of(tp).leader
            if tp.topic in invalid_topics:
                self.errors[tp] = f"Invalid topics: [{tp.topic}]"
            elif leader < 0:
                metadata.request_update()
            elif tp not in self._asked and self._ready_ms(tp, leader, busy) <= now_ms:
                ready.setdefault((leader, type(state)), []).append(tp)
        for (leader, _), tps in ready.items():
            number = self.network.send(leader, self._request_for(tps), now_ms)
            self._asked.update(dict.fromkeys(tps, number))

    def _request_for(self, tps: list[TopicPartition]) -> Request:
        """Return one request for partitions that are all in the same state."""
        config = self.config
        epochs = {tp: self.network.metadata.leader_of(tp).epoch for tp in tps}
        resets: dict[TopicPartition, ListOffsetsPartition] = {}
        validations: dict[TopicPartition, OffsetForLeaderPartition] = {}
        fetches: dict[TopicPartition, FetchPartition] = {}
        for tp, epoch in epochs.items():
            match self._states[tp]:
                case AwaitReset(timestamp_ms=timestamp_ms):
                    resets[tp] = ListOffsetsPartition(timestamp_ms, epoch)
                case AwaitValidation(position=position):
                    validations[tp] = OffsetForLeaderPartition(position.epoch, epoch)
                case Fetching(position=position):
                    fetches[tp] = FetchPartition(
                        position.offset, epoch, max_bytes=config.max_partition_fetch_bytes
                    )
        if resets:
            return ListOffsetsRequest(resets)
        if validations:
            return OffsetsForLeaderEpochRequest(validations)
        return FetchRequest(
            CONSUMER_REPLICA_ID,
            fetches,
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
        )

    # -- answers

    def _on_ended(self, ended: Ended, now_ms: float) -> None:
        waiting = [tp for tp, number in self._asked.items() if number == ended.correlation_id]
        for tp in waiting:
            del self._asked[tp]
        answers: Mapping[TopicPartition, object] = {}
        if isinstance(
            ended.answer, FetchResponse | ListOffsetsResponse | OffsetsForLeaderEpochResponse
        ):
            answers = ended.answer.partitions
        for tp in waiting:
            answer, state = answers.get(tp), self._states.get(tp)
            if state is None:
                continue
            if isinstance(answer, FetchedPartition) and isinstance(state, Fetching):
                self._on_fetched(tp, state, answer, ended.broker_id, now_ms)
            elif isinstance(answer, ListedOffset) and isinstance(state, AwaitReset):
                self._on_offset(tp, state, answer, now_ms)
            elif isinstance(answer, LeaderEpochEnd) and isinstance(state, AwaitValidation):
                self._on_epoch_end(tp, state, answer, now_ms)
            elif answer is None:
                self._retry(tp, Errors.NETWORK_EXCEPTION, now_ms)

    def _retry(self, tp: TopicPartition, error: Errors, now_ms: float) -> None:
        self.last_errors[tp] = error
        if error in INVALID_METADATA or error is Errors.OFFSET_NOT_AVAILABLE:
            self.network.metadata.request_update()
        self._retry_ms[tp] = now_ms + self.config.retry_backoff_ms

    def _on_fetched(
        self,
        tp: TopicPartition,
        state: Fetching,
        answer: FetchedPartition,
        leader: int,
        now_ms: float,
    ) -> None:
        position = state.position
        if answer.fetch_offset != position.offset:
            return
        if answer.error is Errors.OFFSET_OUT_OF_RANGE:
            self._reset_or_fail(
                tp,
                f"Fetch position {position.offset} is out of range for partition {tp}: the "
                f"log start offset is {answer.log_start_offset} and the high watermark is "
                f"{answer.log_end_offset}",
            )
            return
        if answer.error is Errors.CORRUPT_MESSAGE:
            text = (
                f"Encountered corrupt message when fetching offset {position.offset} "
                f"for topic-partition {tp}"
            )
            batch = CorruptBatch(
                position.offset, UNKNOWN_OFFSET, "the leader cannot read the batch"
            )
            self._stop_at_corrupt_batch(
                FetchedCorruptBatch(tp, leader, answer.leader_epoch, batch), text
            )
            return
        if answer.error is not Errors.NONE:
            self._retry(tp, answer.error, now_ms)
            return
        self.high_watermarks[tp] = answer.high_watermark
        self.last_errors.pop(tp, None)
        if answer.records is None:
            return
        records, stretches, corrupt = readable_part(answer.records, position.offset)
        if not stretches:
            if corrupt is not None:
                found = FetchedCorruptBatch(tp, leader, answer.leader_epoch, corrupt)
                self._stop_at_corrupt_batch(found, _invalid(tp, corrupt))
            return
        for stretch in stretches:
            add_stretch(self.read.setdefault(tp, []), stretch)
        if self._keeps_records:
            self._fetched[tp] = Read(tp, position.offset, records, tuple(stretches))
        epoch = max(self.network.metadata.leader_of(tp).epoch, position.validated_epoch)
        self._states[tp] = Fetching(Position(stretches[-1].end, stretches[-1].leader_epoch, epoch))

    def _on_offset(
        self, tp: TopicPartition, state: AwaitReset, answer: ListedOffset, now_ms: float
    ) -> None:
        if answer.error is not Errors.NONE:
            self._retry(tp, answer.error, now_ms)
        elif answer.offset < 0:
            self._states[tp] = AwaitReset(LATEST_TIMESTAMP)
        else:
            epoch = self.network.metadata.leader_of(tp).epoch
            self._states[tp] = Fetching(Position(answer.offset, answer.leader_epoch, epoch))

    def _on_epoch_end(
        self, tp: TopicPartition, state: AwaitValidation, answer: LeaderEpochEnd, now_ms: float
    ) -> None:
        """Process a validation result: continue fetching, or handle a truncation (KIP-320)."""
        if answer.error is not Errors.NONE:
            self._retry(tp, answer.error, now_ms)
            return
        position = state.position
        epoch, end = answer.end
        known_epoch = self.network.metadata.leader_of(tp).epoch
        if end >= position.offset:
            self._states[tp] = Fetching(position._replace(validated_epoch=known_epoch))
            return
        self.truncations.append(LogTruncation(tp, position, end))
        if epoch == NO_EPOCH or self.config.auto_offset_reset == "none":
            self._reset_or_fail(tp, _truncated(tp, position, answer))
        else:
            self._states[tp] = Fetching(Position(end, epoch, known_epoch))

    # -- positions

    def _set(self, tp: TopicPartition, state: FetchState) -> None:
        assert tp in self._states, f"{tp} is not assigned"
        self._states[tp] = state
        self._asked.pop(tp, None)
        self._fetched.pop(tp, None)
        self.errors.pop(tp, None)

    def _reset_state(self, tp: TopicPartition) -> FetchState:
        timestamp_ms = _RESETS.get(self.config.auto_offset_reset)
        if timestamp_ms is None:
            self.errors[tp] = f"Undefined offset with no reset policy for partitions: [{tp}]"
            return AwaitReset(LATEST_TIMESTAMP)
        return AwaitReset(timestamp_ms)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that are assigned to the consumer."""
        return tuple(self._states)

    def _reset_or_fail(self, tp: TopicPartition, text: str) -> None:
        self._states[tp] = self._reset_state(tp)
        if tp in self.errors:
            self.errors[tp] = text

    def _stop_at_corrupt_batch(self, found: FetchedCorruptBatch, text: str) -> None:
        # Brokers send batches unchecked, so the consumer is the first to detect a corrupt batch.
        logger.warning("consumer: %s", text)
        self.errors[found.topic_partition] = text
        if self._log_journal is not None:
            self._log_journal.corrupt(found, fetched_by="consumer")


def _invalid(tp: TopicPartition, batch: CorruptBatch) -> str:
    where = (
        f"; the next batch starts at offset {batch.next_offset}" if batch.next_offset >= 0 else ""
    )
    return (
        f"Record batch for partition {tp} at offset {batch.offset} is invalid, cause: "
        f"{batch.reason}. If needed, please seek past the record to continue consumption{where}"
    )


def _truncated(tp: TopicPartition, position: Position, answer: LeaderEpochEnd) -> str:
    epoch, end = answer.end
    where = "" if epoch == NO_EPOCH else f", but the leader's epoch {epoch} ends at offset {end}"
    return (
        f"Detected log truncation of partition {tp}: the consumer was at offset "
        f"{position.offset} of epoch {position.epoch}{where}"
    )
