"""Requests that klamm's own clients send to brokers of other processes, and their responses.

The counterpart of record_apis.py, metadata_apis.py and admin_apis.py, which translate in the other
direction. Each kind of request has one version, which brokers of Kafka 2.8 serve. Mirrors the
request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from klamm.cluster.client_requests import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    LeaderEpochEnd,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.data_requests import (
    CONSUMER_REPLICA_ID,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from klamm.cluster.records import EpochEndOffset
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ApiError,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribedLog,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    LogDirResult,
    Request,
    Response,
)
from klamm.cluster.types import (
    Broker,
    ElectionType,
    EndPoint,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.wire.control_encoder import Exchange
from klamm.wire.frames import RequestKey, framed, parse_response, request_body, request_header
from klamm.wire.schema import Values, by_topic, error_of, in_topics, topic_id_of

_REASSIGNMENTS_TIMEOUT: Final = timedelta(seconds=30)


class Api(NamedTuple):
    """One kind of request: its API key and version, and the translations in both directions."""

    key: int
    version: int
    values: Callable[[Any], Values]
    response: Callable[[Any, Any], Response]
    """Called with klamm's request and the body of the response."""


def exchange_of(request: Request, correlation_id: int, client_id: str) -> Exchange:
    """Encode a request, which must be one of APIS."""
    api = APIS[type(request)]
    key = RequestKey(api.key, api.version, correlation_id)
    body = request_body(key, api.values(request))
    return Exchange(key, framed(request_header(key, client_id), body))


def response_to(request: Request, key: RequestKey, frame: bytes) -> Response:
    """Translate the response to a request. Raises InvalidRequestFrame."""
    return APIS[type(request)].response(request, parse_response(key, frame))


# -- records


def _produce_values(request: ProduceRequest) -> Values:
    def values(partition: int, records: Any) -> Values:
        return {"index": partition, "records": records}

    return {
        "transactional_id": None,
        "acks": request.acks,
        "timeout": timedelta(milliseconds=request.timeout_ms),
        "topic_data": by_topic(request.partitions, values, partitions="partition_data"),
    }


def _produce_response(_: ProduceRequest, body: Any) -> ProduceResponse:
    return ProduceResponse(
        {
            tp: ProducedPartition(error_of(one.error_code), one.base_offset)
            for tp, one in in_topics(
                body.responses, partitions="partition_responses", partition="index"
            )
        }
    )


def _fetch_values(request: FetchRequest) -> Values:
    def values(partition: int, asked: Any) -> Values:
        return {
            "partition": partition,
            "current_leader_epoch": asked.current_leader_epoch,
            "fetch_offset": asked.fetch_offset,
            "log_start_offset": -1,
            "partition_max_bytes": asked.max_bytes,
        }

    return {
        "replica_id": request.replica_id,
        "max_wait": timedelta(milliseconds=request.max_wait_ms),
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "session_id": request.metadata.session_id,
        "session_epoch": request.metadata.epoch,
        "topics": by_topic(request.partitions, values, topic="topic"),
        "forgotten_topics_data": (),
    }


def _fetch_response(request: FetchRequest, body: Any) -> FetchResponse:
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


def _list_offsets_values(request: ListOffsetsRequest) -> Values:
    def values(partition: int, asked: Any) -> Values:
        return {
            "partition_index": partition,
            "current_leader_epoch": asked.current_leader_epoch,
            "timestamp": asked.timestamp_ms,
        }

    return {
        "replica_id": CONSUMER_REPLICA_ID,
        "isolation_level": 0,
        "topics": by_topic(request.partitions, values),
    }


def _list_offsets_response(_: ListOffsetsRequest, body: Any) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        {
            tp: ListedOffset(error_of(one.error_code), one.timestamp, one.offset, one.leader_epoch)
            for tp, one in in_topics(body.topics)
        }
    )


def _epoch_values(request: OffsetsForLeaderEpochRequest) -> Values:
    def values(partition: int, asked: Any) -> Values:
        return {
            "partition": partition,
            "current_leader_epoch": asked.current_leader_epoch,
            "leader_epoch": asked.leader_epoch,
        }

    return {
        "replica_id": CONSUMER_REPLICA_ID,
        "topics": by_topic(request.partitions, values, topic="topic"),
    }


def _epoch_response(_: OffsetsForLeaderEpochRequest, body: Any) -> OffsetsForLeaderEpochResponse:
    return OffsetsForLeaderEpochResponse(
        {
            tp: LeaderEpochEnd(
                error_of(one.error_code), EpochEndOffset(one.leader_epoch, one.end_offset)
            )
            for tp, one in in_topics(body.topics, topic="topic", partition="partition")
        }
    )


def _init_producer_id_values(_: InitProducerIdRequest) -> Values:
    return {"transactional_id": None, "transaction_timeout": timedelta(minutes=1)}


def _init_producer_id_response(_: InitProducerIdRequest, body: Any) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_of(body.error_code), body.producer_id, body.producer_epoch)


# -- the cluster


def _metadata_values(request: MetadataRequest) -> Values:
    topics = request.topics
    return {
        "topics": None if topics is None else [{"topic_id": None, "name": one} for one in topics],
        "allow_auto_topic_creation": request.allow_auto_topic_creation,
        "include_topic_authorized_operations": False,
    }


def _metadata_response(_: MetadataRequest, body: Any) -> MetadataResponse:
    return MetadataResponse(
        tuple(
            Broker(one.node_id, (EndPoint(one.host, one.port),), one.rack) for one in body.brokers
        ),
        body.controller_id,
        tuple(
            TopicMetadata(
                error_of(topic.error_code),
                topic.name,
                topic_id_of(topic.topic_id),
                tuple(
                    PartitionMetadata(
                        error_of(one.error_code),
                        one.partition_index,
                        one.leader_id,
                        one.leader_epoch,
                        one.replica_nodes,
                        one.isr_nodes,
                        one.offline_replicas,
                    )
                    for one in sorted(topic.partitions, key=lambda one: one.partition_index)
                ),
            )
            for topic in body.topics
        ),
    )


def _create_topics_values(request: CreateTopicsRequest) -> Values:
    return {
        "topics": [
            {
                "name": topic.name,
                "num_partitions": topic.num_partitions,
                "replication_factor": topic.replication_factor,
                "assignments": [
                    {"partition_index": partition, "broker_ids": replicas}
                    for partition, replicas in topic.assignments.items()
                ],
                "configs": [
                    {"name": name, "value": value} for name, value in topic.configs.items()
                ],
            }
            for topic in request.topics
        ],
        "timeout": timedelta(milliseconds=request.timeout_ms),
        "validate_only": request.validate_only,
    }


def _create_topics_response(_: CreateTopicsRequest, body: Any) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        tuple(
            CreatableTopicResult(
                topic.name,
                error_of(topic.error_code),
                topic.error_message,
                topic_id_of(topic.topic_id),
                topic.num_partitions,
                topic.replication_factor,
            )
            for topic in body.topics
        )
    )


def _delete_topics_values(request: DeleteTopicsRequest) -> Values:
    return {
        "topics": [{"name": name, "topic_id": None} for name in request.topics],
        "timeout": timedelta(milliseconds=request.timeout_ms),
    }


def _delete_topics_response(_: DeleteTopicsRequest, body: Any) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        tuple(DeletableTopicResult(one.name, error_of(one.error_code)) for one in body.responses)
    )


# -- partitions and log directories


def _reassign_values(request: AlterPartitionReassignmentsRequest) -> Values:
    def values(partition: int, replicas: tuple[int, ...] | None) -> Values:
        return {"partition_index": partition, "replicas": replicas}

    return {
        "timeout": _REASSIGNMENTS_TIMEOUT,
        "topics": by_topic(request.reassignments, values),
    }


def _reassign_response(
    _: AlterPartitionReassignmentsRequest, body: Any
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        _api_error(body), {tp: _api_error(one) for tp, one in in_topics(body.responses)}
    )


def _list_reassignments_values(request: ListPartitionReassignmentsRequest) -> Values:
    return {
        "timeout": _REASSIGNMENTS_TIMEOUT,
        "topics": _listed(request.partitions, "name", "partition_indexes"),
    }


def _list_reassignments_response(
    _: ListPartitionReassignmentsRequest, body: Any
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        _api_error(body),
        {
            tp: ReplicaAssignment(one.replicas, one.adding_replicas, one.removing_replicas)
            for tp, one in in_topics(body.topics)
        },
    )


def _elect_values(request: ElectLeadersRequest) -> Values:
    return {
        "election_type": int(request.election_type is ElectionType.UNCLEAN),
        "topic_partitions": _listed(request.partitions, "topic"),
        "timeout": timedelta(milliseconds=request.timeout_ms),
    }


def _elect_response(_: ElectLeadersRequest, body: Any) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_of(body.error_code),
        {
            tp: _api_error(one)
            for tp, one in in_topics(
                body.replica_election_results,
                topic="topic",
                partitions="partition_result",
                partition="partition_id",
            )
        },
    )


def _describe_log_dirs_values(request: DescribeLogDirsRequest) -> Values:
    return {"topics": _listed(request.partitions, "topic")}


def _describe_log_dirs_response(_: DescribeLogDirsRequest, body: Any) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        tuple(
            LogDirResult(
                log_dir.log_dir,
                error_of(log_dir.error_code),
                tuple(
                    DescribedLog(tp, one.partition_size, one.offset_lag, one.is_future_key)
                    for tp, one in in_topics(log_dir.topics)
                ),
            )
            for log_dir in body.results
        )
    )


def _alter_log_dirs_values(request: AlterReplicaLogDirsRequest) -> Values:
    by_path: dict[str, list[TopicPartition]] = {}
    for tp, path in request.log_dirs.items():
        by_path.setdefault(path, []).append(tp)
    return {
        "dirs": [
            {"path": path, "topics": _listed(moved, "name")} for path, moved in by_path.items()
        ]
    }


def _alter_log_dirs_response(
    _: AlterReplicaLogDirsRequest, body: Any
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        {tp: error_of(one.error_code) for tp, one in in_topics(body.results, topic="topic_name")}
    )


def _listed(
    tps: Iterable[TopicPartition] | None, topic: str, partitions: str = "partitions"
) -> list[Values] | None:
    """Return topics with the numbers of their partitions, or None, which means all partitions."""
    if tps is None:
        return None
    return by_topic(
        dict.fromkeys(tps), lambda number, _: number, topic=topic, partitions=partitions
    )


def _api_error(body: Any) -> ApiError:
    return ApiError(error_of(body.error_code), body.error_message)


APIS: Final[Mapping[type[Any], Api]] = {
    ProduceRequest: Api(0, 8, _produce_values, _produce_response),
    FetchRequest: Api(1, 11, _fetch_values, _fetch_response),
    ListOffsetsRequest: Api(2, 5, _list_offsets_values, _list_offsets_response),
    MetadataRequest: Api(3, 11, _metadata_values, _metadata_response),
    CreateTopicsRequest: Api(19, 7, _create_topics_values, _create_topics_response),
    DeleteTopicsRequest: Api(20, 6, _delete_topics_values, _delete_topics_response),
    InitProducerIdRequest: Api(22, 3, _init_producer_id_values, _init_producer_id_response),
    OffsetsForLeaderEpochRequest: Api(23, 3, _epoch_values, _epoch_response),
    AlterReplicaLogDirsRequest: Api(34, 1, _alter_log_dirs_values, _alter_log_dirs_response),
    DescribeLogDirsRequest: Api(35, 1, _describe_log_dirs_values, _describe_log_dirs_response),
    ElectLeadersRequest: Api(43, 2, _elect_values, _elect_response),
    AlterPartitionReassignmentsRequest: Api(45, 0, _reassign_values, _reassign_response),
    ListPartitionReassignmentsRequest: Api(
        46, 0, _list_reassignments_values, _list_reassignments_response
    ),
}
"""The requests that klamm's clients can send over the network."""
