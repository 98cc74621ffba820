"""Requests that wait for offsets of partitions: who is answered, when, and with what."""

from __future__ import annotations

import pytest

from klamm.brokers.leaders.delayed_requests import DelayedRequests
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import T0, T1

NONE, TIMED_OUT = Errors.NONE, Errors.REQUEST_TIMED_OUT
REFUSED = Errors.NOT_LEADER_OR_FOLLOWER
Delayed = DelayedRequests[ProducedPartition, ProduceResponse]


@pytest.fixture
def delayed() -> Delayed:
    """Requests wait: 1 for offset 5 of both partitions, 2 for offset 7 of t-0, 3 for 99 of t-1."""
    delayed: Delayed = DelayedRequests(ProduceResponse)
    for number, timeout_ms, required in (
        (1, 200, {T0: 5, T1: 5}),
        (2, 100, {T0: 7}),
        (3, 300, {T1: 99}),
    ):
        message = Message(
            Address("client", 7), Address("broker", 1), number, ProduceRequest(-1, timeout_ms, {})
        )
        results = dict.fromkeys((T0, T1), ProducedPartition(NONE, 3))
        delayed.add(message, timeout_ms, results, required, 1000.0)
    return delayed


def answered(delayed: Delayed) -> dict[int, list[Errors]]:
    """The errors of t-0 and t-1 in the responses, by request."""
    return {
        message.correlation_id: [response.partitions[tp].error for tp in (T0, T1)]
        for message, response in delayed.take_answers()
    }


@pytest.mark.parametrize(
    ("completed", "expected"),
    [
        ([(T0, 4, NONE), (T1, 4, NONE)], {}),
        ([(T0, 5, NONE)], {}),
        ([(T0, 5, NONE), (T1, 5, NONE)], {1: [NONE, NONE]}),
        ([(T1, 9, REFUSED), (T0, 6, NONE)], {1: [NONE, REFUSED]}),
        ([(T0, 7, NONE)], {2: [NONE, NONE]}),
        ([(T0, 9, REFUSED), (T1, 5, NONE)], {2: [REFUSED, NONE], 1: [REFUSED, NONE]}),
    ],
)
def test_a_request_is_answered_when_all_its_partitions_are_there(
    delayed: Delayed,
    completed: list[tuple[TopicPartition, int, Errors]],
    expected: dict[int, list[Errors]],
) -> None:
    for tp, offset, error in completed:
        delayed.complete(tp, offset, error=error)
    assert answered(delayed) == expected
    assert answered(delayed) == {}
    assert len(delayed) == 3 - len(expected)
    assert delayed.waits_for(T0) == any(offset < 7 for tp, offset, _ in completed if tp == T0)


def test_a_request_that_waits_too_long_gets_the_partitions_that_are_ready(delayed: Delayed) -> None:
    assert delayed.next_due_ms() == 1100.0
    delayed.complete(T0, 5, error=NONE)
    delayed.on_timer(1099.0)
    assert answered(delayed) == {}
    delayed.on_timer(1100.0)
    assert answered(delayed) == {2: [TIMED_OUT, NONE]}
    assert (delayed.next_due_ms(), delayed.waits_for(T0)) == (1200.0, False)
    delayed.on_timer(1200.0)
    assert answered(delayed) == {1: [NONE, TIMED_OUT]}
    delayed.complete(T1, 99, error=NONE)
    assert answered(delayed) == {3: [NONE, NONE]}
    assert (delayed.next_due_ms(), delayed.waits_for(T1), len(delayed)) == (None, False, 0)
