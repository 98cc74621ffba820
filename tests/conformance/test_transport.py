"""What actors may rely on in the transports of the real and of the simulated world."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceResponse
from klamm.cluster.request_faults import RequestFault
from klamm.cluster.requests import Address, Disconnected, Message
from klamm.world.network import CLIENTS, LinkFault, Traffic, isolation, one_way
from tests.conformance.transports import (
    CLIENT,
    ONE,
    TWO,
    RoutedRig,
    SimulatedRig,
    TransportRig,
    produce,
    update,
)

LINK = one_way([1], [2])
BROKEN = Message(TWO, CLIENT, -1, Disconnected())


@pytest.fixture(params=[RoutedRig, SimulatedRig], ids=["real", "simulated"])
def rig(request: pytest.FixtureRequest) -> TransportRig:
    """Every test runs on each transport."""
    opened: TransportRig = request.param()
    return opened


def test_messages_of_a_link_arrive_once_and_in_the_order_in_which_they_were_sent(
    rig: TransportRig,
) -> None:
    rig.send(*map(update, range(20)))
    assert rig.numbers() == [*range(20)]
    assert rig.numbers(ONE) == []


def test_a_message_to_an_address_without_a_process_is_lost(rig: TransportRig) -> None:
    rig.transport.unregister(TWO)
    rig.send(update(1))
    rig.run()
    rig.restart(TWO)
    rig.send(update(2))
    assert rig.numbers() == [2]


@pytest.mark.parametrize(
    ("fault", "while_faulty", "after"),
    [
        (LinkFault(links=LINK, is_cut=True), [], [3]),
        (LinkFault(links=LINK, is_clogged=True), [], [1, 2, 3]),
        (LinkFault(links=LINK, loss=1.0, is_degraded=True), [], [3]),
        (LinkFault(links=LINK, delay_ms=500), [1, 2], [1, 2, 3]),
        (LinkFault(links=LINK, is_cut=True, only=Traffic.RECORDS), [1, 2], [1, 2, 3]),
        (LinkFault(links=LINK, is_cut=True, only=Traffic.CONTROL), [1, 2], [1, 2, 3]),
        (LinkFault(links=LINK, is_degraded=True), [1, 2], [1, 2, 3]),
        (LinkFault(links=one_way([2], [1]), is_cut=True), [1, 2], [1, 2, 3]),
        (isolation([2], [1, 2]), [1, 2], [1, 2, 3]),
    ],
)
def test_a_fault_of_a_link_affects_its_messages_until_it_is_healed(
    rig: TransportRig, fault: LinkFault, while_faulty: list[int], after: list[int]
) -> None:
    rig.set_fault(fault)
    rig.send(update(1), update(2))
    assert rig.numbers() == while_faulty
    rig.transport.heal()
    rig.send(update(3))
    assert rig.numbers() == after
    assert rig.transport.faults == ()


def test_a_delayed_message_arrives_after_its_delay_and_no_later_one_overtakes_it(
    rig: TransportRig,
) -> None:
    rig.set_fault(LinkFault(links=LINK, delay_ms=500))
    rig.send(update(1))
    rig.set_fault()
    rig.send(update(2))
    assert rig.numbers() == [1, 2]
    assert rig.clock.monotonic_ms() >= 500


def test_a_repeated_message_arrives_twice(rig: TransportRig) -> None:
    rig.set_fault(LinkFault(links=LINK, repetition=1.0, is_degraded=True))
    rig.send(update(1))
    assert rig.numbers() == [1, 1]


@pytest.mark.parametrize(
    "fault", [LinkFault(links=LINK, is_clogged=True), LinkFault(links=LINK, delay_ms=500)]
)
def test_a_held_or_delayed_message_does_not_reach_the_next_process_at_its_address(
    rig: TransportRig, fault: LinkFault
) -> None:
    rig.set_fault(fault)
    rig.send(update(1))
    rig.transport.unregister(TWO)
    rig.restart(TWO)
    rig.transport.heal()
    rig.send(update(2))
    assert rig.numbers() == [2]


def test_a_client_is_notified_once_when_a_broker_that_it_has_sent_to_ends(
    rig: TransportRig,
) -> None:
    rig.transport.unregister(TWO)
    rig.restart(TWO)
    assert rig.numbers(CLIENT) == [], "it had sent nothing"
    rig.send(produce(1))
    rig.run()
    rig.transport.unregister(TWO)
    rig.run()
    assert rig.received[CLIENT] == [BROKEN]
    rig.restart(TWO)
    rig.transport.unregister(TWO)
    rig.run()
    assert rig.received[CLIENT] == [BROKEN]


def test_a_client_that_sends_to_a_dead_broker_is_notified(rig: TransportRig) -> None:
    rig.transport.unregister(TWO)
    rig.send(produce(1))
    rig.run()
    assert rig.received[CLIENT] == [BROKEN]


def test_a_lost_message_breaks_the_connection_of_a_client(rig: TransportRig) -> None:
    rig.set_fault(LinkFault(links=one_way([CLIENTS], [2]), is_cut=True))
    rig.send(produce(1))
    rig.run()
    assert (rig.received[TWO], rig.received[CLIENT]) == ([], [BROKEN])


def test_a_response_that_was_sent_before_the_end_of_a_broker_arrives_before_the_notification(
    rig: TransportRig,
) -> None:
    answer = Message(TWO, CLIENT, 1, ProduceResponse({}))
    rig.send(produce(1))
    rig.run()
    rig.send(answer)
    rig.transport.unregister(TWO)
    rig.run()
    assert rig.received[CLIENT] == [answer, BROKEN]


def test_a_request_with_a_fault_is_refused_as_often_as_the_fault_says(rig: TransportRig) -> None:
    error = Errors.NOT_LEADER_OR_FOLLOWER
    rig.transport.request_faults.append(RequestFault("Produce", None, None, 2, error=error))
    rig.send(produce(1), produce(2), produce(3))
    assert rig.numbers() == [3]
    assert sorted(rig.numbers(CLIENT)) == [1, 2]


def test_a_request_fault_affects_only_its_client_and_broker(rig: TransportRig) -> None:
    rig.transport.request_faults.append(RequestFault("Produce", None, (1,), None))
    rig.send(produce(1, ONE), produce(2, TWO))
    assert (rig.numbers(ONE), rig.numbers(TWO)) == ([], [2])


def test_taps_see_every_message_also_those_that_are_lost(rig: TransportRig) -> None:
    seen: list[int] = []
    rig.transport.add_tap(lambda message: seen.append(message.correlation_id))
    rig.set_fault(LinkFault(links=LINK, is_cut=True))
    rig.send(update(1), update(2, TWO, ONE), update(3, ONE, Address("broker", 7)))
    rig.run()
    assert seen == [1, 2, 3]
