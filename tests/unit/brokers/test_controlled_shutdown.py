"""A broker's requests for a controlled shutdown: when it asks, waits, asks again and gives up."""

from __future__ import annotations

import pytest

from klamm.brokers.config import broker_config
from klamm.brokers.controlled_shutdown import ControlledShutdownRequests
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import SessionExpired
from klamm.cluster.requests import Address, ControlledShutdownRequest, ControlledShutdownResponse
from klamm.cluster.types import TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from klamm.zk.znodes import ControllerZNode
from tests.unit.brokers.network import Network

EPOCH = 77
LEFT = (TopicPartition("t", 0),)
CONFIG = {
    "controlled.shutdown.max.retries": "2",
    "controlled.shutdown.retry.backoff.ms": "100",
    "request.timeout.ms": "1000",
}
DONE = ControlledShutdownResponse(Errors.NONE)


class Shutdown(ControlledShutdownRequests):
    """The requests of broker 3 to controller 1, which are numbered from 1."""

    def __init__(self, **configs: str) -> None:
        properties = {**CONFIG, **{k.replace("_", "."): v for k, v in configs.items()}}
        self.sent: list[tuple[Address, ControlledShutdownRequest]] = []
        self.controller_id: int | None = 1
        self.is_expired = False
        super().__init__(3, broker_config(properties), self._find, self._record)

    def _find(self) -> int | None:
        if self.is_expired:
            raise SessionExpired("the session expired")
        return self.controller_id

    def _record(self, to: Address, request: ControlledShutdownRequest) -> int:
        self.sent.append((to, request))
        return len(self.sent)


@pytest.mark.parametrize(
    ("enable", "retries", "is_enabled"),
    [("true", "1", True), ("true", "0", False), ("false", "3", False)],
)
def test_without_retries_or_disabled_the_broker_may_stop_at_once(
    enable: str, retries: str, is_enabled: bool
) -> None:
    made = Shutdown(controlled_shutdown_enable=enable, controlled_shutdown_max_retries=retries)
    made.attempt(EPOCH, 0)
    assert (made.is_enabled, made.is_over) == (is_enabled, not is_enabled)
    assert len(made.sent) == is_enabled


def test_a_successful_response_ends_the_shutdown() -> None:
    made = Shutdown()
    made.attempt(EPOCH, 0)
    assert made.sent == [(Address("controller", 1), ControlledShutdownRequest(3, EPOCH))]
    made.on_response(1, DONE, 5)
    assert (made.succeeded, made.is_over, made.next_due_ms()) == (True, True, None)


@pytest.mark.parametrize(
    "refused",
    [
        ControlledShutdownResponse(Errors.STALE_BROKER_EPOCH),
        ControlledShutdownResponse(Errors.NONE, LEFT),
    ],
)
def test_a_refusal_is_followed_by_another_attempt_and_the_last_one_by_the_end(
    refused: ControlledShutdownResponse,
) -> None:
    made = Shutdown()
    assert made.timeout_ms == 3 * 1100
    made.attempt(EPOCH, 0)
    for number, at_ms in ((1, 50), (2, 200)):
        made.on_response(number, refused, at_ms)
        assert (made.error, made.remaining) == (refused.error, refused.remaining_partitions)
        assert made.next_due_ms() == at_ms + 100
        made.on_timer(EPOCH, at_ms + 99)
        assert len(made.sent) == number
        made.on_timer(EPOCH, at_ms + 100)
    assert len(made.sent) == 2
    assert (made.is_over, made.succeeded, made.next_due_ms()) == (True, False, None)


def test_an_answer_that_comes_too_late_is_ignored() -> None:
    made = Shutdown()
    made.attempt(EPOCH, 0)
    made.on_timer(EPOCH, 999)
    made.on_response(7, DONE, 999)
    assert made.next_due_ms() == 1000
    made.on_timer(EPOCH, 1000)
    made.on_response(1, DONE, 1001)
    assert made.next_due_ms() == 1100
    made.on_timer(EPOCH, 1100)
    made.on_response(1, DONE, 1101)
    assert not made.is_over
    made.on_response(2, DONE, 1102)
    assert made.succeeded


@pytest.mark.parametrize("is_expired", [True, False], ids=["session expired", "no controller"])
def test_an_attempt_without_a_controller_fails(is_expired: bool) -> None:
    made = Shutdown()
    made.controller_id, made.is_expired = None, is_expired
    made.attempt(EPOCH, 0)
    assert (made.sent, made.next_due_ms()) == ([], 100)
    made.controller_id, made.is_expired = 2, False
    made.on_timer(EPOCH + 1, 100)
    assert made.sent == [(Address("controller", 2), ControlledShutdownRequest(3, EPOCH + 1))]


def test_a_controller_whose_broker_is_not_registered_is_not_asked() -> None:
    network = Network()
    broker = network.add(1)
    broker.startup()
    client = KafkaZkClient(MemoryStore(network.zookeeper, 6000))
    client.create(ControllerZNode.path, ControllerZNode.encode(9, 0))
    broker.begin_controlled_shutdown()
    network.pass_time(4_999)
    assert network.sent == []
    network.add(9).startup()
    network.pass_time(1)
    (asked,) = network.sent
    assert asked.destination == Address("controller", 9)
    assert asked.body == ControlledShutdownRequest(1, broker.broker_epoch)
