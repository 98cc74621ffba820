"""Connections break: who hears of them is told, once, and nothing overtakes anything on them."""

from __future__ import annotations

import random

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest, ProduceResponse
from klamm.cluster.request_faults import RequestFault
from klamm.cluster.requests import Address, Disconnected, Message
from klamm.world.clock import VirtualClock
from klamm.world.network import LinkFault, Traffic, effect_of, one_way
from klamm.world.transport import RequestClient, RoutedTransport, SimulatedTransport
from tests.sim.faults import degraded

CLIENT, OTHER_CLIENT, BROKER = Address("client", 1), Address("client", 2), Address("broker", 1)
GONE = Message(BROKER, CLIENT, -1, Disconnected())


def request(number: int, source: Address = CLIENT) -> Message:
    return Message(source, BROKER, number, ProduceRequest(1, 1000, {}))


def test_only_clients_that_ask_for_it_are_notified_while_they_run() -> None:
    transport = RoutedTransport()
    told, unaware = list[Message](), list[Message]()
    transport.register(CLIENT, told.append, notify_disconnects=True)
    transport.register(OTHER_CLIENT, unaware.append)
    transport.register(BROKER, lambda _: None)
    for source in (CLIENT, OTHER_CLIENT):
        transport.send(request(1, source))
    transport.unregister(BROKER)
    assert (told, unaware) == ([GONE], [])
    transport.unregister(CLIENT)
    transport.send(request(2))
    assert told == [GONE]


def simulated(seed: int) -> tuple[SimulatedTransport, VirtualClock, list[Message], list[Message]]:
    clock = VirtualClock()
    transport = SimulatedTransport(clock, random.Random(seed))
    answered: list[Message] = []
    asked: list[Message] = []
    transport.register(CLIENT, answered.append, notify_disconnects=True)
    transport.register(BROKER, asked.append)
    return transport, clock, answered, asked


def deliver_all(transport: SimulatedTransport, clock: VirtualClock) -> None:
    while (due_ms := transport.next_due_ms()) is not None:
        clock.advance_to(max(due_ms, clock.monotonic_ms()))
        transport.deliver_due()


def test_a_response_to_a_withdrawn_request_is_dropped() -> None:
    transport, asked = RoutedTransport(), list[Message]()
    transport.register(BROKER, asked.append)
    client = RequestClient(CLIENT)
    waiting = client.send(transport, BROKER, ProduceRequest(1, 1000, {}))
    client.send(transport, BROKER, ProduceRequest(1, 1000, {}))
    for message in reversed(asked):
        transport.send(Message(BROKER, message.source, message.correlation_id, ProduceResponse({})))
    assert waiting.result(0) == ProduceResponse({})
    assert [message.correlation_id for message in asked] == [1, 2]


def test_messages_sent_before_the_disconnection_is_noticed_are_lost() -> None:
    transport, clock, answered, asked = simulated(1)
    transport.send(request(1))
    deliver_all(transport, clock)
    transport.unregister(BROKER)
    transport.register(BROKER, asked.append)
    transport.send(request(2))
    deliver_all(transport, clock)
    transport.send(request(3))
    deliver_all(transport, clock)
    assert [message.correlation_id for message in asked] == [1, 3]
    assert answered == [GONE]


def test_a_bad_network_breaks_connections_of_clients_and_reorders_nothing_on_them() -> None:
    broken = 0
    for seed in range(30):
        transport, clock, answered, asked = simulated(seed)
        transport.faults = (degraded(loss=0.1, repetition=0.5, reordering=0.5),)
        for number in range(10):
            transport.send(request(number))
        deliver_all(transport, clock)
        numbers = [message.correlation_id for message in asked]
        assert numbers == sorted(set(numbers))
        assert (len(numbers) == 10) == (answered == [])
        broken += bool(answered)
    assert 0 < broken < 30


def test_a_request_on_a_bad_link_has_its_own_fault_too() -> None:
    transport, clock, answered, asked = simulated(seed=0)
    transport.faults = (LinkFault(delay_ms=100),)
    refused = RequestFault("Produce", None, None, 1, error=Errors.NOT_LEADER_OR_FOLLOWER)
    for fault in (refused, RequestFault("Produce", None, None, 1, delay_ms=50)):
        transport.request_faults.append(fault)
    for number in range(3):
        transport.send(request(number))
    assert not transport.request_faults
    deliver_all(transport, clock)
    assert [message.correlation_id for message in answered] == [0], "it was refused"
    assert [message.correlation_id for message in asked] == [1, 2]
    assert clock.monotonic_ms() >= 150


def test_delays_of_a_link_add_up_and_of_several_rates_or_lags_the_highest_counts() -> None:
    links = one_way([1], [2])
    faults = [
        LinkFault(links=links, delay_ms=100, lag_ms=7, loss=0.1, repetition=0.2, reordering=0.3),
        LinkFault(links=links, delay_ms=50, lag_ms=9, loss=0.3, repetition=0.1, reordering=0.2),
        LinkFault(delay_ms=20),
        LinkFault(links=links, only=Traffic.RECORDS, is_cut=True),
        LinkFault(links=one_way([2], [1]), delay_ms=1_000, is_clogged=True),
    ]
    whole = LinkFault(delay_ms=170, lag_ms=9, loss=0.3, repetition=0.2, reordering=0.3)
    assert effect_of(faults, (1, 2)) == whole
    with_records = msgspec.structs.replace(whole, is_cut=True)
    assert effect_of(faults, (1, 2), Traffic.RECORDS) == with_records
    assert effect_of(faults, (2, 1)) == LinkFault(is_clogged=True, delay_ms=1_020)
    assert effect_of(faults, (1, 1)) is None
