"""The APIs that carry or locate records: Produce, Fetch, ListOffsets and others.

The broker's rules are in brokers/kafka_apis.py and the modules that it calls; here is only the
translation. Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
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
    FetchMetadata,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from klamm.cluster.records import NO_TIMESTAMP, EpochEndOffset
from klamm.cluster.types import NO_EPOCH
from klamm.wire.api import Api
from klamm.wire.schema import RefusedRequest, Values, by_topic, error_of, in_topics
from klamm.wire.translations import (
    BYTES,
    MILLISECONDS,
    SAME,
    Field,
    Translation,
    listed_partitions,
    only,
    other_errors,
    per_partition,
    struct,
)

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def _read_time(time: datetime | None) -> int:
    return NO_TIMESTAMP if time is None else round((time - _EPOCH) / timedelta(milliseconds=1))


def _write_time(time_ms: int) -> datetime | None:
    return None if time_ms == NO_TIMESTAMP else _EPOCH + timedelta(milliseconds=time_ms)


_CONSUMER: Final = {"replica_id": CONSUMER_REPLICA_ID}
_BY_TOPIC: Final = {"topic": "topic", "partition": "partition"}


# -- Produce and Fetch

_PRODUCE: Final = struct(
    ProduceRequest,
    {"transactional_id": None},
    partitions=per_partition(
        "topic_data", only("records", BYTES), partitions="partition_data", partition="index"
    ),
)
_PRODUCED: Final = struct(
    ProduceResponse,
    partitions=per_partition(
        "responses",
        struct(
            ProducedPartition,
            {"record_errors": ()},
            log_append_time_ms=Field("log_append_time", Translation(_read_time, _write_time)),
        ),
        partitions="partition_responses",
        partition="index",
    ),
)
_FETCH: Final = struct(
    FetchRequest,
    max_wait_ms=Field("max_wait", MILLISECONDS),
    # Before version 7 there are no fetch sessions.
    metadata=Field(None, struct(FetchMetadata, epoch="session_epoch")),
    partitions=per_partition(
        "topics",
        struct(
            FetchPartition,
            {"log_start_offset": UNKNOWN_OFFSET},
            current_leader_epoch=Field("current_leader_epoch", SAME, NO_EPOCH),
            log_start_offset=None,
            max_bytes="partition_max_bytes",
        ),
        **_BY_TOPIC,
    ),
    forgotten=listed_partitions("forgotten_topics_data", topic="topic"),
)


def _fetched(request: FetchRequest) -> Translation:
    """Return the translation of the response to Fetch. Without transactions all is stable."""

    def read(body: Any) -> FetchResponse:
        found = {}
        for tp, one in in_topics(body.responses, topic="topic"):
            asked = request.partitions[tp]
            found[tp] = FetchedPartition(
                error_of(one.error_code),
                asked.current_leader_epoch,
                asked.fetch_offset,
                records=bytes(one.records or b"") or None,
                high_watermark=one.high_watermark,
                log_start_offset=one.log_start_offset,
                log_end_offset=one.high_watermark,
            )
        return FetchResponse(found, error=error_of(body.error_code), session_id=body.session_id)

    def write(response: FetchResponse) -> Values:
        return {
            "error_code": response.error,
            "session_id": response.session_id,
            "responses": by_topic(response.partitions, _fetched_partition, topic="topic"),
        }

    return Translation(read, write)


def _fetched_by_old_client(request: FetchRequest) -> Translation:
    """Return the translation of the response to versions whose clients do not know all errors."""
    known = {Errors.KAFKA_STORAGE_ERROR: Errors.NOT_LEADER_OR_FOLLOWER}
    return other_errors(_fetched(request), known)


def _fetched_partition(partition: int, result: FetchedPartition) -> Values:
    is_refused = result.error is not Errors.NONE
    fetched: dict[str, object] = {
        "partition_index": partition,
        "error_code": result.error,
        "high_watermark": UNKNOWN_OFFSET if is_refused else result.high_watermark,
        "last_stable_offset": UNKNOWN_OFFSET if is_refused else result.high_watermark,
        "log_start_offset": result.log_start_offset,
        "aborted_transactions": None,
        "records": result.records or b"",
    }
    if result.diverging is not None:
        epoch, end_offset = result.diverging
        fetched["diverging_epoch"] = {"epoch": epoch, "end_offset": end_offset}
    return fetched


# -- offsets and producer ids


_LISTED: Final = struct(ListedOffset, timestamp_ms="timestamp")


def _listed(result: ListedOffset) -> Values:
    """Translate a listed offset. Version 0 has a list of offsets instead of one."""
    old_style = () if result.offset == UNKNOWN_OFFSET else (result.offset,)
    return {**_LISTED.write(result), "old_style_offsets": old_style}


def _init_producer_id(body: Any) -> InitProducerIdRequest:
    """Translate InitProducerId of a producer without transactions."""
    if body.transactional_id is not None:
        refused = InitProducerIdResponse(Errors.UNSUPPORTED_VERSION)
        raise RefusedRequest(_PRODUCER_ID.write(refused))
    return InitProducerIdRequest()


_LIST_OFFSETS: Final = struct(
    ListOffsetsRequest,
    {**_CONSUMER, "isolation_level": 0},
    partitions=per_partition("topics", struct(ListOffsetsPartition, timestamp_ms="timestamp")),
)
_LISTED_OFFSETS: Final = struct(
    ListOffsetsResponse, partitions=per_partition("topics", _LISTED._replace(write=_listed))
)
_DELETE_RECORDS: Final = struct(
    DeleteRecordsRequest, offsets=per_partition("topics", only("offset"))
)
_DELETED_RECORDS: Final = struct(
    DeleteRecordsResponse, partitions=per_partition("topics", struct(DeletedRecords))
)
_PRODUCER_ID: Final = struct(InitProducerIdResponse)
_INIT_PRODUCER_ID: Final = struct(
    InitProducerIdRequest, {"transactional_id": None, "transaction_timeout": timedelta(minutes=1)}
)
_EPOCHS: Final = struct(
    OffsetsForLeaderEpochRequest,
    _CONSUMER,
    partitions=per_partition("topics", struct(OffsetForLeaderPartition), **_BY_TOPIC),
)
_EPOCH_ENDS: Final = struct(
    OffsetsForLeaderEpochResponse,
    partitions=per_partition(
        "topics", struct(LeaderEpochEnd, end=Field(None, struct(EpochEndOffset))), **_BY_TOPIC
    ),
)
APIS: Final = (
    Api(0, range(10), _PRODUCE, _PRODUCED),
    Api(1, range(6), _FETCH, _fetched_by_old_client),
    Api(1, range(6, 13), _FETCH, _fetched),
    Api(
        2,
        range(5),
        _LIST_OFFSETS,
        other_errors(_LISTED_OFFSETS, {Errors.OFFSET_NOT_AVAILABLE: Errors.LEADER_NOT_AVAILABLE}),
    ),
    Api(2, range(5, 7), _LIST_OFFSETS, _LISTED_OFFSETS),
    Api(21, range(3), _DELETE_RECORDS, _DELETED_RECORDS),
    Api(22, range(5), _INIT_PRODUCER_ID._replace(read=_init_producer_id), _PRODUCER_ID),
    Api(23, range(5), _EPOCHS, _EPOCH_ENDS),
)
