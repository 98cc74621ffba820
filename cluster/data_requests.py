"""Fetch and Produce, the requests and responses that carry records, as plain values.

Mirrors the request schemas of Kafka 2.8: Produce v9, and Fetch v12, whose ``last_fetched_epoch``
lets the leader find the offset at which a follower's log diverges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.constant_rate import RateAgreement
from klamm.cluster.records import NO_TIMESTAMP, EpochEndOffset, Produced, Records
from klamm.cluster.types import NO_EPOCH, TopicPartition

UNKNOWN_OFFSET: Final = -1
CONSUMER_REPLICA_ID: Final = -1
MAX_BYTES: Final = 2**31 - 1
Acks = Literal[0, 1, -1]
"""When a batch is acknowledged: 0 never, 1 once the leader has appended it, -1 once the ISR has."""


NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1


class FetchMetadata(NamedTuple):
    """A fetch session (KIP-227), and the number of a request in it.

    With INITIAL_EPOCH a consumer opens a session. With FINAL_EPOCH it wants none, and closes the
    session that it names.
    """

    session_id: int = NO_SESSION_ID
    epoch: int = FINAL_EPOCH


NO_SESSION: Final = FetchMetadata()


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    """Fetch position of a follower or consumer in one partition.

    - ``fetch_offset``: end offset of the follower's log, or the consumer's position.
    - ``current_leader_epoch``: the leader epoch in the follower's last LeaderAndIsr request or in
      the consumer's cache. A value of -1 is not checked.
    - ``last_fetched_epoch``: the last epoch in the follower's log; -1 if the log has no epochs.
    - ``max_bytes``: maximum size of the records that a consumer wants.
    - ``agreement``: the follower's current rate agreement, if there is one.
    """

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = 0
    agreement: RateAgreement | None = None
    max_bytes: int = MAX_BYTES


class FetchRequest(msgspec.Struct, frozen=True):
    """Fetch request of a follower, or of a consumer if ``replica_id`` is -1.

    A leader delays only a consumer's fetch: until ``min_bytes`` are available, but for at most
    ``max_wait_ms``. The response has at most ``max_bytes`` in total, but at least one batch if
    there are records. ``forgotten`` are the partitions that leave the consumer's fetch session.
    """

    replica_id: int
    partitions: Mapping[TopicPartition, FetchPartition]
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = MAX_BYTES
    metadata: FetchMetadata = NO_SESSION
    forgotten: tuple[TopicPartition, ...] = ()


class FetchedPartition(msgspec.Struct, frozen=True, gc=False):
    """A leader's response for one partition of a fetch.

    - ``leader_epoch``, ``fetch_offset``, ``last_fetched_epoch``: copied from the fetch. A follower
      ignores a response whose ``fetch_offset`` is not the end offset of the follower's log. A
      ``fetch_offset`` of -1 asks the follower to fetch, because its position is unknown.
    - ``diverging``: epoch and end offset to which the follower must truncate its log. Such a
      response has no records.
    - ``log_end_offset``: sent only with OFFSET_OUT_OF_RANGE, after which a Kafka follower would
      send ListOffsets. A consumer gets the high watermark instead.
    - ``agreement``: rate agreement that the leader offers. A response without an agreement ends
      the follower's current agreement.
    - ``is_acknowledged``: True if the high watermark also follows the schedule of the agreement.
    """

    error: Errors
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int = NO_EPOCH
    records: Records | None = None
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    log_end_offset: int = UNKNOWN_OFFSET
    diverging: EpochEndOffset | None = None
    agreement: RateAgreement | None = None
    is_acknowledged: bool = False

    @classmethod
    def refused(cls, error: Errors, asked: FetchPartition) -> FetchedPartition:
        """Return a response with ``error`` to a fetch from the position ``asked``."""
        return cls(error, asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch)


class FetchResponse(msgspec.Struct, frozen=True):
    """Response to a fetch. Partitions without changes are omitted, as in KIP-227.

    ``error`` is an error of the fetch session. ``session_id`` is the id of the consumer's session.

    A leader responds to a follower immediately and remembers the follower's position. When records
    are appended later, the leader sends another response to the same fetch, with ``is_unsolicited``
    set. Unsolicited responses replace Kafka's delayed fetches (kafka.server.DelayedFetch), so idle
    partitions cause no traffic.
    """

    partitions: Mapping[TopicPartition, FetchedPartition]
    is_unsolicited: bool = False
    error: Errors = Errors.NONE
    session_id: int = NO_SESSION_ID


class ProduceRequest(msgspec.Struct, frozen=True):
    """Produce request with one batch per partition.

    With ``acks`` -1 the leader responds after ``timeout_ms`` at the latest.
    """

    acks: Acks
    timeout_ms: int
    partitions: Mapping[TopicPartition, Produced]


class ProducedPartition(msgspec.Struct, frozen=True, gc=False):
    """Result of producing one batch.

    ``base_offset`` is the offset of the batch's first record, or -1 after an error.
    ``leader_epoch`` is the epoch in which the batch was appended, or -1 if it is unknown. Kafka's
    response has no such field; klamm uses it to identify acknowledged records.
    ``log_append_time_ms`` is -1 unless the topic's timestamps are of type LogAppendTime.
    """

    error: Errors
    base_offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH
    log_start_offset: int = UNKNOWN_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP


class ProduceResponse(msgspec.Struct, frozen=True):
    """Response to Produce, with a result for every partition. With acks 0 there is no response."""

    partitions: Mapping[TopicPartition, ProducedPartition]
