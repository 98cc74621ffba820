"""What tests of reassignments do in a simulated cluster, and what they look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import (
    Address,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    DeleteTopicsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    Message,
    Request,
)
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import ReassignPartitionsZNode
from tests.sim.worlds import active_controller, controllers, create_topic

CLIENT = Address("client", 0)
TRIES = 20
Targets = Mapping[TopicPartition, tuple[int, ...]]
Wanted = Mapping[TopicPartition, tuple[int, ...] | None]


class Stored(NamedTuple):
    """What ZooKeeper holds of a partition."""

    assignment: ReplicaAssignment
    state: LeaderAndIsr
    topic_version: int


def brokers_up(count: int = 4, **spec: Any) -> SimulatedWorld:
    """Brokers from 0, started one after the other; 0 is the controller; leaders stay."""
    spec.setdefault("config", {"auto.leader.rebalance.enable": "false"})
    world = SimulatedWorld(ClusterSpec(broker_ids=tuple(range(count)), **spec))
    for broker_id in world.spec.broker_ids:
        world.start(broker_id)
        world.run_for(1_000)
    assert not world.errors
    return world


def with_topic(world: SimulatedWorld, *assignment: tuple[int, ...], topic: str = "t") -> None:
    """A topic with these replicas, all of them in sync."""
    create_topic(world, topic, dict(enumerate(assignment)))
    world.run_for(3_000)


def reassign(world: SimulatedWorld, targets: Targets) -> None:
    """Create /admin/reassign_partitions, as a tool does."""
    store = world.open_store()
    assert KafkaZkClient(store).create_partition_reassignment(targets)
    store.close()


def reassignment_znode(world: SimulatedWorld) -> dict[TopicPartition, tuple[int, ...]] | None:
    """What /admin/reassign_partitions holds; None if it is absent."""
    store = world.open_store()
    client = KafkaZkClient(store)
    found = (
        client.get_partition_reassignment()
        if client.path_exists(ReassignPartitionsZNode.path)
        else None
    )
    store.close()
    return found


def stored(world: SimulatedWorld, tp: TopicPartition) -> Stored:
    """A partition's assignment, state and topic znode version."""
    store = world.open_store()
    client = KafkaZkClient(store)
    assignment = client.get_topic_assignments([tp.topic]).values[tp.topic].assignment[tp]
    state = client.get_partition_states([tp]).values[tp].leader_and_isr
    found = client.get_data_and_stat(f"/brokers/topics/{tp.topic}")
    store.close()
    assert found is not None
    return Stored(assignment, state, found[1].version)


def hosts(world: SimulatedWorld, tp: TopicPartition) -> list[int]:
    """The running brokers that have a replica of a partition."""
    return [
        broker_id
        for broker_id, running in sorted(world.nodes.items())
        if tp in running.node.broker.replica_manager.partitions
    ]


def phases(world: SimulatedWorld, tp: TopicPartition) -> list[str]:
    """The phases of a partition's reassignments, in order."""
    return [str(row.to) for row in rows(world, Kind.REASSIGNMENT_PHASE, tp)]


def rows(world: SimulatedWorld, kind: Kind, tp: TopicPartition) -> list[JournalRow]:
    """A partition's rows of one kind."""
    return [
        row
        for row in world.journal.rows
        if row.kind == kind and (row.topic, row.partition) == tuple(tp)
    ]


def active_id(world: SimulatedWorld) -> int | None:
    """The active controller; None while there is none."""
    active = [id_ for id_, c in controllers(world).items() if c.is_active]
    return active[0] if active else None


def ask(world: SimulatedWorld, request: Request, timeout_ms: float = 2_000) -> object:
    """The controller's answer; None if none came, or there is nobody to ask."""
    asked = active_id(world)
    if asked is None:
        world.run_for(timeout_ms)
        return None
    return _ask(world, request, asked, timeout_ms)


def ask_until_answered(world: SimulatedWorld, request: Request) -> object:
    """What a client is answered that knows who the controller was: where nobody answers, or not as
    the controller, it asks the next broker."""
    candidates = sorted(controllers(world))
    first = active_id(world)
    assert first is not None
    for number in range(TRIES):
        asked = candidates[(candidates.index(first) + number) % len(candidates)]
        answer = _ask(world, request, asked, 2_000)
        if answer is not None and Errors.NOT_CONTROLLER not in _errors(answer):
            return answer
    raise AssertionError("no controller has answered")


def _ask(world: SimulatedWorld, request: Request, asked: int, timeout_ms: float) -> object:
    answers: list[Message] = []
    world.transport.register(CLIENT, answers.append)
    world.transport.send(Message(CLIENT, Address("controller", asked), 1, request))
    world.run_until(lambda: bool(answers), timeout_ms=timeout_ms)
    return answers[0].body if answers else None


def _errors(answer: object) -> list[Errors]:
    if isinstance(answer, DeleteTopicsResponse):
        return [result.error for result in answer.topics]
    if isinstance(answer, ElectLeadersResponse):
        return [answer.error]
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    return [answer.error.error]


def alter(world: SimulatedWorld, wanted: Wanted) -> Mapping[TopicPartition, ApiError]:
    """AlterPartitionReassignments by a client that asks until it is answered."""
    answer = ask_until_answered(world, AlterPartitionReassignmentsRequest(wanted))
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    assert answer.error.error is Errors.NONE
    return answer.partitions


def reassignments(world: SimulatedWorld) -> Mapping[TopicPartition, ReplicaAssignment]:
    """ListPartitionReassignments."""
    answer = ask(world, ListPartitionReassignmentsRequest())
    assert isinstance(answer, ListPartitionReassignmentsResponse)
    assert answer.error.error is Errors.NONE
    return answer.partitions


def assert_settled(world: SimulatedWorld, tp: TopicPartition, replicas: tuple[int, ...]) -> None:
    """Check that a partition is on ``replicas`` and nowhere else, and that all agree on it."""
    world.run_for(10_000)
    assert not world.errors
    found = stored(world, tp)
    assert found.assignment == ReplicaAssignment(replicas)
    live = [replica for replica in replicas if replica in world.nodes]
    assert sorted(found.state.isr) == sorted(live)
    assert found.state.leader in live
    assert hosts(world, tp) == sorted(live)
    assert reassignment_znode(world) is None
    context = active_controller(world).context
    assert tp not in context.partitions_being_reassigned
    assert context.recount() == context.counts()
    assert check_simulated_world(world) == []
