"""Every quirk has a drill: it passes on klamm as it is and fails with the quirk turned on.

So each switch does what it says, and each drill is proven able to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError, UsageError
from klamm.cluster.quirks import KAFKA_2_8_2, NAMES, NO_QUIRKS, Quirks, parse_quirks
from klamm.cluster.requests import (
    Address,
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    Message,
    Response,
    StopReplicaResponse,
)
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import LostReply
from klamm.zk.store import Create, Delete, ReadOp, ReadResult, Transaction, TxnResult
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.sim.deletion_drills import DELETION_DRILLS
from tests.sim.elections import ask_for_preferred, leaders_moved_away, request_is_there
from tests.sim.log_dirs import LOG_DIR_DRILLS
from tests.sim.reassignment_drills import REASSIGNMENT_DRILLS
from tests.sim.worlds import active_controller, controllers, create_topic, state_of, three_brokers

T0 = TopicPartition("t", 0)
CLIENT = Address("client", 0)


def settle(world: SimulatedWorld) -> None:
    """Let enough time pass for everything that follows from what was done, retries too."""
    world.run_for(20_000)


def depose(world: SimulatedWorld) -> None:
    """Take /controller away, as an operator does."""
    world.open_store().write([[Delete("/controller")]])


def pause_controller(world: SimulatedWorld, broker_id: int, paused: bool = True) -> None:
    """Stop a controller, but not its broker and not its session."""
    world.scheduler.actors[Address("controller", broker_id)].paused = paused


def ask(world: SimulatedWorld, controller_id: int, proposed: LeaderAndIsr) -> list[Response]:
    """Propose a state of T0 as its leader does; the answer is in the list once it is there."""
    answers: list[Response] = []
    world.transport.register(CLIENT, lambda message: answers.append(message.body))
    broker_epoch = world.nodes[proposed.leader].node.broker.broker_epoch
    request = AlterIsrRequest(proposed.leader, broker_epoch, {T0: proposed})
    world.transport.send(Message(CLIENT, Address("controller", controller_id), 1, request))
    return answers


def assert_joined(world: SimulatedWorld, broker_id: int) -> None:
    """The broker hosts a replica of T0 and is in its ISR."""
    assert T0 in world.nodes[broker_id].node.broker.replica_manager.partitions, (
        f"broker {broker_id} was never told of its replica"
    )
    assert broker_id in state_of(world, "t", 0).isr


def fence_broker_0_off(world: SimulatedWorld) -> None:
    """Broker 1 is elected while the controller of broker 0, stopped, believes to be active."""
    others = [broker_id for broker_id in world.nodes if broker_id != 1]
    for broker_id in others:
        pause_controller(world, broker_id)
    depose(world)
    world.run_for(2_000)
    assert active_but(world, 0) == [1]
    for broker_id in others:
        pause_controller(world, broker_id, broker_id == 0)


def active_but(world: SimulatedWorld, broker_id: int) -> list[int]:
    """The active controllers other than this one."""
    return [id_ for id_, c in controllers(world).items() if c.is_active and id_ != broker_id]


# The drills


def deposed_in_a_failure_and_elected_again(quirks: Quirks) -> None:
    """A controller learns by a fenced write, in the middle of a broker's failure, that it was
    deposed. Elected again, it speaks to brokers as ever."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    pause_controller(world, 0)
    world.stop(2)
    fence_broker_0_off(world)
    pause_controller(world, 0, False)
    world.run_for(2_000)
    pause_controller(world, 1)
    depose(world)
    world.run_for(2_000)
    pause_controller(world, 1, False)
    settle(world)
    again = active_controller(world)
    assert (again.config.broker_id, again.context.epoch) == (0, 3), "a failover has failed"
    world.start(2)
    settle(world)
    assert_joined(world, 2)


def empty_broker_dies_beside_an_offline_partition(quirks: Quirks) -> None:
    """The death of a broker without replicas is told to the others, whatever else is offline."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1,)})
    settle(world)
    world.stop(1)
    settle(world)
    world.stop(2)
    settle(world)
    alive = list(world.nodes[0].node.broker.metadata_cache.alive_brokers)
    assert alive == [0], "a dead broker is shown as alive"


def login_fails_in_a_live_session(quirks: Quirks) -> None:
    """An authentication failure does not leave a cluster with a controller that does nothing."""
    world = three_brokers(quirks=quirks)
    world.server.fail_authentication(world.nodes[0].store.session_id)
    settle(world)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    assert T0 in active_controller(world).context.leaderships, "nobody controls the cluster"


def dead_replica_is_proposed(quirks: Quirks) -> None:
    """A leader that has not heard of a follower's death cannot put it back into the ISR."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    world.stop(2)
    settle(world)
    state = state_of(world, "t", 0)
    assert state.isr == (1,)
    ask(world, 0, msgspec.structs.replace(state, isr=(1, 2)))
    settle(world)
    assert state_of(world, "t", 0).isr == (1,), "a dead replica is in sync"


def expansion_is_proposed_to_a_zombie(quirks: Quirks) -> None:
    """A controller cut off from ZooKeeper grants no ISR that another has shrunk since."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    grown = state_of(world, "t", 0)
    world.server.disconnect(world.nodes[0].store.session_id, notify=False)
    depose(world)
    assert world.run_until(lambda: active_but(world, 0) != [], timeout_ms=1_000)
    world.run_for(1_000)
    (second,) = active_but(world, 0)
    ask(world, second, msgspec.structs.replace(grown, isr=(1,)))
    world.run_for(1_000)
    shrunk = state_of(world, "t", 0)
    assert shrunk.isr == (1,)
    assert controllers(world)[0].is_active
    answers = ask(world, 0, msgspec.structs.replace(grown, zk_version=shrunk.zk_version))
    world.run_for(1_000)
    (answer,) = answers
    assert isinstance(answer, AlterIsrResponse)
    assert answer.partitions.get(T0) is Errors.NOT_CONTROLLER, "what ZooKeeper has not was granted"


def preferred_leader_of_a_partition_without_any_is_asked_for(quirks: Quirks) -> None:
    """What never had a leader is passed over, and the others get their preferred leaders."""
    world = leaders_moved_away(quirks=quirks)
    create_topic(world, "none", {0: (7,)})
    settle(world)
    ask_for_preferred(world, TopicPartition("none", 0), T0)
    settle(world)
    assert not request_is_there(world), "the request stays"
    assert state_of(world, "t", 0).leader == 1


def malformed_znode_among_others(quirks: Quirks) -> None:
    """One topic that cannot be read does not keep the others from being served."""
    world = three_brokers(quirks=quirks)
    pause_controller(world, 0)
    world.open_store().write([[Create("/brokers/topics/bad", b"")]])
    create_topic(world, "t", {0: (1, 2)})
    pause_controller(world, 0, False)
    settle(world)
    assert T0 in active_controller(world).context.leaderships, "a good topic is not served"


def reply_to_a_state_is_lost(quirks: Quirks) -> None:
    """A state znode that was written, as it turns out, is no bar to its partition."""
    world = three_brokers(quirks=quirks, write_group_size=1)
    path = TopicPartitionStateZNode.path(T0)

    def after_op(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        if isinstance(op, list | tuple) and any(part.path == path for part in op):
            world.server.after_op = None
            raise LostReply

    world.server.after_op = after_op
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    assert world.server.after_op is None
    assert T0 in active_controller(world).context.leaderships, "the partition is stuck"


def proposal_to_a_deposed_controller(quirks: Quirks) -> None:
    """A leader is told by a deposed controller to look for the other, not that all is lost."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    pause_controller(world, 0)
    answers = ask(world, 0, msgspec.structs.replace(state_of(world, "t", 0), isr=(1,)))
    world.run_for(100)
    fence_broker_0_off(world)
    pause_controller(world, 0, False)
    settle(world)
    assert answers == [AlterIsrResponse(Errors.NOT_CONTROLLER, {})], "the leader is misled"


def state_change_fails_after_requests_were_collected(quirks: Quirks) -> None:
    """An error nobody foresaw ends one event; the events after it send what they have to."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)

    def before_op(_: int, op: ReadOp | Transaction) -> None:
        if isinstance(op, list | tuple) and op[-1].path == TopicPartitionStateZNode.path(T0):
            world.server.before_op = None
            raise KlammError("the disk of the server is full")

    world.server.before_op = before_op
    world.stop(2)
    settle(world)
    assert world.server.before_op is None
    world.start(2)
    settle(world)
    assert_joined(world, 2)


def broker_is_told_to_stop_following(quirks: Quirks) -> None:
    """A broker that asks for its shutdown stops to follow what it is told to."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    answers: list[Errors] = []

    def tap(message: Message) -> None:
        if isinstance(message.body, StopReplicaResponse) and message.source.id == 2:
            answers.append(message.body.partition_errors[T0])

    world.transport.add_tap(tap)
    request = ControlledShutdownRequest(2, world.nodes[2].node.broker.broker_epoch)
    world.transport.register(CLIENT, lambda _: None)
    world.transport.send(Message(CLIENT, Address("controller", 0), 1, request))
    settle(world)
    assert state_of(world, "t", 0).isr == (1,)
    assert Errors.NONE in answers, "the broker goes on following"


def leaders_are_elsewhere_beside_a_reassignment(quirks: Quirks) -> None:
    """A reassignment that waits for a dead broker does not keep leaders where they are."""
    config = {"leader.imbalance.check.interval.seconds": "10"}
    world = leaders_moved_away(quirks=quirks, config=config)
    KafkaZkClient(world.open_store()).create_partition_reassignment(
        {TopicPartition("u", 0): (2, 7)}
    )
    world.run_for(15_000)
    assert active_controller(world).context.partitions_being_reassigned
    assert state_of(world, "t", 0).leader == 1, "the leader is not the preferred one"


class Drill(NamedTuple):
    """A drill, and what it says where it fails."""

    run: Callable[[Quirks], None]
    complaint: str


# Of Kafka's controller and what it says to brokers and tools; 2.8.2 has all of them.
KNOWN_BUGS = (
    *("KAFKA-8249", "KAFKA-9478", "KAFKA-10149", "KAFKA-10548", "KAFKA-12315", "KAFKA-12493"),
    *("KAFKA-13225", "KAFKA-13461", "KAFKA-13572", "KAFKA-13972", "KAFKA-14140", "KAFKA-14154"),
    *("KAFKA-14424", "KAFKA-14808", "KAFKA-14845", "CMAK-878"),
    *(f"C{number}" for number in range(1, 9)),
)
DEVIATIONS = Path(__file__).parents[2] / "docs" / "deviations.md"
NEVER_TOLD = "broker 2 was never told of its replica"
DRILLS = {
    "kafka_10149": Drill(
        leaders_are_elsewhere_beside_a_reassignment, "the leader is not the preferred one"
    ),
    "kafka_12315": Drill(
        deposed_in_a_failure_and_elected_again, f"a failover has failed|{NEVER_TOLD}"
    ),
    "kafka_13225": Drill(
        empty_broker_dies_beside_an_offline_partition, "a dead broker is shown as alive"
    ),
    "kafka_13461": Drill(login_fails_in_a_live_session, "nobody controls the cluster"),
    "kafka_14140": Drill(dead_replica_is_proposed, "a dead replica is in sync"),
    "kafka_14154": Drill(expansion_is_proposed_to_a_zombie, "what ZooKeeper has not was granted"),
    "leaderless_preferred_election_fails_the_event": Drill(
        preferred_leader_of_a_partition_without_any_is_asked_for, "the request stays"
    ),
    "malformed_znode_fails_the_event": Drill(
        malformed_znode_among_others, "a good topic is not served"
    ),
    "lost_reply_leaves_the_partition_stuck": Drill(
        reply_to_a_state_is_lost, "the partition is stuck"
    ),
    "fenced_controller_does_not_resign": Drill(
        proposal_to_a_deposed_controller, "the leader is misled"
    ),
    "failed_state_change_leaves_the_batch_dirty": Drill(
        state_change_fails_after_requests_were_collected, NEVER_TOLD
    ),
    "stop_replica_before_the_epoch_bump": Drill(
        broker_is_told_to_stop_following, "the broker goes on following"
    ),
    **{quirk: Drill(*drill) for quirk, drill in DELETION_DRILLS.items()},
    **{quirk: Drill(*drill) for quirk, drill in REASSIGNMENT_DRILLS.items()},
    **{quirk: Drill(*drill) for quirk, drill in LOG_DIR_DRILLS.items()},
}


def test_every_quirk_has_a_drill() -> None:
    assert sorted(DRILLS) == sorted(Quirks.__struct_fields__)


@pytest.mark.parametrize("word", ["C2", "c2", "malformed-znode-fails-the-event"])
def test_a_quirk_without_a_ticket_has_a_short_and_a_descriptive_name(word: str) -> None:
    chosen = Quirks(malformed_znode_fails_the_event=True, kafka_13225=True)
    assert parse_quirks(["KAFKA-13225", word]) == chosen


def test_an_unknown_quirk_gets_the_closest_name_or_all_names() -> None:
    with pytest.raises(UsageError) as refused:
        parse_quirks(["malformed-znode-fails-event"])
    assert refused.value.hint == "did you mean malformed-znode-fails-the-event?"
    with pytest.raises(UsageError) as refused:
        parse_quirks(["2.9"])
    assert "C1 (leaderless-preferred-election-fails-the-event), C2 (" in str(refused.value.hint)


@pytest.mark.parametrize("name", KNOWN_BUGS)
def test_every_known_bug_has_a_switch_or_a_reason_for_none(name: str) -> None:
    reasons = DEVIATIONS.read_text(encoding="utf-8").split("## Known bugs without a switch")[1]
    has_reason = f"\n- **{name}: " in reasons.split("\n## ")[0]
    assert (name in NAMES) is not has_reason


@pytest.mark.parametrize("quirk", DRILLS)
@pytest.mark.parametrize("others", [NO_QUIRKS, KAFKA_2_8_2], ids=["alone", "among all"])
def test_a_drill_passes_without_its_quirk_and_fails_with_it(quirk: str, others: Quirks) -> None:
    drill = DRILLS[quirk]
    drill.run(msgspec.structs.replace(others, **{quirk: False}))
    with pytest.raises(AssertionError, match=drill.complaint):
        drill.run(msgspec.structs.replace(others, **{quirk: True}))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("KAFKA-1", "use 2.8.2 or one of KAFKA-8249, "),
        ("kafka-13973", "did you mean KAFKA-13972?"),
        ("CMAK-87", "did you mean CMAK-878?"),
        ("empty-reassignement-is-started", "did you mean empty-reassignment-is-started?"),
    ],
)
def test_the_hint_for_an_unknown_quirk_is_a_similar_one(word: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"unknown quirk {word}") as refused:
        parse_quirks([word])
    assert (refused.value.hint or "").startswith(hint)
