"""How a leader asks the controller for ISR expansions, and what it does with each answer.

Sources: Partition.{maybeExpandIsr, handleAlterIsrResponse}, DefaultAlterIsrManager,
BrokerToControllerChannelManager.
"""

from __future__ import annotations

import pytest

from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchResponse, ProduceRequest
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import Address, AlterIsrRequest, AlterIsrResponse, Message
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from tests.unit.brokers.network import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    T0,
    T1,
    Network,
    fetch_of,
    leader_and_isr,
    state,
    stop_replica,
    update_metadata,
)

BROKER_EPOCH = 50
REPLICAS = (1, 2, 3)
ASKED = LeaderAndIsr(1, 3, (1, 2), 7)


@pytest.fixture
def network() -> Network:
    """Broker 1 leads t-0 and t-1 at epoch 3, alone in both ISRs; brokers 2 and 3 follow."""
    network = Network()
    network.add(1, broker_epoch=BROKER_EPOCH)
    network.request(1, update_metadata())
    alone = [state(tp, isr=(1,), replicas=REPLICAS) for tp in (T0, T1)]
    network.request(1, leader_and_isr(*alone))
    return network


def fetch(network: Network, replica_id: int, *tps: TopicPartition, leader_epoch: int = 3) -> None:
    body = fetch_of(replica_id, *tps, leader_epoch=leader_epoch)
    network.request(1, body, Address("broker", replica_id))


def asked(network: Network) -> list[Message]:
    return network.alter_isr_requests()


def items(message: Message) -> dict[TopicPartition, LeaderAndIsr]:
    assert isinstance(message.body, AlterIsrRequest)
    return dict(message.body.partitions)


def answer(
    network: Network, *, error: Errors = Errors.NONE, nth: int = -1, **each: LeaderAndIsr | Errors
) -> None:
    """Answer a request; ``each`` maps t0, t1 to a state or an error."""
    names = {"t0": T0, "t1": T1}
    partitions = {names[name]: value for name, value in each.items()}
    network.answer(asked(network)[nth], AlterIsrResponse(error, partitions))


def hosted(network: Network) -> Partition:
    return network.brokers[1].replica_manager.partitions[T0]


def test_a_follower_that_fetched_at_the_leaders_epoch_is_proposed_at_the_end(
    network: Network,
) -> None:
    fetch(network, 2)
    (message,) = asked(network)
    assert message.destination == Address("controller", CONTROLLER)
    assert message.body == AlterIsrRequest(1, BROKER_EPOCH, {T0: ASKED})
    answer(network, t0=LeaderAndIsr(1, 3, (1, 2), 8))
    assert hosted(network).leader_and_isr == LeaderAndIsr(1, 3, (1, 2), 8)
    assert hosted(network).pending is None


@pytest.mark.parametrize(("replica_id", "leader_epoch"), [(9, 3), (1, 3), (2, 2), (2, 4)], ids=str)
def test_no_other_broker_is_proposed(network: Network, replica_id: int, leader_epoch: int) -> None:
    fetch(network, replica_id, leader_epoch=leader_epoch)
    assert asked(network) == []


def test_a_member_of_the_isr_is_not_proposed_again(network: Network) -> None:
    fetch(network, 2)
    answer(network, t0=LeaderAndIsr(1, 3, (1, 2), 8))
    fetch(network, 2)
    assert len(asked(network)) == 1


def test_one_replica_at_a_time_joins_an_isr(network: Network) -> None:
    fetch(network, 3)
    fetch(network, 2)
    assert len(asked(network)) == 1
    answer(network, t0=LeaderAndIsr(1, 3, (1, 3), 8))
    assert items(asked(network)[1]) == {T0: LeaderAndIsr(1, 3, (1, 3, 2), 8)}


def test_a_fetch_of_many_partitions_makes_one_request(network: Network) -> None:
    fetch(network, 2, T0, T1)
    assert [list(items(message)) for message in asked(network)] == [[T0, T1]]


def test_one_request_is_in_flight_and_the_next_takes_everything_that_waits(
    network: Network,
) -> None:
    fetch(network, 2, T0)
    fetch(network, 2, T1)
    assert [list(items(message)) for message in asked(network)] == [[T0]]
    answer(network, t0=LeaderAndIsr(1, 3, (1, 2), 8))
    assert [list(items(message)) for message in asked(network)] == [[T0], [T1]]


@pytest.mark.parametrize(
    "refusal",
    [Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.FENCED_LEADER_EPOCH, Errors.INVALID_UPDATE_VERSION],
)
def test_a_final_refusal_leaves_the_partition_to_the_controller(
    network: Network, refusal: Errors
) -> None:
    fetch(network, 2)
    answer(network, t0=refusal)
    fetch(network, 3)
    network.pass_time(60_000)
    assert len(asked(network)) == 1
    assert hosted(network).leader_and_isr == LeaderAndIsr(1, 3, (1,), 7)
    newer = state(leader_epoch=4, isr=(1,), zk_version=9, replicas=REPLICAS)
    network.request(1, leader_and_isr(newer))
    fetch(network, 3, leader_epoch=4)
    assert items(asked(network)[-1]) == {T0: LeaderAndIsr(1, 4, (1, 3), 9)}


@pytest.mark.parametrize(
    "refusal", [Errors.UNKNOWN_SERVER_ERROR, LeaderAndIsr(1, 3, (1,), 7)], ids=str
)
def test_any_other_refusal_is_asked_again_with_the_followers_next_fetch(
    network: Network, refusal: Errors | LeaderAndIsr
) -> None:
    fetch(network, 2)
    answer(network, t0=refusal)
    network.pass_time(499)
    assert len(asked(network)) == 1
    network.pass_time(1)
    assert items(asked(network)[-1]) == {T0: ASKED}
    assert len(asked(network)) == 2


def test_a_refused_replica_that_died_is_proposed_when_it_lives_again(network: Network) -> None:
    fetch(network, 2)
    network.request(1, update_metadata(live=(0, 1, 3)))
    answer(network, t0=Errors.UNKNOWN_SERVER_ERROR)
    network.pass_time(60_000)
    assert len(asked(network)) == 1
    network.request(1, update_metadata())
    assert [items(message) for message in asked(network)] == [{T0: ASKED}] * 2


@pytest.mark.parametrize(
    "error", [Errors.NOT_CONTROLLER, Errors.STALE_BROKER_EPOCH, Errors.UNKNOWN_SERVER_ERROR]
)
def test_an_error_of_the_whole_request_is_retried_with_the_broker_epoch_of_then(
    network: Network, error: Errors
) -> None:
    fetch(network, 2)
    answer(network, error=error)
    network.brokers[1].on_registered(BROKER_EPOCH + 1)
    network.pass_time(49)
    assert len(asked(network)) == 1
    network.pass_time(1)
    assert asked(network)[-1].body == AlterIsrRequest(1, BROKER_EPOCH + 1, {T0: ASKED})


@pytest.mark.parametrize(
    ("controller_id", "controller_epoch"), [(3, CONTROLLER_EPOCH + 1), (0, CONTROLLER_EPOCH + 1)]
)
def test_a_request_to_a_deposed_controller_goes_to_the_new_one(
    network: Network, controller_id: int, controller_epoch: int
) -> None:
    fetch(network, 2)
    newer = update_metadata(controller_id=controller_id, controller_epoch=controller_epoch)
    network.request(1, newer)
    assert [message.destination.id for message in asked(network)] == [CONTROLLER, controller_id]
    answer(network, nth=0, t0=LeaderAndIsr(1, 3, (1, 2), 8))
    assert hosted(network).pending == ASKED
    answer(network, nth=1, t0=LeaderAndIsr(1, 3, (1, 2), 8))
    assert hosted(network).leader_and_isr == LeaderAndIsr(1, 3, (1, 2), 8)


def test_a_lost_answer_is_asked_for_again_after_the_request_timeout(network: Network) -> None:
    fetch(network, 2)
    network.pass_time(29_999)
    assert len(asked(network)) == 1
    network.pass_time(1)
    assert [items(message) for message in asked(network)] == [{T0: ASKED}] * 2
    assert network.brokers[1].next_due_ms() == network.clock.time_ms + 30_000


def test_no_isr_is_proposed_before_a_controller_is_known() -> None:
    network = Network()
    network.add(1)
    network.request(1, leader_and_isr(state(isr=(1,), replicas=REPLICAS)))
    fetch(network, 2)
    assert asked(network) == [] and network.brokers[1].next_due_ms() is None
    network.request(1, update_metadata())
    assert len(asked(network)) == 1


def test_an_answer_that_comes_after_a_new_state_is_ignored(network: Network) -> None:
    fetch(network, 2)
    newer = state(leader_epoch=4, isr=(1,), zk_version=9, replicas=REPLICAS)
    network.request(1, leader_and_isr(newer))
    answer(network, t0=LeaderAndIsr(1, 3, (1, 2), 8))
    assert hosted(network).leader_and_isr == LeaderAndIsr(1, 4, (1,), 9)
    fetch(network, 2, leader_epoch=4)
    assert items(asked(network)[-1]) == {T0: LeaderAndIsr(1, 4, (1, 2), 9)}


@pytest.mark.parametrize(
    "stale", [LeaderAndIsr(1, 2, (1, 2), 8), LeaderAndIsr(1, 3, (1, 2), 6)], ids=str
)
def test_a_response_older_than_the_known_state_is_ignored(
    network: Network, stale: LeaderAndIsr
) -> None:
    fetch(network, 2)
    answer(network, t0=stale)
    assert hosted(network).leader_and_isr == LeaderAndIsr(1, 3, (1,), 7)


@pytest.mark.parametrize("refusal", [Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_SERVER_ERROR])
def test_a_refusal_of_an_older_proposal_does_not_touch_the_new_one(
    network: Network, refusal: Errors
) -> None:
    fetch(network, 2)
    newer = state(leader_epoch=4, isr=(1,), zk_version=9, replicas=REPLICAS)
    network.request(1, leader_and_isr(newer))
    fetch(network, 2, leader_epoch=4)
    answer(network, t0=refusal)
    assert [items(message) for message in asked(network)] == [
        {T0: ASKED},
        {T0: LeaderAndIsr(1, 4, (1, 2), 9)},
    ]
    assert hosted(network).pending == LeaderAndIsr(1, 4, (1, 2), 9)


def test_a_follower_that_caught_up_at_an_older_epoch_is_not_proposed(network: Network) -> None:
    fetch(network, 2)
    fetch(network, 3)
    newer = state(leader_epoch=4, isr=(1,), zk_version=9, replicas=REPLICAS)
    network.request(1, leader_and_isr(newer))
    fetch(network, 2, leader_epoch=4)
    answer(network, t0=ASKED)
    answer(network, t0=LeaderAndIsr(1, 4, (1, 2), 10))
    assert len(asked(network)) == 2
    assert hosted(network).leader_and_isr == LeaderAndIsr(1, 4, (1, 2), 10)


def test_a_follower_that_lacks_records_of_earlier_epochs_is_not_proposed(network: Network) -> None:
    """The high watermark of a new leader may be below the start of its epoch."""
    for leader_epoch in (4, 5):
        led = state(leader_epoch=leader_epoch, isr=(1, 3), zk_version=9, replicas=REPLICAS)
        network.request(1, leader_and_isr(led))
        if leader_epoch == 4:
            produced = ProduceRequest(1, 1_000, {T0: CountedBatch(10, 1_000)})
            network.request(1, produced, Address("client", 5))
    for offset, is_proposed in ((0, False), (9, False), (10, True)):
        fetched = fetch_of(2, leader_epoch=5, offset=offset, epoch=4 if offset else -1)
        network.request(1, fetched, Address("broker", 2))
        assert (bool(asked(network)), hosted(network).high_watermark) == (is_proposed, 0)


def test_a_fetch_up_to_the_high_watermark_is_proposed_before_the_high_watermark_rises(
    network: Network,
) -> None:
    """A follower that lags no longer holds the high watermark, until its fetch lets it rise."""
    fetch(network, 2)
    answer(network, t0=Errors.INVALID_REQUEST)
    produced = ProduceRequest(1, 1_000, {T0: CountedBatch(10, 1_000)})
    network.request(1, produced, Address("client", 5))
    assert hosted(network).high_watermark == 0
    network.pass_time(30_001)
    network.request(1, fetch_of(2, offset=3, epoch=3), Address("broker", 2))
    assert hosted(network).pending == ASKED
    assert hosted(network).high_watermark == 3


def test_a_partition_missing_in_the_answer_is_sent_again(network: Network) -> None:
    fetch(network, 2, T0, T1)
    answer(network, t1=LeaderAndIsr(1, 3, (1, 2), 8))
    network.pass_time(49)
    assert len(asked(network)) == 1
    network.pass_time(1)
    assert items(asked(network)[-1]) == {T0: ASKED}


def test_a_deleted_partition_is_not_proposed_again(network: Network) -> None:
    fetch(network, 2, T1)
    fetch(network, 2, T0)
    network.request(1, stop_replica())
    answer(network, t1=LeaderAndIsr(1, 3, (1, 2), 8))
    assert [list(items(message)) for message in asked(network)] == [[T1]]


def test_nothing_is_due_after_the_partition_of_a_failed_request_is_deleted(
    network: Network,
) -> None:
    fetch(network, 2)
    answer(network, error=Errors.NOT_CONTROLLER)
    network.request(1, stop_replica())
    assert network.brokers[1].alter_isr_manager.next_due_ms() is None


def test_a_leader_that_becomes_a_follower_proposes_no_isr(network: Network) -> None:
    fetch(network, 2, T1)
    fetch(network, 2, T0)
    follower = state(leader=2, leader_epoch=4, isr=(2, 1), replicas=REPLICAS)
    network.request(1, leader_and_isr(follower))
    answer(network, t1=LeaderAndIsr(1, 3, (1, 2), 8))
    assert [list(items(message)) for message in asked(network)] == [[T1]]
    assert hosted(network).leader_and_isr == LeaderAndIsr(2, 4, (2, 1), 7)


@pytest.mark.parametrize(("is_new", "notified"), [(True, []), (False, [2, 3])])
def test_a_restarted_leader_makes_followers_outside_the_isr_fetch(
    is_new: bool, notified: list[int]
) -> None:
    """They wait for a response of its earlier process if their leader epoch is still the same."""
    network = Network()
    network.add(1, broker_epoch=BROKER_EPOCH)
    network.request(1, update_metadata())
    network.request(1, leader_and_isr(state(isr=(1,), replicas=REPLICAS, is_new=is_new)))
    network.pass_time(500)
    sent = [m for m in network.sent if isinstance(m.body, FetchResponse) and m.body.is_unsolicited]
    assert [message.destination.id for message in sent] == notified
