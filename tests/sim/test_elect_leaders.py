"""ElectLeaders: what clients are answered, and when; preferred and unclean elections on request."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import Address, ElectLeadersRequest, ElectLeadersResponse, Message
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.sim.elections import T0, T1, U0, assert_in_agreement, depose, leaders, leaders_moved_away
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

ALL = (T0, T1, U0)
CLIENT = Address("client", 0)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def ask(
    world: SimulatedWorld,
    election_type: ElectionType,
    partitions: tuple[TopicPartition, ...] | None,
    timeout_ms: int = 5_000,
    to: int = 0,
) -> list[ElectLeadersResponse]:
    """Ask for elections; the answer is in the list once it is there."""
    answers: list[ElectLeadersResponse] = []

    def receive(message: Message) -> None:
        assert isinstance(message.body, ElectLeadersResponse)
        answers.append(message.body)

    world.transport.register(CLIENT, receive)
    request = ElectLeadersRequest(election_type, partitions, timeout_ms)
    world.transport.send(Message(CLIENT, Address("controller", to), 1, request))
    return answers


def errors(answers: list[ElectLeadersResponse]) -> dict[TopicPartition, Errors]:
    (answer,) = answers
    assert answer.error is Errors.NONE
    return {tp: error.error for tp, error in answer.partitions.items()}


def with_dead_isr() -> SimulatedWorld:
    """t-0 is without a leader: broker 1, alone in sync, is dead, and broker 2 lives."""
    world = three_brokers()
    create_topic(world, "t", {0: (1, 2)})
    world.run_for(1_000)
    world.stop(2)
    world.run_for(500)
    world.stop(1)
    world.run_for(500)
    world.start(2)
    world.run_for(2_000)
    state = state_of(world, *T0)
    assert (state.leader, state.isr) == (-1, (1,))
    return world


def test_every_partition_is_answered() -> None:
    world = leaders_moved_away()
    create_topic(world, "well", {0: (0, 2)})
    create_topic(world, "none", {0: (7, 8)})
    world.run_for(500)
    named = (T0, *(TopicPartition(topic, 0) for topic in ("well", "none", "no")))
    answers = ask(world, PREFERRED, named)
    world.run_for(1_000)
    assert list(errors(answers).values()).count(Errors.NONE) == 1
    assert errors(answers) == dict(
        zip(
            named,
            (
                Errors.NONE,
                Errors.ELECTION_NOT_NEEDED,
                Errors.PREFERRED_LEADER_NOT_AVAILABLE,
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
            ),
            strict=True,
        )
    )
    message = "Partition none-0 never had a leader."
    assert answers[0].partitions[TopicPartition("none", 0)].message == message
    assert leaders(world, ALL) == [1, 2, 2]
    assert_in_agreement(world)


def test_of_all_partitions_those_are_answered_that_needed_an_election() -> None:
    world = leaders_moved_away()
    create_topic(world, "well", {0: (0, 2)})
    create_topic(world, "none", {0: (7, 8)})
    world.run_for(500)
    answers = ask(world, PREFERRED, None)
    world.run_for(1_000)
    assert errors(answers) == dict.fromkeys(ALL, Errors.NONE)
    assert leaders(world, ALL) == [1, 1, 1]


def test_the_answer_comes_when_the_metadata_show_the_leader() -> None:
    world = leaders_moved_away()
    broker = world.scheduler.actors[Address("broker", 0)]
    broker.paused = True
    answers = ask(world, PREFERRED, (T1,), timeout_ms=60_000)
    world.run_for(3_000)
    assert leaders(world, [T1]) == [1]
    assert answers == []
    broker.paused = False
    world.run_for(1_000)
    assert errors(answers) == {T1: Errors.NONE}


def test_a_client_that_waited_long_enough_gets_a_timeout() -> None:
    world = leaders_moved_away()
    world.scheduler.actors[Address("broker", 0)].paused = True
    answers = ask(world, PREFERRED, (T1, TopicPartition("no", 0)), timeout_ms=2_000)
    world.run_for(1_500)
    assert answers == []
    world.run_for(1_000)
    assert errors(answers) == {
        T1: Errors.REQUEST_TIMED_OUT,
        TopicPartition("no", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert leaders(world, [T1]) == [1]


def test_a_preferred_leader_that_is_dead_is_not_available() -> None:
    world = leaders_moved_away()
    world.stop(1)
    world.run_for(1_000)
    answers = ask(world, PREFERRED, (T1,))
    world.run_for(500)
    (answer,) = answers
    assert answer.partitions[T1].error is Errors.PREFERRED_LEADER_NOT_AVAILABLE
    assert str(T1) in (answer.partitions[T1].message or "")


def test_a_topic_to_be_deleted_elects_no_leader() -> None:
    world = leaders_moved_away()
    world.stop(1)
    world.run_for(500)
    KafkaZkClient(world.open_store()).create_delete_topic_path("t")
    world.run_for(1_000)
    assert active_controller(world).context.topics_to_be_deleted == {"t"}
    answers = ask(world, PREFERRED, (T0,))
    world.run_for(500)
    (answer,) = answers
    assert answer.partitions[T0].error is Errors.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("partitions", [None, (T0,)])
def test_an_unclean_election_takes_who_lives(partitions: tuple[TopicPartition, ...] | None) -> None:
    world = with_dead_isr()
    answers = ask(world, UNCLEAN, partitions)
    world.run_for(1_000)
    assert errors(answers) == {T0: Errors.NONE}
    state = state_of(world, *T0)
    assert (state.leader, state.isr) == (2, (2,))
    assert active_controller(world).metrics.unclean_leader_elections == 1
    assert_in_agreement(world)


def test_an_unclean_election_replaces_a_leader_that_shuts_down() -> None:
    world = three_brokers()
    create_topic(world, "t", {0: (1, 2)})
    world.run_for(1_000)
    active_controller(world).context.add_shutting_down_broker(1)
    answers = ask(world, UNCLEAN, (T0,))
    world.run_for(1_000)
    assert errors(answers) == {T0: Errors.NONE}
    assert state_of(world, *T0).leader == 2


def test_a_preferred_election_is_never_unclean() -> None:
    world = with_dead_isr()
    answers = ask(world, PREFERRED, (T0,))
    world.run_for(1_000)
    assert errors(answers) == {T0: Errors.PREFERRED_LEADER_NOT_AVAILABLE}
    assert state_of(world, *T0).leader == -1


def test_an_unclean_election_without_anybody_alive() -> None:
    world = with_dead_isr()
    world.stop(2)
    world.run_for(500)
    answers = ask(world, UNCLEAN, (T0,))
    world.run_for(500)
    assert errors(answers) == {T0: Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_who_is_not_the_controller_says_so() -> None:
    world = leaders_moved_away()
    answers = ask(world, PREFERRED, (T0,), to=2)
    world.run_for(500)
    (answer,) = answers
    assert answer.error is answer.partitions[T0].error is Errors.NOT_CONTROLLER


def test_a_deposed_controller_reports_it_and_elects_no_leader() -> None:
    world = leaders_moved_away()
    controller = world.scheduler.actors[Address("controller", 0)]
    controller.paused = True
    answers = ask(world, PREFERRED, (T0,))
    world.run_for(100)
    depose(world)
    world.run_for(1_000)
    controller.paused = False
    world.run_for(1_000)
    (answer,) = answers
    assert answer.error is Errors.NOT_CONTROLLER
    assert leaders(world, [T0]) == [0]
    assert_in_agreement(world)
