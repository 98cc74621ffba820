"""Producer ids are given once, in blocks of a thousand that brokers take in ZooKeeper.

Source: kafka.coordinator.transaction.ProducerIdManager.
"""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import InitProducerIdRequest, InitProducerIdResponse
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import LostReply
from klamm.zk.store import SetData
from klamm.zk.znodes import ProducerIdBlock, ProducerIdBlockZNode
from klamm.zk.znodes.json_values import LONG_MAX
from tests.unit.brokers.network import Network

PATH = ProducerIdBlockZNode.path


@pytest.fixture
def network() -> Network:
    network = Network()
    for broker_id in (1, 2):
        network.add(broker_id).startup()
    return network


def ask(network: Network, broker_id: int) -> InitProducerIdResponse:
    answer = network.request(broker_id, InitProducerIdRequest())
    assert isinstance(answer, InitProducerIdResponse)
    return answer


def stored(network: Network) -> bytes | None:
    found = KafkaZkClient(network.stores[1]).get_data_and_stat(PATH)
    assert found is not None
    return found[0]


def test_each_broker_has_its_own_blocks_of_producer_ids(network: Network) -> None:
    assert stored(network) is None
    given = [ask(network, broker_id) for broker_id in (1, 2, 1, 2)]
    assert [answer.producer_id for answer in given] == [0, 1000, 1, 1001]
    assert {(answer.error, answer.producer_epoch) for answer in given} == {(Errors.NONE, 0)}
    assert stored(network) == (b'{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}')


def test_a_used_up_block_is_followed_by_another_one(network: Network) -> None:
    ids = [ask(network, 1).producer_id for _ in range(1001)]
    assert ids == list(range(1001))
    assert ProducerIdBlockZNode.decode(stored(network) or b"") == ProducerIdBlock(1, 1000, 1999)


def test_a_block_whose_reply_was_lost_is_taken_and_no_id_is_given_twice(network: Network) -> None:
    def lose_once(session_id: int, op: object, result: object) -> None:
        if isinstance(op, tuple | list) and isinstance(op[0], SetData):
            network.zookeeper.after_op = None
            raise LostReply

    network.zookeeper.after_op = lose_once
    assert ask(network, 1).producer_id == 0
    assert network.zookeeper.after_op is None
    assert ask(network, 2).producer_id == 1000


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"version":1,"broker":1}',
        b'{"version":1,"broker":1,"block_start":"x","block_end":"y"}',
        b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775807"}',
    ],
)
def test_a_znode_that_gives_no_id_is_an_answer(network: Network, data: bytes) -> None:
    KafkaZkClient(network.stores[1]).set_data(PATH, data)
    assert ask(network, 1) == InitProducerIdResponse(Errors.UNKNOWN_SERVER_ERROR)
    assert stored(network) == data


def test_the_last_block_is_given(network: Network) -> None:
    last = ProducerIdBlock(1, LONG_MAX - 1999, LONG_MAX - 1000)
    KafkaZkClient(network.stores[1]).set_data(PATH, ProducerIdBlockZNode.encode(last))
    assert ask(network, 1).producer_id == LONG_MAX - 999


def test_without_a_session_a_producer_must_ask_again(network: Network) -> None:
    network.zookeeper.expire_session(network.stores[1].session_id)
    assert ask(network, 1) == InitProducerIdResponse(Errors.COORDINATOR_NOT_AVAILABLE)
