"""Messages that a fault delays: when they are delivered, and in which order."""

from __future__ import annotations

from klamm.cluster.requests import Address, Disconnected, Message
from klamm.world.real.late_messages import LateMessage, LateMessages
from tests.unit.brokers.network import ManualClock

ONE, TWO = Address("broker", 1), Address("broker", 2)


def test_messages_arrive_when_they_are_due_and_keep_the_order_of_their_link() -> None:
    clock, delivered = ManualClock(), list[int]()
    begun_ms = clock.time_ms
    late = LateMessages(lambda message: delivered.append(message.correlation_id), clock)
    for number, (source, delay_ms, in_order) in enumerate(
        ((ONE, 30, True), (ONE, 10, True), (TWO, 20, True), (ONE, 5, False))
    ):
        message = Message(source, Address("client", 1), number, Disconnected())
        late.give(LateMessage(begun_ms + delay_ms, message, in_order))
    late.run_event()
    assert delivered == []
    for due_ms, so_far in ((5, [3]), (20, [3, 2]), (30, [3, 2, 0, 1])):
        assert late.next_due_ms() == begun_ms + due_ms
        clock.time_ms = begun_ms + due_ms
        late.run_event()
        assert delivered == so_far
    assert late.next_due_ms() is None
