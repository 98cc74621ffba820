"""Translation of the APIs that carry or locate records: Produce, Fetch, ListOffsets and others.

The broker's rules are in brokers/kafka_apis.py and the modules that it calls; these functions only
translate. Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from typing import Any

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
    FINAL_EPOCH,
    MAX_BYTES,
    NO_SESSION_ID,
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
from klamm.cluster.types import NO_EPOCH
from klamm.wire.schema import (
    RefusedRequest,
    Values,
    by_topic,
    in_topics,
    listed_in_topics,
    milliseconds,
    values_of,
)

_NO_TRANSACTIONS = InitProducerIdResponse(Errors.UNSUPPORTED_VERSION)


def produce_request(body: Any) -> ProduceRequest:
    """Translate Produce. The record batches stay bytes."""
    return ProduceRequest(
        body.acks,
        milliseconds(body.timeout),
        {
            tp: bytes(one.records or b"")
            for tp, one in in_topics(
                body.topic_data, partitions="partition_data", partition="index"
            )
        },
    )


def produce_response(response: ProduceResponse) -> Values:
    """Translate the response to Produce."""

    def values(partition: int, result: ProducedPartition) -> Values:
        return {
            "index": partition,
            "error_code": result.error,
            "base_offset": result.base_offset,
            "log_append_time": None,
            "record_errors": (),
        }

    return {"responses": by_topic(response.partitions, values, partitions="partition_responses")}


def fetch_request(body: Any) -> FetchRequest:
    """Translate Fetch. Before version 7 there are no fetch sessions."""
    return FetchRequest(
        body.replica_id,
        {
            tp: FetchPartition(
                one.fetch_offset,
                getattr(one, "current_leader_epoch", NO_EPOCH),
                getattr(one, "last_fetched_epoch", NO_EPOCH),
                max_bytes=one.partition_max_bytes,
            )
            for tp, one in in_topics(body.topics, topic="topic", partition="partition")
        },
        max_wait_ms=milliseconds(body.max_wait),
        min_bytes=body.min_bytes,
        max_bytes=getattr(body, "max_bytes", MAX_BYTES),
        metadata=FetchMetadata(
            getattr(body, "session_id", NO_SESSION_ID), getattr(body, "session_epoch", FINAL_EPOCH)
        ),
        forgotten=listed_in_topics(getattr(body, "forgotten_topics_data", ()), topic="topic"),
    )


def fetch_response(response: FetchResponse) -> Values:
    """Translate the response to Fetch. Without transactions all records are stable."""

    def values(partition: int, result: FetchedPartition) -> Values:
        is_refused = result.error is not Errors.NONE
        fetched: dict[str, Any] = {
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

    return {
        "error_code": response.error,
        "session_id": response.session_id,
        "responses": by_topic(response.partitions, values, topic="topic"),
    }


def list_offsets_request(body: Any) -> ListOffsetsRequest:
    """Translate ListOffsets."""
    return ListOffsetsRequest(
        {
            tp: ListOffsetsPartition(one.timestamp, getattr(one, "current_leader_epoch", NO_EPOCH))
            for tp, one in in_topics(body.topics)
        }
    )


def list_offsets_response(response: ListOffsetsResponse) -> Values:
    """Translate the response to ListOffsets. Version 0 has a list of offsets instead of one."""

    def values(partition: int, result: ListedOffset) -> Values:
        return {
            "partition_index": partition,
            "error_code": result.error,
            "timestamp": result.timestamp_ms,
            "offset": result.offset,
            "leader_epoch": result.leader_epoch,
            "old_style_offsets": () if result.offset == UNKNOWN_OFFSET else (result.offset,),
        }

    return {"topics": by_topic(response.partitions, values)}


def offsets_for_leader_epoch_request(body: Any) -> OffsetsForLeaderEpochRequest:
    """Translate OffsetForLeaderEpoch."""
    return OffsetsForLeaderEpochRequest(
        {
            tp: OffsetForLeaderPartition(
                one.leader_epoch, getattr(one, "current_leader_epoch", NO_EPOCH)
            )
            for tp, one in in_topics(body.topics, topic="topic", partition="partition")
        }
    )


def offsets_for_leader_epoch_response(response: OffsetsForLeaderEpochResponse) -> Values:
    """Translate the response to OffsetForLeaderEpoch."""

    def values(partition: int, result: LeaderEpochEnd) -> Values:
        return {
            "partition": partition,
            "error_code": result.error,
            "leader_epoch": result.end.leader_epoch,
            "end_offset": result.end.end_offset,
        }

    return {"topics": by_topic(response.partitions, values, topic="topic")}


def delete_records_request(body: Any) -> DeleteRecordsRequest:
    """Translate DeleteRecords."""
    return DeleteRecordsRequest(
        {tp: one.offset for tp, one in in_topics(body.topics)},
        milliseconds(body.timeout),
    )


def delete_records_response(response: DeleteRecordsResponse) -> Values:
    """Translate the response to DeleteRecords."""

    def values(partition: int, result: DeletedRecords) -> Values:
        return {
            "partition_index": partition,
            "low_watermark": result.low_watermark,
            "error_code": result.error,
        }

    return {"topics": by_topic(response.partitions, values)}


def init_producer_id_request(body: Any) -> InitProducerIdRequest:
    """Translate InitProducerId of a producer without transactions."""
    if body.transactional_id is not None:
        raise RefusedRequest(values_of(_NO_TRANSACTIONS))
    return InitProducerIdRequest()
