"""What a broker tells clients that it supports, and the translation of requests and responses."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v0 import MetadataRequest as MetadataRequestV0
from kio.schema.metadata.v0 import MetadataResponse as MetadataResponseV0
from kio.schema.metadata.v1 import MetadataRequest as MetadataRequestV1
from kio.schema.metadata.v1.request import MetadataRequestTopic
from kio.schema.metadata.v11 import MetadataResponse as MetadataResponseV11

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.request_faults import CLIENT_APIS
from klamm.cluster.requests import ApiError
from klamm.cluster.types import Broker, EndPoint
from klamm.wire.api import ListenerCall
from klamm.wire.apis import APIS, BY_REQUEST, api_versions
from klamm.wire.frames import RequestKey, api_name, encoded_response, parse_response
from klamm.wire.schema import fill

KAFKA_2_8_2 = {
    0: (0, 9),
    1: (0, 12),
    2: (0, 6),
    3: (0, 11),
    4: (0, 5),
    5: (0, 3),
    6: (0, 7),
    7: (0, 3),
    8: (0, 8),
    9: (0, 7),
    10: (0, 3),
    11: (0, 7),
    12: (0, 4),
    13: (0, 4),
    14: (0, 5),
    15: (0, 5),
    16: (0, 4),
    17: (0, 1),
    18: (0, 3),
    19: (0, 7),
    20: (0, 6),
    21: (0, 2),
    22: (0, 4),
    23: (0, 4),
    29: (0, 2),
    30: (0, 2),
    31: (0, 2),
    32: (0, 4),
    33: (0, 2),
    34: (0, 2),
    35: (0, 2),
    36: (0, 2),
    37: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 0),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    56: (0, 0),
    60: (0, 0),
}
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
METADATA = MetadataResponse(
    (Broker(1, (EndPoint("b", 9093),), "r"), Broker(0, (EndPoint("a", 9092),))),
    1,
    (
        TopicMetadata(
            Errors.NONE,
            "t",
            TOPIC_ID,
            (PartitionMetadata(Errors.LEADER_NOT_AVAILABLE, 0, -1, 5, (0, 1), (1,), (0,)),),
        ),
    ),
)


def test_apis_and_versions_are_those_of_kafka() -> None:
    answered = api_versions(Errors.NONE)["api_keys"]
    assert {
        one["api_key"]: (one["min_version"], one["max_version"]) for one in answered
    } == KAFKA_2_8_2


@pytest.mark.parametrize(("key", "version"), sorted(APIS))
def test_kio_has_a_schema_for_every_version(key: int, version: int) -> None:
    assert load_response_schema(key, version).__version__ == version


def translated(response: MetadataResponse) -> Any:
    return BY_REQUEST[MetadataRequest].response_to(MetadataRequest()).write(response)


def test_a_response_has_the_fields_of_its_version() -> None:
    newest = fill(MetadataResponseV11, translated(METADATA))
    assert [broker.node_id for broker in newest.brokers] == [0, 1]
    (topic,) = newest.topics
    assert topic.topic_id == uuid.UUID(int=1)
    assert topic.partitions[0].error_code.name == "leader_not_available"
    assert topic.partitions[0].offline_replicas == (0,)
    oldest = fill(MetadataResponseV0, translated(METADATA))
    assert (oldest.brokers[0].host, oldest.topics[0].partitions[0].isr_nodes) == ("a", (1,))


def requested(body: MetadataRequestV0 | MetadataRequestV1) -> Any:
    return BY_REQUEST[MetadataRequest].request.read(body)


def test_an_empty_list_of_topics_means_all_topics_only_in_version_0() -> None:
    assert requested(MetadataRequestV0(topics=())) == MetadataRequest(None, True)


def test_topics_named_twice_are_described_once() -> None:
    topics = tuple(MetadataRequestTopic(name=name) for name in ("u", "t", "u"))
    assert requested(MetadataRequestV1(topics=topics)) == MetadataRequest(("u", "t"), True)


def test_an_empty_list_of_topics_means_no_topic_from_version_1_on() -> None:
    assert requested(MetadataRequestV1(topics=())) == MetadataRequest((), True)
    assert requested(MetadataRequestV1(topics=None)) == MetadataRequest(None, True)


LISTENER_CALLS = [key for key, api in APIS.items() if isinstance(api, ListenerCall)]
ASKED = SimpleNamespace(
    topics=[SimpleNamespace(name="t")],
    resources=[SimpleNamespace(resource_type=2, resource_name="t")],
    creations=[SimpleNamespace()],
    filters=[SimpleNamespace()],
    deletions=[SimpleNamespace(name="u")],
    upsertions=[SimpleNamespace(name="v")],
    entries=[SimpleNamespace(entity=[SimpleNamespace(entity_type="user", entity_name="w")])],
)
"""Fields of the requests that listeners answer."""


@pytest.mark.parametrize(("key", "version"), LISTENER_CALLS)
def test_a_request_that_the_listener_answers_can_be_refused(key: int, version: int) -> None:
    api = APIS[key, version]
    assert isinstance(api, ListenerCall)
    asked = RequestKey(key, version, 1)
    values = api.refuse(ASKED, ApiError(Errors.UNKNOWN_SERVER_ERROR))
    text = repr(parse_response(asked, encoded_response(asked, values)[4:]))
    assert f"{ErrorCode.unknown_server_error!r}" in text
    # A request of SASL after authentication is refused in any case.
    assert api_name(asked) in CLIENT_APIS or api_name(asked).startswith("Sasl")
