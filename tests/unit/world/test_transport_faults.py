"""Faults of links and of requests by themselves: what arrives where, when and how often."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest
from klamm.cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from klamm.cluster.request_faults import RequestFault, check_request_fault
from klamm.cluster.requests import Address, Disconnected, Message, UpdateMetadataResponse
from klamm.world.clock import VirtualClock
from klamm.world.network import (
    CLIENTS,
    ZOOKEEPER,
    LinkFault,
    Traffic,
    between,
    check_links,
    isolation,
    links_text,
    one_way,
    party_of,
    traffic_of,
)
from klamm.world.transport import MAX_DELAY_MS, RoutedTransport, SimulatedTransport

CLIENT = Address("client", 9)
ONE, TWO = Address("broker", 1), Address("broker", 2)
LINK = one_way([1], [2])


def numbered(number: int, source: Address = ONE, destination: Address = TWO) -> Message:
    return Message(source, destination, number, UpdateMetadataResponse(Errors.NONE))


def produce(number: int, acks: int = 1) -> Message:
    return Message(CLIENT, TWO, number, ProduceRequest(acks, 1_000, {}))  # type: ignore[arg-type]


class Routed:
    """A transport that passes messages on at once, and what its actors have received."""

    def __init__(self, *faults: LinkFault, seed: int = 0) -> None:
        self.transport = RoutedTransport(random.Random(seed))
        self.received: list[Message] = []
        self.answers: list[Message] = []
        self.transport.register(ONE, self.received.append)
        self.transport.register(TWO, self.received.append)
        self.transport.register(CLIENT, self.answers.append, notify_disconnects=True)
        self.transport.faults = faults

    def numbers(self) -> list[int]:
        return [message.correlation_id for message in self.received]


def test_a_link_stays_clogged_while_any_fault_clogs_it() -> None:
    clogged, cut = LinkFault(links=LINK, is_clogged=True), LinkFault(links=LINK, is_cut=True)
    routed = Routed(clogged)
    changes = []
    routed.transport.on_change = lambda: changes.append(1)
    routed.transport.send(numbered(1))
    routed.transport.send(numbered(2))
    routed.transport.faults = (LinkFault(is_clogged=True),)
    assert (routed.numbers(), changes) == ([], [1])
    routed.transport.faults = (cut,)
    assert routed.numbers() == [1, 2], "they were sent before the link was cut"
    routed.transport.send(numbered(3))
    assert routed.numbers() == [1, 2]


def test_clogged_messages_reach_only_the_process_that_they_were_sent_to() -> None:
    routed = Routed(LinkFault(is_clogged=True))
    routed.transport.send(numbered(1))
    routed.transport.send(numbered(2, TWO, ONE))
    routed.transport.unregister(TWO)
    routed.transport.register(TWO, routed.received.append)
    routed.transport.send(numbered(3))
    routed.transport.heal()
    assert routed.numbers() == [2, 3]


def test_a_lost_message_breaks_the_connection_of_a_client() -> None:
    to_2, from_2 = one_way([CLIENTS], [2]), one_way([2], [CLIENTS])
    for links, sent in ((to_2, produce(1)), (from_2, Message(TWO, CLIENT, 1, ProduceResponse({})))):
        routed = Routed(LinkFault(links=links, is_cut=True))
        routed.transport.send(sent)
        assert routed.received == []
        assert routed.answers == [Message(TWO, CLIENT, -1, Disconnected())]
        # The broken connection is not broken again at the end of the broker.
        routed.transport.unregister(TWO)
        assert len(routed.answers) == 1


def test_records_reach_a_broker_unless_a_fault_stops_them() -> None:
    for fault, reaches in (
        (LinkFault(links=LINK, is_cut=True), False),
        (LinkFault(links=LINK, is_clogged=True), False),
        (LinkFault(links=LINK, delay_ms=5), True),
        (LinkFault(links=LINK, is_cut=True, only=Traffic.CONTROL), True),
        (LinkFault(links=LINK, is_cut=True, only=Traffic.RECORDS), False),
        (LinkFault(links=one_way([2], [1]), is_cut=True), True),
    ):
        assert Routed(fault).transport.reaches(ONE, TWO) == reaches
    assert Routed().transport.reaches(ONE, TWO)


def test_links_with_zookeeper_have_faults_of_their_own() -> None:
    lag = LinkFault(links=one_way([ZOOKEEPER], [1]), lag_ms=7)
    routed = Routed(
        lag, LinkFault(is_cut=True), LinkFault(links=one_way([1], [ZOOKEEPER]), delay_ms=3)
    )
    sent, answered = routed.transport.with_zookeeper(1)
    assert (sent.delay_ms, sent.is_cut, answered.lag_ms, answered.is_cut) == (3, False, 7, False)
    assert routed.transport.with_zookeeper(2) == (LinkFault(), LinkFault())


def test_faults_are_described() -> None:
    routed = Routed(isolation([2, 1], [1, 2, 3]), LinkFault(text="cut 1 -> 2"))
    assert routed.transport.isolated_broker_ids == [1, 2]
    routed.transport.request_faults.append(RequestFault("Fetch", None, None, None))
    assert routed.transport.fault_texts == ["cut 1 -> 2", "all Fetch requests are dropped"]
    routed.transport.heal()
    assert routed.transport.fault_texts == []


def test_taps_see_lost_messages_too_and_other_processes_get_theirs() -> None:
    routed = Routed(LinkFault(links=LINK, is_cut=True))
    seen: list[int] = []
    remote: list[int] = []
    routed.transport.add_tap(lambda message: seen.append(message.correlation_id))
    routed.transport.send(numbered(1))
    routed.transport.send(numbered(2, ONE, Address("broker", 3)))
    routed.transport.remote = lambda message: remote.append(message.correlation_id)
    routed.transport.send(numbered(3, ONE, Address("broker", 3)))
    routed.transport.send(numbered(4, ONE, Address("controller", 3)))
    assert (seen, remote, routed.numbers()) == ([1, 2, 3, 4], [3], [])


def test_late_messages_let_no_later_one_overtake_them() -> None:
    routed = Routed(LinkFault(links=LINK, delay_ms=100))
    late: list[tuple[Message, float, bool]] = []
    routed.transport.deliver_later = lambda *given: late.append(given)
    routed.transport.send(numbered(1))
    routed.transport.send(numbered(2, TWO, ONE))
    routed.transport.faults = ()
    routed.transport.send(numbered(3))
    assert [(message.correlation_id, ms, order) for message, ms, order in late] == [
        *((1, 100.0, True), (2, 0.0, True), (3, 0.0, True))
    ]
    assert routed.numbers() == []
    for message, _, _ in late:
        routed.transport.deliver_late(message)
    routed.transport.send(numbered(4))
    assert (routed.numbers(), len(late)) == ([1, 2, 3, 4], 3)


def test_a_late_message_does_not_reach_the_next_process_at_its_address() -> None:
    routed = Routed(LinkFault(delay_ms=100, links=frozenset({(1, 2), (2, 1)})))
    late: list[Message] = []
    routed.transport.deliver_later = lambda message, *_: late.append(message)
    routed.transport.send(numbered(1))
    routed.transport.send(numbered(2, TWO, ONE))
    routed.transport.unregister(TWO)
    routed.transport.register(TWO, routed.received.append)
    routed.transport.send(numbered(3))
    for message in late:
        routed.transport.deliver_late(message)
    assert routed.numbers() == [2, 3]
    routed.transport.faults = ()
    routed.transport.send(numbered(4))
    assert (routed.numbers(), len(late)) == ([2, 3, 4], 3)


def test_a_message_sent_while_the_last_late_one_arrives_does_not_overtake_it() -> None:
    routed = Routed(LinkFault(links=LINK, delay_ms=100))
    late: list[Message] = []
    routed.transport.deliver_later = lambda message, *_: late.append(message)
    routed.transport.send(numbered(1))
    routed.transport.faults = ()

    def receive(message: Message) -> None:
        if message.correlation_id == 1:
            routed.transport.send(numbered(2))  # as another thread may
        routed.received.append(message)

    routed.transport.register(TWO, receive)
    for message in late:
        routed.transport.deliver_late(message)
    assert routed.numbers() == [1, 2]


def test_messages_of_another_thread_do_not_overtake_held_ones_while_a_link_is_healed() -> None:
    routed = Routed(LinkFault(links=LINK, is_clogged=True))
    routed.transport.send(numbered(1))
    routed.transport.send(numbered(2))
    other = threading.Thread(target=lambda: routed.transport.send(numbered(3)))

    def receive(message: Message) -> None:
        if message.correlation_id == 1:
            other.start()
            other.join(0.05)
        routed.received.append(message)

    routed.transport.register(TWO, receive)
    routed.transport.heal()
    other.join()
    assert routed.numbers() == [1, 2, 3]


def test_a_connection_may_end_while_a_message_on_it_is_lost() -> None:
    class Draws(random.Random):
        """Draws a loss, and meanwhile the client ends its connection."""

        def random(self) -> float:
            routed.transport.unregister(CLIENT)
            return 0.0

    routed = Routed(LinkFault(loss=0.5))
    routed.transport._rng = Draws()
    routed.transport.send(Message(TWO, CLIENT, 1, ProduceResponse({})))
    assert routed.answers == []


def test_a_late_message_does_not_reach_the_next_process_even_after_the_fault() -> None:
    clock, received = VirtualClock(), list[int]()
    transport = SimulatedTransport(clock, random.Random(0))
    for address in (ONE, TWO):
        transport.register(address, lambda message: received.append(message.correlation_id))
    transport.faults = (LinkFault(links=LINK, delay_ms=1_000),)
    transport.send(numbered(1))
    transport.faults = ()
    transport.send(numbered(2, TWO, ONE))
    for address in (ONE, TWO):
        transport.unregister(address)
        transport.register(address, lambda message: received.append(message.correlation_id))
    clock.advance_to(2_000)
    transport.deliver_due()
    assert received == [2]


@pytest.mark.parametrize("sent", [produce(2), Message(TWO, CLIENT, 2, ProduceResponse({}))])
def test_a_lost_connection_carries_nothing_until_its_client_is_notified(sent: Message) -> None:
    clock, received = VirtualClock(), list[tuple[Address, int]]()
    transport = SimulatedTransport(clock, random.Random(0))
    for address in (TWO, CLIENT):
        transport.register(
            address,
            lambda message: received.append((message.destination, message.correlation_id)),
            notify_disconnects=address == CLIENT,
        )
    transport.faults = (LinkFault(links=one_way([CLIENTS], [2]), is_cut=True),)
    transport.send(produce(1))
    transport.faults = ()
    transport.send(sent)
    clock.advance_to(1_000)
    transport.deliver_due()
    assert received == [(CLIENT, -1)]
    transport.send(sent)
    clock.advance_to(2_000)
    transport.deliver_due()
    assert received[1:] == [(sent.destination, 2)]


# -- faults of requests


@pytest.mark.parametrize(
    ("fault", "received", "answers"),
    [
        ({}, [2], []),
        ({"error": Errors.NOT_LEADER_OR_FOLLOWER}, [2], [ProduceResponse]),
        ({"is_cut": True}, [2], [Disconnected]),
    ],
)
def test_the_next_request_has_the_fault(
    fault: dict[str, Any], received: list[int], answers: list[type]
) -> None:
    routed = Routed()
    routed.transport.request_faults.append(RequestFault("Produce", None, None, 1, **fault))
    for number in (1, 2):
        routed.transport.send(produce(number))
    assert routed.numbers() == received
    assert [type(message.body) for message in routed.answers] == answers
    assert not routed.transport.request_faults


def test_a_request_without_an_answer_is_not_refused() -> None:
    routed = Routed()
    fault = RequestFault("Produce", None, None, None, error=Errors.NOT_LEADER_OR_FOLLOWER)
    routed.transport.request_faults.append(fault)
    routed.transport.send(produce(1, acks=0))
    assert (routed.numbers(), routed.answers) == ([], [])


def test_a_request_to_a_dead_broker_keeps_the_fault_for_the_next() -> None:
    routed = Routed()
    routed.transport.request_faults.append(RequestFault(None, None, None, 1))
    gone = Message(CLIENT, Address("broker", 3), 1, ProduceRequest(1, 1_000, {}))
    routed.transport.send(gone)
    assert [type(message.body) for message in routed.answers] == [Disconnected]
    assert routed.transport.request_faults
    routed.transport.send(produce(2))
    assert not routed.transport.request_faults and routed.received == []


@pytest.mark.parametrize(
    ("fault", "message", "is_taken"),
    [
        (("Produce", None, None), produce(1), True),
        ((None, None, None), produce(1), True),
        (("Fetch", None, None), produce(1), False),
        (("Produce", "c", None), produce(1), True),
        (("Produce", "d", None), produce(1), False),
        (("Produce", None, frozenset([2, 3])), produce(1), True),
        (("Produce", None, frozenset([3])), produce(1), False),
        (("Metadata", None, None), Message(CLIENT, TWO, 1, MetadataRequest(("t",))), True),
        (("Metadata", None, None), Message(CLIENT, TWO, 1, MetadataRequest(())), False),
        ((None, None, None), Message(ONE, TWO, 1, ProduceRequest(1, 1, {})), False),
        ((None, None, None), numbered(1, CLIENT), False),
    ],
)
def test_a_fault_concerns_requests_of_its_api_client_and_brokers(
    fault: tuple[Any, Any, Any], message: Message, is_taken: bool
) -> None:
    routed = Routed()
    routed.transport.client_ids[CLIENT] = "c"
    routed.transport.request_faults.append(RequestFault(*fault, 2))
    found = routed.transport.request_faults.take(message, "c")
    assert (found is not None) == is_taken
    (left,) = routed.transport.request_faults
    assert left.left == (1 if is_taken else 2)


def test_the_oldest_fault_counts_and_all_may_have_one() -> None:
    routed = Routed()
    faults = routed.transport.request_faults
    assert routed.transport.take_request_fault("Fetch", None, 1) is None
    for fault in (
        RequestFault("Fetch", None, None, 1, delay_ms=5),
        RequestFault(None, None, None, None, is_cut=True),
    ):
        faults.append(fault)
    taken = [routed.transport.take_request_fault("Fetch", None, 1) for _ in range(3)]
    assert [one.is_cut for one in taken if one is not None] == [False, True, True]
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ((None, None, None, None), "all client requests are dropped"),
        (("Fetch", None, None, 1), "the next Fetch request is dropped"),
        (
            ("Fetch", "c", frozenset([2, 1]), 3, Errors.UNKNOWN_SERVER_ERROR),
            "the next 3 Fetch requests of client c to brokers 1,2 fail with UNKNOWN_SERVER_ERROR",
        ),
        (
            (None, None, None, 1, Errors.UNKNOWN_SERVER_ERROR),
            "the next client request fails with UNKNOWN_SERVER_ERROR",
        ),
        ((None, None, None, 2, None, True), "the next 2 client requests break their connections"),
        ((None, None, None, 1, None, True), "the next client request breaks its connection"),
        ((None, None, None, 1, None, False, 7), "the next client request is delayed by 7 ms"),
    ],
)
def test_a_fault_of_requests_is_described(fault: tuple[Any, ...], text: str) -> None:
    assert RequestFault(*fault).text == text


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((None, None, None, True, False, None), None),
        (("Fetch", None, "NOT_CONTROLLER", False, False, None), None),
        ((None, None, None, False, False, 5), None),
        (
            (None, None, None, False, False, None),
            "give one of 'error', 'drop', 'cut' and 'delay_ms'",
        ),
        ((None, None, None, True, True, None), "give one of 'error', 'drop', 'cut' and 'delay_ms'"),
        (
            (None, None, "NOT_CONTROLLER", False, False, 5),
            "give one of 'error', 'drop', 'cut' and 'delay_ms'",
        ),
        (
            ("Fetsh", None, None, True, False, None),
            "Fetsh is not an API of clients; did you mean Fetch",
        ),
        (("LeaderAndIsr", None, None, True, False, None), "LeaderAndIsr is not an API of clients"),
        (
            (None, None, "NOT_CONTROLER", False, False, None),
            "NOT_CONTROLER is not an error of Kafka",
        ),
        ((None, "", None, True, False, None), "the client id is empty"),
        ((None, None, "NONE", False, False, None), "NONE is not an error of Kafka"),
    ],
)
def test_a_fault_of_requests_has_one_effect(given: tuple[Any, ...], told: str | None) -> None:
    if told is None:
        check_request_fault(*given)
        return
    with pytest.raises(ValueError, match=f"^{told}"):
        check_request_fault(*given)


# -- links


def test_a_message_has_its_parties_and_its_part_of_the_traffic() -> None:
    assert (party_of(CLIENT), party_of(ONE), party_of(Address("controller", 2))) == (CLIENTS, 1, 2)
    controller = Address("controller", 1)
    for message, part in (
        (produce(1), Traffic.RECORDS),
        (Message(ONE, TWO, 1, FetchRequest(1, {})), Traffic.RECORDS),
        (Message(TWO, ONE, 1, FetchResponse({})), Traffic.RECORDS),
        (numbered(1, controller, TWO), Traffic.CONTROL),
        (numbered(1, TWO, controller), Traffic.CONTROL),
        (numbered(1), None),
        (Message(CLIENT, controller, 1, MetadataRequest(())), None),
    ):
        assert traffic_of(message) is part


def test_faults_between_groups_name_their_links() -> None:
    assert one_way([1, 2], [2, 3]) == {(1, 2), (1, 3), (2, 3)}
    assert between([[1], [2, 3], [CLIENTS]]) == {
        *((1, 2), (2, 1), (1, 3), (3, 1)),
        *((1, CLIENTS), (CLIENTS, 1), (2, CLIENTS), (CLIENTS, 2), (3, CLIENTS), (CLIENTS, 3)),
    }
    fault = isolation([2], [1, 2, 3])
    assert fault.links == {(1, 2), (2, 1), (2, 3), (3, 2)}
    assert (fault.only, fault.is_cut, fault.isolated) == (Traffic.RECORDS, True, (2,))
    assert links_text([[1, 2], ["zookeeper"]], True, None) == "1,2 | zookeeper"
    assert links_text([[1], [2]], False, Traffic.CONTROL) == "1 -> 2 (only control)"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (((1,), (2,), (), None), None),
        (((), (), ((1,), (2,)), Traffic.RECORDS), None),
        (((1,), (ZOOKEEPER,), (), None), None),
        (((1,), (), (), None), "give either"),
        (((), (), ((1,),), None), "give either"),
        (((), (), ((1,), ()), None), "give either"),
        (((1,), (2,), ((1,), (2,)), None), "give either"),
        (((1,), (), ((1,), (2,)), None), "give either"),
        (((1,), (2, 1), (), None), "1 is named twice"),
        (((CLIENTS,), (ZOOKEEPER,), (), None), "clients have no connections to zookeeper"),
        (((1,), (ZOOKEEPER,), (), Traffic.RECORDS), "'only' does not apply"),
    ],
)
def test_links_that_cannot_be_named_are_refused(given: tuple[Any, ...], told: str | None) -> None:
    if told is None:
        check_links(*given)
        return
    with pytest.raises(ValueError, match=told):
        check_links(*given)


# -- the simulated network


class Simulated:
    def __init__(self, *faults: LinkFault, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.transport = SimulatedTransport(self.clock, random.Random(seed))
        self.received: list[tuple[float, int]] = []
        for address in (ONE, TWO):
            self.transport.register(address, self._receive)
        self.transport.faults = faults

    def _receive(self, message: Message) -> None:
        self.received.append((self.clock.monotonic_ms(), message.correlation_id))

    def run(self) -> None:
        while (due_ms := self.transport.next_due_ms()) is not None:
            self.clock.advance_to(max(due_ms, self.clock.monotonic_ms()))
            assert self.transport.deliver_due() >= 1

    def numbers(self) -> list[int]:
        return [number for _, number in self.received]


def test_messages_take_some_time_and_keep_their_order() -> None:
    network = Simulated()
    begun_ms = network.clock.monotonic_ms()
    for number in range(20):
        network.transport.send(numbered(number))
    assert network.transport.deliver_due() == 0 or network.received
    network.run()
    assert network.numbers() == list(range(20))
    times = [ms - begun_ms for ms, _ in network.received]
    assert times[0] > 0.0 and times[-1] <= MAX_DELAY_MS and times == sorted(times)


def test_a_delay_is_added_and_a_reordered_message_may_be_very_late() -> None:
    network = Simulated(LinkFault(links=LINK, delay_ms=100))
    begun_ms = network.clock.monotonic_ms()
    network.transport.send(numbered(1))
    network.run()
    assert 100 <= network.received[0][0] - begun_ms <= 100 + MAX_DELAY_MS
    late = []
    for seed in range(20):
        network = Simulated(LinkFault(links=LINK, reordering=1.0), seed=seed)
        begun_ms = network.clock.monotonic_ms()
        for number in range(5):
            network.transport.send(numbered(number))
        network.run()
        assert sorted(network.numbers()) == list(range(5))
        late.append(network.numbers() != list(range(5)))
        assert network.received[-1][0] - begun_ms <= 100 * MAX_DELAY_MS
    assert any(late)


def test_a_repeated_message_may_arrive_after_later_ones() -> None:
    overtaken = 0
    for seed in range(20):
        network = Simulated(LinkFault(links=LINK, repetition=1.0), seed=seed)
        for number in range(3):
            network.transport.send(numbered(number))
        network.run()
        numbers = network.numbers()
        assert sorted(numbers) == [0, 0, 1, 1, 2, 2]
        overtaken += numbers != sorted(numbers)
    assert overtaken


def test_messages_in_flight_are_seen_by_link_and_delivered_one_by_one() -> None:
    network = Simulated()
    for number in range(3):
        network.transport.send(numbered(number))
        network.transport.send(numbered(10 + number, TWO, ONE))
    links = network.transport.by_link()
    assert {link: [m.correlation_id for m in held] for link, held in links.items()} == {
        (ONE, TWO): [0, 1, 2],
        (TWO, ONE): [10, 11, 12],
    }
    network.transport.deliver_next(TWO, ONE)
    assert network.numbers() == [10]
    network.run()
    assert sorted(network.numbers()[1:]) == [0, 1, 2, 11, 12]
    assert network.transport.in_flight == [] and network.transport.next_due_ms() is None


def test_a_network_without_faults_of_a_link_is_lossless() -> None:
    assert Simulated().transport.is_lossless(ONE, TWO)
    for fault in (
        LinkFault(links=LINK, is_cut=True),
        LinkFault(links=one_way([2], [1]), delay_ms=1),
        LinkFault(links=LINK, only=Traffic.CONTROL, loss=0.1),
    ):
        assert not Simulated(fault).transport.is_lossless(ONE, TWO)
    network = Simulated(LinkFault(links=one_way([1], [3]), is_cut=True))
    assert network.transport.is_lossless(ONE, TWO)
    network.transport.unregister(TWO)
    assert not network.transport.is_lossless(ONE, TWO)
    assert not network.transport.is_lossless(TWO, ONE)


def test_messages_in_flight_to_a_process_that_ends_are_lost_if_links_have_faults() -> None:
    network = Simulated(LinkFault(links=LINK, delay_ms=1_000))
    network.transport.send(numbered(1))
    network.transport.send(numbered(2, TWO, ONE))
    network.transport.unregister(TWO)
    network.transport.register(TWO, network._receive)
    network.run()
    assert network.numbers() == [2]
