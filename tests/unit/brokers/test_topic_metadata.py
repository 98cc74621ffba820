"""A broker tells any client what its metadata cache holds."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest, MetadataResponse, PartitionMetadata
from klamm.cluster.types import Broker, TopicPartition
from tests.unit.brokers.network import T0, T1, TOPIC_ID, Network, cached, update_metadata

UNKNOWN = Errors.UNKNOWN_TOPIC_OR_PARTITION


def ask(network: Network, *topics: str) -> MetadataResponse:
    answer = network.request(1, MetadataRequest(topics or None))
    assert isinstance(answer, MetadataResponse)
    return answer


@pytest.fixture
def network() -> Network:
    network = Network()
    network.add(1)
    return network


def test_metadata_names_leaders_live_brokers_and_the_controller(network: Network) -> None:
    with_offline = msgspec.structs.replace(cached(T1, leader=2), offline_replicas=(3,))
    network.request(1, update_metadata(with_offline, cached(T0), live=(1, 2), controller_id=2))
    answer = ask(network, "t")
    [topic] = answer.topics
    known = cached(T0)
    assert topic.partitions == tuple(
        PartitionMetadata(
            Errors.NONE, p, leader, known.leader_epoch, known.replicas, known.isr, off
        )
        for p, leader, off in ((0, 1, ()), (1, 2, (3,)))
    )
    assert (topic.error, topic.name, topic.topic_id) == (Errors.NONE, "t", TOPIC_ID)
    assert answer.controller_id == 2
    assert [broker.id for broker in answer.brokers] == [1, 2]
    assert all(isinstance(broker, Broker) for broker in answer.brokers)


@pytest.mark.parametrize("leader", [-1, 9])
def test_a_leader_that_does_not_live_is_none(network: Network, leader: int) -> None:
    network.request(1, update_metadata(cached(T0, leader=leader)))
    [partition] = ask(network, "t").topics[0].partitions
    assert (partition.error, partition.leader) == (Errors.LEADER_NOT_AVAILABLE, -1)
    assert partition.leader_epoch == cached(T0).leader_epoch


def test_metadata_of_unknown_topics_is_an_error_and_no_list_means_all_topics(
    network: Network,
) -> None:
    assert ask(network).topics == ()
    assert ask(network).controller_id == -1
    network.request(1, update_metadata(cached(TopicPartition("u", 3)), cached(T0)))
    answer = ask(network, "absent", "u")
    assert [(topic.name, topic.error) for topic in answer.topics] == [
        ("absent", UNKNOWN),
        ("u", Errors.NONE),
    ]
    assert [partition.partition for partition in answer.topics[1].partitions] == [3]
    assert [topic.name for topic in ask(network).topics] == ["u", "t"]


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "t/0", "t" * 250])
def test_an_invalid_topic_name_differs_from_one_that_is_free(network: Network, topic: str) -> None:
    answer = ask(network, topic, "t" * 249)
    assert [one.error for one in answer.topics] == [Errors.INVALID_TOPIC_EXCEPTION, UNKNOWN]
