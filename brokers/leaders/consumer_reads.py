"""Consumer requests at a leader: Fetch, ListOffsets and OffsetsForLeaderEpoch.

A fetch that finds too few bytes is delayed: it is stored here until enough bytes are below the high
watermarks. Only the sizes are looked up when a high watermark advances; the records are read once,
for the response. This module reads no clock and appends to no log. Mirrors
kafka.server.DelayedFetch, readFromLocalLog of kafka.server.ReplicaManager, and
fetchOffsetForTimestamp and lastOffsetForLeaderEpoch of kafka.cluster.Partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import msgspec

from klamm.brokers.leaders.fetch_sessions import Fetched, FetchSession, FetchSessions
from klamm.brokers.leaders.purgatory import Purgatory
from klamm.brokers.logs.errors import OnLogError, ReplicaLogError
from klamm.brokers.partitions.log_schedules import LogSchedules
from klamm.brokers.partitions.partition import Partition
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
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from klamm.cluster.records import size_of
from klamm.cluster.requests import Message
from klamm.cluster.types import TopicPartition

Find = Callable[[TopicPartition, int], Partition | Errors]


class _Waiting(msgspec.Struct):
    """A delayed fetch, which times out at ``due_ms``.

    It is answered earlier, at ``enough_ms``, if the schedules of logs add enough bytes.
    """

    message: Message
    request: FetchRequest
    session: FetchSession | None
    due_ms: float
    enough_ms: float = math.inf


class _Read(msgspec.Struct):
    """Result of reading the partitions of a fetch.

    ``is_final`` is True if a partition has an error: the fetch is then answered without delay.
    """

    partitions: dict[TopicPartition, FetchedPartition]
    size_bytes: int
    is_final: bool


class ConsumerReads(Purgatory[_Waiting, FetchResponse]):
    """Handles the requests of consumers for the partitions that one broker leads.

    ``find`` returns the partition if this broker leads it at the requested epoch, or an error.
    ``on_log_error`` handles a log failure and returns the error for the response. A response has at
    most ``max_bytes``, but at least one batch.
    """

    def __init__(
        self,
        find: Find,
        on_log_error: OnLogError,
        sessions: FetchSessions,
        max_bytes: int,
    ) -> None:
        super().__init__()
        self._find = find
        self._sessions = sessions
        self._max_bytes = max_bytes
        self.schedules = LogSchedules()
        self._on_log_error = on_log_error

    # -- fetches

    def fetch(self, message: Message, request: FetchRequest, now_ms: float) -> FetchResponse | None:
        """Return the response to a fetch, or None if the fetch is delayed and answered later."""
        begun = self._sessions.begin(request, now_ms)
        if isinstance(begun, FetchResponse):
            return begun
        request, session = begun
        read = self._read(request)
        is_enough = read.is_final or read.size_bytes >= self._min_bytes(request)
        if request.max_wait_ms <= 0 or not request.partitions or is_enough:
            return self._sessions.respond(request, session, read.partitions, now_ms)
        waiting = _Waiting(message, request, session, now_ms + request.max_wait_ms)
        self._try(self._watch(waiting, request.partitions), now_ms)
        return None

    def on_high_watermarks(self, tps: Iterable[TopicPartition], now_ms: float) -> None:
        """Retry the delayed fetches of some partitions.

        Call this when high watermarks have advanced, or when the schedules of logs start or stop
        advancing them.
        """
        numbers = [number for tp in tps for number in self._by_partition.get(tp, ())]
        for number in dict.fromkeys(numbers):
            self._try(number, now_ms)

    def end(self, tp: TopicPartition, error: Errors) -> None:
        """Answer the delayed fetches of a partition that this broker stops leading.

        The response for the partition contains ``error``. Call this before the partition is removed
        or this broker becomes a follower.
        """
        while numbers := self._by_partition.get(tp):
            number = next(iter(numbers))
            asked = self._waiting[number].request.partitions[tp]
            self._answer(number, {tp: FetchedPartition.refused(error, asked)})

    def on_timer(self, now_ms: float) -> None:
        """Answer the delayed fetches that have timed out, or that have enough bytes by now."""
        if now_ms < self._due_ms:
            return
        for number, waiting in list(self._waiting.items()):
            if min(waiting.due_ms, waiting.enough_ms) <= now_ms:
                self._try(number, now_ms)
        waiting_until = (min(one.due_ms, one.enough_ms) for one in self._waiting.values())
        self._due_ms = min(waiting_until, default=math.inf)

    def _try(self, number: int, now_ms: float) -> None:
        """Answer a delayed fetch if enough bytes are available or if it has timed out.

        Otherwise set the time at which the schedules of logs will have added enough bytes.
        """
        waiting = self._waiting.get(number)
        if waiting is None:
            return
        request, available = waiting.request, None
        if waiting.due_ms > now_ms:
            available = self._available(request)
            if number not in self._waiting:
                return  # finding a partition has advanced its high watermark
        missing_bytes = 0
        if available is not None:
            missing_bytes = self._min_bytes(request) - sum(available.values())
        if available is None or missing_bytes <= 0:
            self._answer(number, {})
            return
        room = {tp: request.partitions[tp].max_bytes - size for tp, size in available.items()}
        waiting.enough_ms = self.schedules.enough_ms(room, missing_bytes, now_ms, waiting.due_ms)
        self._due_ms = min(self._due_ms, waiting.due_ms, waiting.enough_ms)

    def _available(self, request: FetchRequest) -> dict[TopicPartition, int] | None:
        """Return how many bytes of each partition a response may have.

        Return None if the fetch must be answered at once: a partition has an error, or its high
        watermark is in another segment than the fetch offset.
        """
        available: dict[TopicPartition, int] = {}
        for tp, asked in request.partitions.items():
            partition = self._find(tp, asked.current_leader_epoch)
            if isinstance(partition, Errors):
                return None
            assert partition.log is not None
            try:
                size = partition.log.size_between(asked.fetch_offset, partition.high_watermark)
            except ReplicaLogError as error:
                self._on_log_error(tp, error)
                return None
            if size is None:
                return None
            available[tp] = min(size, asked.max_bytes)
        return available

    def _min_bytes(self, request: FetchRequest) -> int:
        return min(request.min_bytes, request.max_bytes, self._max_bytes)

    def _answer(self, number: int, refused: Fetched) -> None:
        """Answer a delayed fetch: with records, or for ``refused`` partitions with an error."""
        # Reading advances high watermarks, too: this fetch must not be tried again.
        waiting = self._waiting.pop(number)
        request, session = waiting.request, waiting.session
        for tp in request.partitions:
            self._unwatch(number, tp)
        asked_ms = waiting.due_ms - request.max_wait_ms
        fetched = {**self._read(request).partitions, **refused}
        response = self._sessions.respond(request, session, fetched, asked_ms)
        self._answers.append((waiting.message, response))

    def _read(self, request: FetchRequest) -> _Read:
        """Read the partitions of a request in order, up to its ``max_bytes``.

        The first partition with records returns at least one batch, whatever its size.
        """
        read, max_bytes = _Read({}, 0, is_final=False), min(request.max_bytes, self._max_bytes)
        for tp, asked in request.partitions.items():
            left_bytes = min(asked.max_bytes, max_bytes - read.size_bytes)
            fetched = self._read_partition(tp, asked, left_bytes, is_first=not read.size_bytes)
            read.partitions[tp] = fetched
            read.size_bytes += size_of(fetched.records) if fetched.records is not None else 0
            read.is_final |= fetched.error is not Errors.NONE
        return read

    def _read_partition(
        self, tp: TopicPartition, asked: FetchPartition, max_bytes: int, *, is_first: bool
    ) -> FetchedPartition:
        partition = self._find(tp, asked.current_leader_epoch)
        if isinstance(partition, Errors):
            return FetchedPartition.refused(partition, asked)
        log = partition.log
        assert log is not None
        end = partition.high_watermark if max_bytes > 0 or is_first else asked.fetch_offset
        try:
            records = log.read(asked.fetch_offset, max_bytes, end)
            if size_of(records) > max_bytes and not is_first:
                records = log.read(asked.fetch_offset, 0, asked.fetch_offset)
        except ReplicaLogError as error:
            return msgspec.structs.replace(
                FetchedPartition.refused(self._on_log_error(tp, error), asked),
                log_start_offset=log.log_start_offset,
                log_end_offset=partition.high_watermark,
            )
        return FetchedPartition(
            Errors.NONE,
            partition.leader_epoch,
            asked.fetch_offset,
            records=records,
            high_watermark=partition.high_watermark,
            log_start_offset=log.log_start_offset,
        )

    # -- offsets

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Return start and end offsets of logs, or offsets by timestamp, as consumers see them."""
        return ListOffsetsResponse(
            {tp: self._list_offset(tp, asked) for tp, asked in request.partitions.items()}
        )

    def _list_offset(self, tp: TopicPartition, asked: ListOffsetsPartition) -> ListedOffset:
        partition = self._find(tp, asked.current_leader_epoch)
        if isinstance(partition, Errors):
            return ListedOffset(partition)
        try:
            return _offset_at(partition, asked.timestamp_ms)
        except ReplicaLogError as error:
            return ListedOffset(self._on_log_error(tp, error))

    def offsets_for_leader_epoch(
        self, request: OffsetsForLeaderEpochRequest
    ) -> OffsetsForLeaderEpochResponse:
        """Return the end offsets of the requested leader epochs."""
        return OffsetsForLeaderEpochResponse(
            {tp: self._epoch_end(tp, asked) for tp, asked in request.partitions.items()}
        )

    def _epoch_end(self, tp: TopicPartition, asked: OffsetForLeaderPartition) -> LeaderEpochEnd:
        partition = self._find(tp, asked.current_leader_epoch)
        if isinstance(partition, Errors):
            return LeaderEpochEnd(partition)
        assert partition.log is not None
        return LeaderEpochEnd(Errors.NONE, partition.log.end_offset_for(asked.leader_epoch))


def _offset_at(partition: Partition, timestamp_ms: int) -> ListedOffset:
    """Return the offset for a timestamp, or for LATEST_TIMESTAMP or EARLIEST_TIMESTAMP.

    Clients can read a log up to the high watermark. While the high watermark of a new leader is
    below the start offset of its epoch, the end of the log is OFFSET_NOT_AVAILABLE (KIP-207).
    """
    log = partition.log
    assert log is not None
    is_behind = partition.epoch_start_offset > partition.high_watermark
    if timestamp_ms == LATEST_TIMESTAMP:
        if is_behind:
            return ListedOffset(Errors.OFFSET_NOT_AVAILABLE)
        end = partition.high_watermark
        return ListedOffset(Errors.NONE, offset=end, leader_epoch=partition.leader_epoch)
    if timestamp_ms == EARLIEST_TIMESTAMP:
        start = log.log_start_offset
        first = next(iter(log.intervals()), None)
        epoch = partition.leader_epoch if first is None else first.leader_epoch
        return ListedOffset(Errors.NONE, offset=start, leader_epoch=epoch)
    found = log.offset_for_time(timestamp_ms)
    if found is not None and found.offset < partition.high_watermark:
        return ListedOffset(Errors.NONE, *found)
    return ListedOffset(Errors.OFFSET_NOT_AVAILABLE if is_behind else Errors.NONE)
