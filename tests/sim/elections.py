"""Elections and shutdowns in simulated clusters: how tests ask for them, and where they begin."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.cluster.types import TopicPartition
from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Create, Delete, GetData
from klamm.zk.znodes import PreferredReplicaElectionZNode
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
PREFERRED_PATH = PreferredReplicaElectionZNode.path


def leaders_moved_away(**spec: object) -> SimulatedWorld:
    """Brokers 0 to 2; t-0, t-1 and u-0 prefer broker 1, have it in sync, and are led by others."""
    config = {"auto.leader.rebalance.enable": "false"}
    world = three_brokers(**{"config": config, **spec})
    create_topic(world, "t", {0: (1, 0), 1: (1, 2)})
    create_topic(world, "u", {0: (1, 2, 0)})
    world.run_for(1_000)
    world.stop(1)
    world.run_for(1_000)
    world.start(1)
    world.run_for(2_000)
    for tp, leader in ((T0, 0), (T1, 2), (U0, 2)):
        state = state_of(world, *tp)
        assert state.leader == leader
        assert 1 in state.isr
    return world


def ask_for_preferred(world: SimulatedWorld, *partitions: TopicPartition) -> None:
    """Write /admin/preferred_replica_election as the tool does."""
    store = world.open_store()
    assert KafkaZkClient(store).create_preferred_replica_election(partitions)
    store.close()


def put_request(world: SimulatedWorld, data: bytes | None) -> None:
    """Write /admin/preferred_replica_election by hand."""
    store = world.open_store()
    store.write([[Create(PREFERRED_PATH, data)]])
    store.close()


def request_is_there(world: SimulatedWorld) -> bool:
    """Whether /admin/preferred_replica_election is there."""
    store = world.open_store()
    found = store.read([GetData(PREFERRED_PATH)])[0].stat
    store.close()
    return found is not None


def depose(world: SimulatedWorld) -> None:
    """Take /controller away, as an operator does."""
    store = world.open_store()
    store.write([[Delete("/controller")]])
    store.close()


def leaders(world: SimulatedWorld, partitions: Iterable[TopicPartition]) -> list[int]:
    """Who leads them."""
    return [state_of(world, *tp).leader for tp in partitions]


def assert_in_agreement(world: SimulatedWorld) -> None:
    """Brokers, controller and ZooKeeper agree, counts are right, and no actor has failed."""
    assert world.errors == []
    assert check_simulated_world(world) == []
    context = active_controller(world).context
    assert context.recount() == context.counts()
