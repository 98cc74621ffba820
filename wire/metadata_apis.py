"""Translation of the APIs about the cluster and its topics: Metadata, CreateTopics and others.

Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest, MetadataResponse, TopicMetadata
from klamm.cluster.group_requests import FindCoordinatorResponse
from klamm.cluster.requests import (
    ApiError,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from klamm.cluster.topic_names import is_internal
from klamm.cluster.types import Broker
from klamm.wire.config_apis import Asked
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.schema import (
    OPERATIONS_OMITTED,
    Values,
    error_fields,
    milliseconds,
    uuid_of,
    values_of,
)


def metadata_request(body: Any) -> MetadataRequest:
    """Translate Metadata.

    In version 0 an empty list means all topics, in later ones null. Versions before 4 always allow
    missing topics to be created.
    """
    topics = body.topics
    if topics is None or (not topics and body.__version__ == 0):
        return MetadataRequest()
    names = tuple(_name_of(topic) for topic in topics)
    return MetadataRequest(names, getattr(body, "allow_auto_topic_creation", True))


def metadata_response(response: MetadataResponse) -> Values:
    """Translate the response to Metadata."""
    return {
        "brokers": _brokers("node_id", response.brokers),
        "controller_id": response.controller_id,
        "topics": [_topic(topic) for topic in response.topics],
        "cluster_authorized_operations": OPERATIONS_OMITTED,
    }


def on_listener(response: Any, listener_name: str) -> Any:
    """Return a response with the brokers' end points of one listener.

    Brokers without that listener are left out of metadata; a coordinator without it is not
    available. Other responses are returned as they are.
    """
    match response:
        case MetadataResponse():
            found = (_on_listener(broker, listener_name) for broker in response.brokers)
            brokers = tuple(broker for broker in found if broker is not None)
            return msgspec.structs.replace(response, brokers=brokers)
        case FindCoordinatorResponse(coordinator=Broker() as coordinator):
            own = _on_listener(coordinator, listener_name)
            error = Errors.COORDINATOR_NOT_AVAILABLE if own is None else Errors.NONE
            return FindCoordinatorResponse(error, own)
    return response


def _on_listener(broker: Broker, listener_name: str) -> Broker | None:
    own = tuple(one for one in broker.end_points if one.listener_name == listener_name)
    return msgspec.structs.replace(broker, end_points=own) if own else None


def describe_cluster(_: KafkaAdmin, asked: Asked) -> Values:
    """Answer DescribeCluster."""
    return {
        "error_code": Errors.NONE,
        "brokers": _brokers("broker_id", asked.metadata.brokers),
        "controller_id": asked.controller_id,
    }


def refuse_describe_cluster(_: Any, error: ApiError) -> Values:
    """Refuse DescribeCluster."""
    return {**error_fields(error), "cluster_id": "", "brokers": ()}


def create_topics_request(body: Any) -> CreateTopicsRequest:
    """Translate CreateTopics."""
    return CreateTopicsRequest(
        tuple(
            CreatableTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                {one.partition_index: one.broker_ids for one in topic.assignments},
                {one.name: one.value for one in topic.configs if one.value is not None},
            )
            for topic in body.topics
        ),
        milliseconds(body.timeout),
        getattr(body, "validate_only", False),
    )


def create_topics_response(response: CreateTopicsResponse) -> Values:
    """Translate the response to CreateTopics."""
    return {
        "topics": [
            {**values_of(topic), "topic_id": uuid_of(topic.topic_id), "configs": ()}
            for topic in response.topics
        ]
    }


def delete_topics_request(body: Any) -> DeleteTopicsRequest:
    """Translate DeleteTopics."""
    names = getattr(body, "topic_names", None)
    if names is None:
        names = tuple(_name_of(topic) for topic in body.topics)
    return DeleteTopicsRequest(names, milliseconds(body.timeout))


def delete_topics_response(response: DeleteTopicsResponse) -> Values:
    """Translate the response to DeleteTopics."""
    return {
        "responses": [
            {"name": topic.name, "topic_id": None, "error_code": topic.error}
            for topic in response.topics
        ]
    }


def _name_of(topic: Any) -> str:
    if topic.name is None:
        raise InvalidRequestFrame("topics are found by name, not by topic id")
    return str(topic.name)


def _brokers(id_field: str, brokers: Iterable[Broker]) -> list[Values]:
    """Return the brokers, which have one end point each, sorted by id."""
    return [
        {
            id_field: broker.id,
            "host": broker.end_points[0].host,
            "port": broker.end_points[0].port,
            "rack": broker.rack,
        }
        for broker in sorted(brokers, key=lambda broker: broker.id)
    ]


def _topic(topic: TopicMetadata) -> Values:
    return {
        "error_code": topic.error,
        "name": topic.name,
        "topic_id": uuid_of(topic.topic_id),
        "is_internal": is_internal(topic.name),
        "topic_authorized_operations": OPERATIONS_OMITTED,
        "partitions": [
            {
                "error_code": one.error,
                "partition_index": one.partition,
                "leader_id": one.leader,
                "leader_epoch": one.leader_epoch,
                "replica_nodes": one.replicas,
                "isr_nodes": one.isr,
                "offline_replicas": one.offline_replicas,
            }
            for one in topic.partitions
        ],
    }
