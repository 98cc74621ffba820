"""/feature, /cluster/id and topic ids as the brokers of a protocol version leave them."""

from __future__ import annotations

import pytest

from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.sim.reassignments import ask
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

ENABLED = b'{"features":{},"version":1,"status":1}'
DISABLED = b'{"features":{},"version":1,"status":0}'
SOME = b'{"features":{"f":{"min_version_level":1,"max_version_level":2}},"version":1,"status":%d}'


def protocol(version: str) -> dict[str, str]:
    """The config of brokers that speak it."""
    return {"inter.broker.protocol.version": version}


def client_of(world: SimulatedWorld) -> KafkaZkClient:
    """A session of its own."""
    return KafkaZkClient(world.open_store())


def elected_with(existing: bytes | None, version: str) -> SimulatedWorld:
    """A broker of a protocol version becomes the controller of a tree that has this /feature."""
    world = SimulatedWorld(ClusterSpec(broker_ids=(0,), config=protocol(version)))
    if existing is not None:
        client_of(world).create("/feature", existing)
    world.start(0)
    world.run_for(1_000)
    assert active_controller(world).malformed == {}
    return world


@pytest.mark.parametrize(
    ("existing", "version", "data", "zk_version"),
    [
        (None, "2.8", ENABLED, 0),
        (ENABLED, "2.8", ENABLED, 0),
        (DISABLED, "2.8", ENABLED, 1),
        (SOME % 1, "2.8", SOME % 1, 0),
        (SOME % 0, "2.8", ENABLED, 1),
        (None, "2.7-IV0", ENABLED, 0),
        (None, "2.6", DISABLED, 0),
        (DISABLED, "2.6", DISABLED, 0),
        (ENABLED, "2.6", DISABLED, 1),
        (SOME % 1, "2.6", DISABLED, 1),
        (SOME % 0, "2.6", DISABLED, 1),
    ],
)
def test_an_elected_controller_writes_the_feature_znode_of_its_version(
    existing: bytes | None, version: str, data: bytes, zk_version: int
) -> None:
    world = elected_with(existing, version)
    found = client_of(world).get_data_and_stat("/feature")
    assert found is not None
    assert (found[0], found[1].version) == (data, zk_version)


def test_the_next_controller_leaves_the_feature_znode_alone() -> None:
    world = three_brokers()
    world.kill(0)
    world.run_for(20_000)
    found = client_of(world).get_data_and_stat("/feature")
    assert found is not None
    assert (found[0], found[1].version) == (ENABLED, 0)


def test_all_brokers_have_one_cluster_id_which_the_first_proposed() -> None:
    world = three_brokers()
    client = client_of(world)
    cluster_id = client.get_cluster_id()
    assert cluster_id is not None
    assert len(cluster_id) == 22
    found = client.get_data_and_stat("/cluster/id")
    assert found is not None
    assert (found[0], found[1].version) == (b'{"version":"1","id":"%s"}' % cluster_id.encode(), 0)
    world.stop(1)
    world.start(1)
    world.run_for(1_000)
    for running in world.nodes.values():
        assert running.node.broker.cluster_id == cluster_id
    assert {row.cluster_id for row in world.journal.rows} == {cluster_id}


@pytest.mark.parametrize(("version", "has_id"), [("2.7", False), ("2.8-IV0", True)])
def test_topics_get_ids_from_inter_broker_protocol_2_8_on(version: str, has_id: bool) -> None:
    world = three_brokers(config=protocol(version))
    create_topic(world, "t", {0: (0, 1)})
    world.run_for(5_000)
    assert state_of(world, "t", 0).isr == (0, 1)
    assert bool(client_of(world).get_topic_ids_for_topics(["t"])) is has_id
    answer = ask(world, CreateTopicsRequest((CreatableTopic("u", 1, 2),), 1_000))
    assert isinstance(answer, CreateTopicsResponse)
    assert (answer.topics[0].topic_id is not None) is has_id
    assert len(client_of(world).get_topic_ids_for_topics(["t", "u"])) == (2 if has_id else 0)
