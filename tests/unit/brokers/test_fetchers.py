"""When a follower fetches, when it asks again, and when it does not ask at all."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchedPartition, FetchRequest, FetchResponse
from klamm.cluster.records import Interval, IntervalRecords
from klamm.cluster.requests import NO_CORRELATION_ID, Address, Message
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import (
    T0,
    T1,
    Network,
    leader_and_isr,
    state,
    stop_replica,
    update_metadata,
)


def notify(network: Network, leader_epoch: int = 3, *, start: int = 0) -> None:
    """Send broker 2 records of t-0 from ``start`` on, without a fetch, as its leader."""
    records = IntervalRecords((Interval(leader_epoch, start, start + 5, 100),))
    found = FetchedPartition(Errors.NONE, leader_epoch, 0, records=records, high_watermark=0)
    body, broker = FetchResponse({T0: found}, is_unsolicited=True), network.brokers[2]
    broker.receive(Message(Address("broker", 1), broker.address, NO_CORRELATION_ID, body))


@pytest.fixture
def network() -> Network:
    """Broker 2 alone, which knows that brokers 0 to 3 live."""
    network = Network()
    network.add(2)
    network.request(2, update_metadata())
    return network


def follow(network: Network, *, leader: int = 1, leader_epoch: int = 3) -> None:
    """Broker 2 becomes a follower of t-0 and t-1, outside both ISRs."""
    states = [state(tp, leader=leader, leader_epoch=leader_epoch, isr=(leader,)) for tp in (T0, T1)]
    network.request(2, leader_and_isr(*states))


def fetched(network: Network) -> list[tuple[int, dict[TopicPartition, int]]]:
    """(leader, partitions with epochs) of every fetch sent so far."""
    found = []
    for message in network.fetch_requests():
        assert isinstance(message.body, FetchRequest) and message.body.replica_id == 2
        epochs = {tp: asked.current_leader_epoch for tp, asked in message.body.partitions.items()}
        found.append((message.destination.id, epochs))
    return found


def answer(network: Network, nth: int = -1, **errors: Errors) -> None:
    """Answer a fetch as its leader; ``errors`` maps t0, t1 to errors."""
    request = network.fetch_requests()[nth]
    named = {"t0": T0, "t1": T1}
    body = FetchResponse(
        {named[name]: FetchedPartition(error, 3, 0) for name, error in errors.items()}
    )
    reply = Message(request.destination, request.source, request.correlation_id, body)
    network.brokers[2].receive(reply)


def test_a_follower_outside_the_isr_fetches_all_partitions_of_a_leader_at_once(
    network: Network,
) -> None:
    follow(network)
    assert fetched(network) == [(1, {T0: 3, T1: 3})]
    answer(network)
    assert network.brokers[2].next_due_ms() is None
    assert network.brokers[2].fetchers.partition_count == 0


def test_a_follower_in_the_isr_sends_no_fetch(network: Network) -> None:
    network.request(2, leader_and_isr(state(leader=1, isr=(1, 2))))
    assert fetched(network) == []


@pytest.mark.parametrize(
    "error",
    [
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.KAFKA_STORAGE_ERROR,
    ],
)
def test_partitions_with_an_error_are_fetched_again_after_the_backoff(
    network: Network, error: Errors
) -> None:
    follow(network)
    answer(network, t0=error)
    network.pass_time(999)
    assert len(fetched(network)) == 1
    network.pass_time(1)
    assert fetched(network)[1:] == [(1, {T0: 3})]


def test_a_fenced_follower_waits_for_the_controller(network: Network) -> None:
    follow(network)
    answer(network, t0=Errors.FENCED_LEADER_EPOCH)
    network.pass_time(60_000)
    assert len(fetched(network)) == 1
    follow(network, leader_epoch=4)
    assert fetched(network)[1:] == [(1, {T0: 4, T1: 4})]


def test_records_that_do_not_fit_the_log_end_the_fetches_until_the_next_leader_and_isr(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    follow(network)
    notify(network, start=5)
    broker = network.brokers[2]
    assert (broker.fetchers.failed, broker.fetchers.partition_count) == ({T0: None}, 1)
    assert "Error while processing data for partition t-0: " in caplog.text
    answer(network)
    follow(network, leader_epoch=4)
    assert fetched(network)[1:] == [(1, {T0: 4, T1: 4})]
    assert broker.fetchers.failed == {}


def test_a_new_leader_is_fetched_from_at_once(network: Network) -> None:
    follow(network)
    follow(network, leader=3, leader_epoch=4)
    assert fetched(network)[1:] == [(3, {T0: 4, T1: 4})]
    answer(network, nth=0)
    assert network.brokers[2].fetchers.partition_count == 2


def test_one_fetch_is_in_flight_and_an_answer_for_an_older_epoch_does_not_count(
    network: Network,
) -> None:
    follow(network)
    follow(network, leader_epoch=4)
    assert len(fetched(network)) == 1
    answer(network)
    assert fetched(network)[1:] == [(1, {T0: 4, T1: 4})]


def test_a_lost_answer_is_asked_for_again_after_the_socket_timeout(network: Network) -> None:
    follow(network)
    network.pass_time(29_999)
    assert len(fetched(network)) == 1
    network.pass_time(1)
    assert fetched(network) == [(1, {T0: 3, T1: 3})] * 2
    answer(network, nth=0)
    assert network.brokers[2].fetchers.partition_count == 2
    answer(network, nth=1)
    assert network.brokers[2].fetchers.partition_count == 0


def test_a_newer_epoch_ends_the_backoff(network: Network) -> None:
    follow(network)
    answer(network, t0=Errors.UNKNOWN_LEADER_EPOCH)
    follow(network, leader_epoch=4)
    assert fetched(network)[1:] == [(1, {T0: 4, T1: 4})]


def test_records_that_arrive_end_the_backoff(network: Network) -> None:
    follow(network)
    answer(network, t0=Errors.UNKNOWN_LEADER_EPOCH)
    notify(network)
    assert fetched(network)[1:] == [(1, {T0: 3})]


def test_a_dead_leader_is_not_asked_until_it_lives_again(network: Network) -> None:
    follow(network)
    network.request(2, update_metadata(live=(0, 2, 3)))
    assert network.brokers[2].next_due_ms() is None
    network.pass_time(60_000)
    assert len(fetched(network)) == 1
    network.request(2, update_metadata())
    assert fetched(network) == [(1, {T0: 3, T1: 3})] * 2


def test_the_backoff_of_a_dead_leader_wakes_no_fetcher(network: Network) -> None:
    follow(network)
    answer(network, t0=Errors.UNKNOWN_LEADER_EPOCH)
    network.request(2, update_metadata(live=(0, 2, 3)))
    assert network.brokers[2].next_due_ms() is None


def test_a_stopped_replica_does_not_fetch(network: Network) -> None:
    follow(network)
    answer(network, t0=Errors.UNKNOWN_LEADER_EPOCH)
    network.request(2, stop_replica(T0, 4, delete=False))
    network.pass_time(60_000)
    assert len(fetched(network)) == 1


def test_a_broker_that_is_shutting_down_follows_without_fetching(network: Network) -> None:
    network.brokers[2].begin_shutdown()
    follow(network)
    notify(network)
    assert fetched(network) == []
    assert network.brokers[2].replica_manager.partitions[T0].leader_epoch == 3
    assert network.brokers[2].replica_manager.partitions[T0].is_untouched


def test_an_empty_replica_that_failed_takes_records_after_the_controller_has_named_it(
    network: Network,
) -> None:
    follow(network)
    notify(network, start=5)
    network.request(2, leader_and_isr(state(leader=1, leader_epoch=4, isr=(1, 2))))
    notify(network, 4)
    assert not network.brokers[2].replica_manager.partitions[T0].is_untouched


def test_a_backoff_that_begins_again_does_not_prolong_others(network: Network) -> None:
    follow(network)
    answer(network, t0=Errors.UNKNOWN_LEADER_EPOCH, t1=Errors.UNKNOWN_LEADER_EPOCH)
    network.pass_time(500)
    failed = FetchResponse({T0: FetchedPartition(Errors.CORRUPT_MESSAGE, 3, 0)}, True)
    broker = network.brokers[2]
    broker.receive(Message(Address("broker", 1), broker.address, NO_CORRELATION_ID, failed))
    network.pass_time(500)
    assert fetched(network)[1:] == [(1, {T1: 3})]


def test_a_returning_follower_ends_up_in_the_isr_of_its_leader() -> None:
    network = Network()
    for broker_id in (1, 2):
        network.add(broker_id)
        network.request(broker_id, update_metadata())
    named = state(leader=1, isr=(1,))
    network.request(2, leader_and_isr(named))
    network.deliver()
    assert network.alter_isr_requests() == []
    network.request(1, leader_and_isr(named))
    network.pass_time(1000)
    (asked,) = network.alter_isr_requests()
    assert asked.source.id == 1
