"""Requests and responses that carry records: Fetch and Produce, as plain values.

Nothing here reads a log. Mirrors the request schemas of 2.8: Fetch v12 (with the epochs that let a
leader tell a follower where their logs part) and Produce v9.
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
"""Who must have a record before its producer is answered: nobody, the leader, the whole ISR."""


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    """Where a follower is: ``fetch_offset`` is its log's end, ``last_fetched_epoch`` the last epoch
    in its log (-1: none), ``current_leader_epoch`` what it heard from the controller.

    ``agreement``: the rate agreement that it holds, if any.

    Or where a consumer goes on; it has no log, and an epoch of -1 is not checked.
    """

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = 0
    agreement: RateAgreement | None = None


class FetchRequest(msgspec.Struct, frozen=True):
    """A follower's fetch of everything that it has to ask its leader for, or with a
    ``replica_id`` of -1 a consumer's.

    Only a consumer's waits: at most ``max_wait_ms`` for ``min_bytes``. Of each partition it gets
    ``partition_max_bytes`` at most, ``max_bytes`` in all, but at least one batch.
    """

    replica_id: int
    partitions: Mapping[TopicPartition, FetchPartition]
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = MAX_BYTES
    partition_max_bytes: int = MAX_BYTES


class FetchedPartition(msgspec.Struct, frozen=True, gc=False):
    """What a leader says to one fetch.

    ``leader_epoch``, ``fetch_offset`` and ``last_fetched_epoch`` say which fetch this answers: a
    follower takes nothing that does not begin where its log ends. A ``fetch_offset`` of -1 asks
    a follower that has not fetched at this epoch to do so. ``diverging``: where the follower is to
    cut its log, instead of records. ``log_end_offset`` goes with OFFSET_OUT_OF_RANGE only, where
    Kafka's follower asks for it by ListOffsets; to a consumer it is the high watermark.

    ``agreement``: the rate agreement that the leader offers; one that the follower holds ends with
    any other answer. ``is_acknowledged``: the high watermark follows the schedule, too.
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
        """The answer to a fetch that gets nothing."""
        return cls(error, asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch)


class FetchResponse(msgspec.Struct, frozen=True):
    """The partitions of which there is something to tell (KIP-227: the others have nothing new).

    A leader answers at once and remembers where the follower is. ``is_unsolicited``: once more an
    answer to what was fetched before, because there is something now. It stands for Kafka's
    fetches that wait at the leader (kafka.server.DelayedFetch), and costs nothing while nothing is
    written.
    """

    partitions: Mapping[TopicPartition, FetchedPartition]
    is_unsolicited: bool = False


class ProduceRequest(msgspec.Struct, frozen=True):
    """One batch for each partition; an answer with acks -1 waits at most ``timeout_ms``."""

    acks: Acks
    timeout_ms: int
    partitions: Mapping[TopicPartition, Produced]


class ProducedPartition(msgspec.Struct, frozen=True, gc=False):
    """What became of a batch, and the offset of its first record in the log (-1: not there).

    ``leader_epoch``: which epoch wrote it, -1 if that is not known. Kafka does not tell; here it
    says which record was acknowledged, so that whoever looks for it can be sure.
    """

    error: Errors
    base_offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH


class ProduceResponse(msgspec.Struct, frozen=True):
    """An answer for every partition of the request. Nobody answers acks 0."""

    partitions: Mapping[TopicPartition, ProducedPartition]
