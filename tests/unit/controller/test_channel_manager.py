"""The channels: one request in flight a broker, in order, again after a timeout."""

from __future__ import annotations

from klamm.cluster.requests import Address, Message, UpdateMetadataRequest
from klamm.controller.channel_manager import ChannelManager
from klamm.controller.events import RequestTimeout
from klamm.world.clock import VirtualClock

TIMEOUT_MS = 100.0


class Wire:
    """Keeps what was sent and which timers were asked for."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.timers: list[tuple[RequestTimeout, float]] = []
        self.clock = VirtualClock()
        self.channels = ChannelManager(0, self, self.clock, self.schedule, TIMEOUT_MS)

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def schedule(self, event: RequestTimeout, delay_ms: float) -> None:
        self.timers.append((event, delay_ms))

    def epochs(self) -> list[int]:
        """The broker epochs of what was sent, which tell the requests apart."""
        return [m.body.broker_epoch for m in self.sent]  # type: ignore[union-attr]

    def wait(self, ms: float) -> None:
        self.clock.advance_to(self.clock.monotonic_ms() + ms)


def request(number: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(0, 1, number, (), (), {})


def made(*broker_ids: int) -> Wire:
    wire = Wire()
    for broker_id in broker_ids:
        wire.channels.add_broker(broker_id)
    return wire


def test_one_request_is_in_flight_and_the_others_wait_in_order() -> None:
    wire = made(1)
    for number in range(3):
        assert wire.channels.send_request(1, request(number), event_id=number)
    assert wire.epochs() == [0]
    assert wire.channels.queue_sizes()[1][0] == 2
    for number in range(3):
        answered = wire.channels.on_response(1, wire.sent[-1].correlation_id)
        assert answered is not None
        assert (answered.request, answered.event_id) == (request(number), number)
    assert wire.epochs() == [0, 1, 2]
    assert wire.channels.is_idle()
    assert wire.sent[0].source == Address("controller", 0)
    assert wire.sent[0].destination == Address("broker", 1)


def test_brokers_do_not_wait_for_one_another() -> None:
    wire = made(1, 2)
    wire.channels.send_request(1, request(1), 0)
    wire.channels.send_request(2, request(2), 0)
    assert wire.epochs() == [1, 2]


def test_without_a_channel_nothing_is_sent() -> None:
    wire = made()
    assert not wire.channels.send_request(1, request(1), 0)
    assert not wire.sent


def test_an_answer_to_something_else_changes_nothing() -> None:
    wire = made(1)
    wire.channels.send_request(1, request(1), 0)
    wire.channels.send_request(1, request(2), 0)
    assert wire.channels.on_response(1, 99) is None
    assert wire.channels.on_response(2, 0) is None
    assert wire.epochs() == [1]


def test_a_removed_broker_gets_nothing_more_and_its_late_answer_matches_nothing() -> None:
    wire = made(1)
    wire.channels.send_request(1, request(1), 0)
    wire.channels.send_request(1, request(2), 0)
    late = wire.sent[0].correlation_id
    wire.channels.remove_broker(1)
    wire.channels.add_broker(1)
    wire.channels.send_request(1, request(3), 0)
    assert wire.channels.on_response(1, late) is None
    assert wire.epochs() == [1, 3]


def test_a_broker_that_has_a_channel_keeps_it_and_its_requests() -> None:
    wire = made(1)
    for number in (1, 2):
        wire.channels.send_request(1, request(number), 0)
    wire.channels.add_broker(1)
    assert wire.channels.on_response(1, wire.sent[0].correlation_id) is not None
    assert wire.epochs() == [1, 2]


def test_shutdown_closes_all_channels() -> None:
    wire = made(1, 2)
    wire.channels.shutdown()
    assert wire.channels.broker_ids == []
    assert not wire.channels.send_request(1, request(1), 0)


def test_a_request_without_a_response_in_time_is_sent_again() -> None:
    wire = made(1)
    wire.channels.send_request(1, request(1), 0)
    wire.channels.send_request(1, request(2), 0)
    assert wire.timers == [(RequestTimeout(1), TIMEOUT_MS)]
    first = wire.sent[0].correlation_id
    wire.wait(TIMEOUT_MS)
    overdue = wire.channels.on_timeout(1)
    assert overdue is not None
    assert wire.epochs() == [1, 1]
    assert len(wire.timers) == 2
    assert wire.channels.on_response(1, first) is None
    assert wire.channels.on_response(1, wire.sent[1].correlation_id) is not None
    assert wire.epochs() == [1, 1, 2]


def test_the_timer_follows_the_request_that_is_in_flight() -> None:
    wire = made(1)
    wire.channels.send_request(1, request(1), 0)
    wire.wait(60)
    wire.channels.on_response(1, wire.sent[0].correlation_id)
    wire.channels.send_request(1, request(2), 0)
    wire.wait(40)
    assert wire.channels.on_timeout(1) is None
    assert wire.epochs() == [1, 2]
    assert wire.timers[-1] == (RequestTimeout(1), 60)
    wire.channels.on_response(1, wire.sent[1].correlation_id)
    wire.wait(60)
    assert wire.channels.on_timeout(1) is None
    assert len(wire.timers) == 2
