"""Brokers have missing topics created, once, and report the outcome in their Metadata responses."""

from __future__ import annotations

import msgspec
import pytest

from klamm.brokers.config import broker_config
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest, MetadataResponse
from klamm.cluster.group_requests import FindCoordinatorRequest, FindCoordinatorResponse
from klamm.cluster.requests import (
    Address,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    Message,
)
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import CONTROLLER, T0, Network, cached, update_metadata

BROKER = 1
CLIENT = Address("client", 5)


class Asking:
    """A client that asks a broker for metadata, and a controller that the test answers for."""

    def __init__(self, **configs: str) -> None:
        self.network = Network()
        properties = {name.replace("_", "."): value for name, value in configs.items()}
        self.broker = self.network.add(BROKER, broker_config(properties))
        self.network.request(BROKER, update_metadata())

    def errors(self, *topics: str, allow: bool = True) -> list[Errors]:
        response = self.network.request(BROKER, MetadataRequest(topics, allow), CLIENT)
        assert isinstance(response, MetadataResponse)
        return [topic.error for topic in response.topics]

    def requests(self) -> list[Message]:
        return [m for m in self.network.sent if isinstance(m.body, CreateTopicsRequest)]

    def names(self) -> list[list[str]]:
        bodies = [m.body for m in self.requests()]
        return [[t.name for t in b.topics] for b in bodies if isinstance(b, CreateTopicsRequest)]

    def answer(self, request: Message, **errors: Errors) -> None:
        results = tuple(CreatableTopicResult(name, error) for name, error in errors.items())
        response = CreateTopicsResponse(results)
        self.broker.receive(
            Message(request.destination, request.source, request.correlation_id, response)
        )


def test_missing_topics_are_created_by_one_request_at_a_time() -> None:
    asking = Asking(request_timeout_ms="1000")
    assert asking.errors("t", "u") == [Errors.LEADER_NOT_AVAILABLE] * 2
    assert asking.errors("t", "v") == [Errors.LEADER_NOT_AVAILABLE] * 2
    assert asking.names() == [["t", "u"], ["v"]]
    [first, _] = asking.requests()
    assert first.destination == Address("controller", CONTROLLER)
    assert isinstance(first.body, CreateTopicsRequest)
    assert first.body.timeout_ms == 0
    topic = first.body.topics[0]
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1), "the cluster's defaults"
    asking.network.pass_time(1000)
    assert asking.errors("t") == [Errors.LEADER_NOT_AVAILABLE], "no response within the timeout"


@pytest.mark.parametrize(
    "error", [Errors.NONE, Errors.TOPIC_ALREADY_EXISTS, Errors.REQUEST_TIMED_OUT]
)
def test_a_created_topic_is_no_failure(error: Errors) -> None:
    asking = Asking()
    asking.errors("t")
    asking.answer(asking.requests()[0], t=error)
    assert asking.errors("t") == [Errors.LEADER_NOT_AVAILABLE]


def test_the_controllers_refusal_reaches_the_client_once(caplog: pytest.LogCaptureFixture) -> None:
    asking = Asking()
    asking.errors("t", "u")
    refused = Errors.INVALID_REPLICATION_FACTOR
    asking.answer(asking.requests()[0], t=refused, u=Errors.NONE)
    assert asking.errors("t") == [refused]
    assert "cannot create t: INVALID_REPLICATION_FACTOR" in caplog.text
    assert asking.errors("t") == [Errors.LEADER_NOT_AVAILABLE], "and is tried again"


def test_a_refusal_is_forgotten_with_the_next_response() -> None:
    asking = Asking()
    asking.errors("t")
    asking.errors("u")
    refused, created = asking.requests()
    asking.answer(refused, t=Errors.INVALID_REPLICATION_FACTOR)
    asking.answer(created, u=Errors.NONE)
    assert asking.errors("t") == [Errors.LEADER_NOT_AVAILABLE]


def test_an_invalid_name_is_not_sent() -> None:
    asking = Asking()
    assert asking.errors("a/b") == [Errors.INVALID_TOPIC_EXCEPTION]
    assert asking.requests() == []


def test_topics_are_created_only_if_client_and_broker_allow_it() -> None:
    asking = Asking()
    assert asking.errors("t", allow=False) == [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    refusing = Asking(auto_create_topics_enable="false")
    assert refusing.errors("t") == [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    assert asking.requests() == refusing.requests() == []


def test_a_broker_without_replicas_has_the_topic_of_transactions_created() -> None:
    asking = Asking(transaction_state_log_num_partitions="3")
    wanted = FindCoordinatorRequest("x", is_transactional=True)
    refused = asking.network.request(BROKER, wanted, CLIENT)
    assert refused == FindCoordinatorResponse(Errors.UNSUPPORTED_VERSION)
    config = broker_config({"transaction.state.log.num.partitions": "3"})
    asking.network.add(BROKER, msgspec.structs.replace(config, hosts_replicas=False))
    asking.network.request(BROKER, update_metadata())
    found = asking.network.request(BROKER, wanted, CLIENT)
    assert found == FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)
    [request] = asking.requests()
    assert isinstance(request.body, CreateTopicsRequest)
    [topic] = request.body.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (
        *("__transaction_state", 3, 3),
    )
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    states = [
        msgspec.structs.replace(cached(T0), topic_partition=TopicPartition(topic.name, n))
        for n in range(3)
    ]
    asking.network.request(BROKER, update_metadata(*states))
    found = asking.network.request(BROKER, wanted, CLIENT)
    assert isinstance(found, FindCoordinatorResponse)
    assert found.coordinator is not None
    assert found.coordinator.id == cached(T0).leader
