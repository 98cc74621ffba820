"""Reads and appends the records of groups in ``__consumer_offsets``.

The coordinator appends through its own broker with acks -1, so that nothing that it has
acknowledged is lost with the broker. Mirrors appendForGroup and doLoadGroupsAndOffsets of
kafka.coordinator.group.GroupMetadataManager. The codec of records is imported only for logs that
store them, because it loads the compression libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from klamm.brokers.groups.group import Group
from klamm.brokers.groups.group_records import (
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from klamm.brokers.leaders.produces import Produces
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.record_batch import walk
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest, ProduceResponse
from klamm.cluster.group_requests import CommittedOffset
from klamm.cluster.protocols import Clock
from klamm.cluster.records import CountedBatch, Produced, Record
from klamm.cluster.requests import Address, Message
from klamm.cluster.topic_names import OFFSETS_TOPIC
from klamm.cluster.types import TopicPartition

_LOAD_BYTES: Final = 5 * 1024 * 1024
_COUNTED_OVERHEAD_BYTES: Final = 70

GroupRecord = tuple[bytes, bytes | None]
OnAppended = Callable[[Errors], None]


class GroupLog:
    """The partitions of ``__consumer_offsets`` that one broker leads.

    ``on_append`` is called with every produce request that this class makes.
    """

    def __init__(
        self,
        address: Address,
        partitions: Mapping[TopicPartition, Partition],
        produces: Produces,
        timeout_ms: int,
        clock: Clock,
        on_append: Callable[[ProduceRequest], None],
    ) -> None:
        self._address = address
        self._partitions = partitions
        self._produces = produces
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._on_append = on_append
        self._waiting: dict[int, OnAppended] = {}
        self._appended = 0

    def append(self, partition: int, records: list[GroupRecord], on_appended: OnAppended) -> None:
        """Append records; call ``on_appended`` with NONE once the ISR has them, or an error."""
        tp = TopicPartition(OFFSETS_TOPIC, partition)
        self._appended += 1
        produced = self._batch(tp, records)
        body = ProduceRequest(-1, self._timeout_ms, {tp: produced})
        message = Message(self._address, self._address, self._appended, body)
        self._waiting[self._appended] = on_appended
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        response = self._produces.produce(
            message, body, now_ms, wall_ms, internal_topics_allowed=True
        )
        self._on_append(body)
        if response is not None:
            self.on_response(message, response)

    def is_own(self, request: Message) -> bool:
        """Return True if a produce request was made by ``append``."""
        return request.source == self._address

    def on_response(self, request: Message, response: ProduceResponse) -> None:
        """Process the response to an own produce request."""
        (result,) = response.partitions.values()
        self._waiting.pop(request.correlation_id)(result.error)

    def _batch(self, tp: TopicPartition, records: list[GroupRecord]) -> Produced:
        hosted = self._partitions.get(tp)
        if hosted is not None and isinstance(hosted.log, IntervalLog):
            size = sum(len(key) + len(value or b"") for key, value in records)
            return CountedBatch(len(records), size + _COUNTED_OVERHEAD_BYTES)
        from klamm.brokers.logs.records import encode_batch

        wall_ms = self._clock.now_ms()
        return encode_batch([Record(wall_ms, key, value) for key, value in records])

    def load(self, partition: int) -> list[Group]:
        """Read the groups of a partition. Raises ReplicaLogError.

        An interval log stores no contents: nothing can be loaded from it.
        """
        hosted = self._partitions.get(TopicPartition(OFFSETS_TOPIC, partition))
        if hosted is None or hosted.log is None or isinstance(hosted.log, IntervalLog):
            return []
        from klamm.brokers.logs.records import decode_batch

        log = hosted.log
        groups: dict[str, Group] = {}
        offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        position = log.log_start_offset
        while position < log.log_end_offset:
            read = log.read(position, _LOAD_BYTES)
            assert isinstance(read, bytes)
            for at, header in walk(read):
                for _, record in decode_batch(read[at : at + header.size_bytes], header):
                    _apply(record.key or b"", record.value, groups, offsets)
                position = header.next_offset
        for group_id, found in offsets.items():
            if found and group_id not in groups:
                groups[group_id] = Group(group_id, self._clock.now_ms())
            if found:
                groups[group_id].offsets.update(found)
        return list(groups.values())


def _apply(
    key: bytes,
    value: bytes | None,
    groups: dict[str, Group],
    offsets: dict[str, dict[TopicPartition, CommittedOffset]],
) -> None:
    group_id, tp = decode_key(key)
    if tp is None:
        groups.pop(group_id, None)
        if value is not None:
            groups[group_id] = decode_group_value(group_id, value)
        return
    found = offsets.setdefault(group_id, {})
    found.pop(tp, None)
    if value is not None:
        found[tp] = decode_offset_value(value)
