"""Requests and responses that carry records, Fetch and Produce, as plain values.

Mirrors the request schemas of 2.8: Fetch v12, with the epochs by which a leader finds where a
follower's log diverges, and Produce v9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.constant_rate import RateAgreement
from klamm.cluster.records import EpochEndOffset, Produced, Records
from klamm.cluster.types import NO_EPOCH, TopicPartition

UNKNOWN_OFFSET: Final = -1
CONSUMER_REPLICA_ID: Final = -1
MAX_BYTES: Final = 2**31 - 1
Acks = Literal[0, 1, -1]
"""Replicas that must have a record before the response: none (0), the leader (1), the ISR (-1)."""


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    """Fetch position of a follower or consumer in one partition.

    For a follower, ``fetch_offset`` is the end of its log, ``last_fetched_epoch`` the last epoch in
    its log (-1: none), ``current_leader_epoch`` the epoch in the controller's last LeaderAndIsr,
    and ``agreement`` its current rate agreement, if any.

    For a consumer, ``fetch_offset`` is its position; a ``current_leader_epoch`` of -1 is not
    checked.
    """

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = 0
    agreement: RateAgreement | None = None


class FetchRequest(msgspec.Struct, frozen=True):
    """Fetch of a follower or, with a ``replica_id`` of -1, of a consumer.

    A follower fetches all partitions that it needs from one leader. Only a consumer's fetch waits:
    at most ``max_wait_ms`` for ``min_bytes``. The response has at most ``partition_max_bytes`` per
    partition and ``max_bytes`` in total, but at least one batch.
    """

    replica_id: int
    partitions: Mapping[TopicPartition, FetchPartition]
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = MAX_BYTES
    partition_max_bytes: int = MAX_BYTES


class FetchedPartition(msgspec.Struct, frozen=True, gc=False):
    """A leader's response for one partition of a fetch.

    ``leader_epoch``, ``fetch_offset`` and ``last_fetched_epoch`` identify the fetch: a follower
    ignores a response that does not start at the end of its log. A ``fetch_offset`` of -1 asks a
    follower that has not fetched at this epoch to do so. ``diverging``: the point to which the
    follower must truncate its log, instead of records. ``log_end_offset`` is only sent with
    OFFSET_OUT_OF_RANGE (a follower of Kafka sends ListOffsets then); for a consumer it is the high
    watermark.

    ``agreement``: the rate agreement that the leader offers; any other response ends an agreement
    that the follower has. ``is_acknowledged``: the high watermark follows the schedule, too.
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
        """Return the error response to a fetch."""
        return cls(error, asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch)


class FetchResponse(msgspec.Struct, frozen=True):
    """Response to a fetch; partitions without changes are omitted (KIP-227).

    A leader responds at once and remembers the follower's position. ``is_unsolicited``: an extra
    response to the last fetch, because there are new records. Such responses replace Kafka's
    delayed fetches (kafka.server.DelayedFetch) and cause no traffic while no records are written.
    """

    partitions: Mapping[TopicPartition, FetchedPartition]
    is_unsolicited: bool = False


class ProduceRequest(msgspec.Struct, frozen=True):
    """One batch per partition; with acks -1 the response waits at most ``timeout_ms``."""

    acks: Acks
    timeout_ms: int
    partitions: Mapping[TopicPartition, Produced]


class ProducedPartition(msgspec.Struct, frozen=True, gc=False):
    """Result of producing one batch; ``base_offset`` is the offset of its first record, or -1.

    ``leader_epoch``: epoch in which the batch was appended, -1 if unknown. It is not part of
    Kafka's response; klamm uses it to identify acknowledged records.
    """

    error: Errors
    base_offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH


class ProduceResponse(msgspec.Struct, frozen=True):
    """A result for every partition of the request; there is no response with acks 0."""

    partitions: Mapping[TopicPartition, ProducedPartition]
