"""A broker's znode that is deleted while the broker's session lives."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.journal import Kind
from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Create, Delete, GetData
from klamm.zk.znodes import BrokerIdZNode
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

ALL = (0, 1, 2)


def world_with_topic(**spec: object) -> SimulatedWorld:
    world = three_brokers(**spec)
    create_topic(world, "t", {0: ALL, 1: (1, 2, 0), 2: (2, 0, 1)})
    world.run_for(5_000)
    return world


def delete_znode(world: SimulatedWorld, broker_id: int) -> None:
    store = world.open_store()
    store.write([[Delete(BrokerIdZNode.path(broker_id))]])
    store.close()


# 0 is the controller, 1 a candidate, 2 neither.
@pytest.mark.parametrize("broker_id", ALL)
def test_it_registers_again_with_another_epoch(broker_id: int) -> None:
    world = world_with_topic(candidates=(0, 1))
    broker = world.nodes[broker_id].node.broker
    for times in (1, 2):
        before = broker.broker_epoch
        delete_znode(world, broker_id)
        world.run_for(20_000)
        assert broker.broker_epoch > before
        rows = [r for r in world.journal.rows if r.kind == Kind.BROKER_REGISTERED_AGAIN]
        assert len(rows) == times
        assert rows[-1].replica == broker_id
        detail = msgspec.json.decode(rows[-1].detail or "")
        assert detail == {"broker_epoch_before": before, "broker_epoch": broker.broker_epoch}
        context = active_controller(world).context
        assert context.live_broker_epochs[broker_id] == broker.broker_epoch
        assert all(set(state_of(world, "t", p).isr) == set(ALL) for p in range(3))
        assert check_simulated_world(world) == []
    assert not world.errors


@pytest.mark.parametrize("broker_id", ALL)
def test_it_is_watched_in_the_next_session_too(broker_id: int) -> None:
    world = world_with_topic(candidates=(0, 1))
    world.expire_session(broker_id)
    world.run_for(20_000)
    assert not [r for r in world.journal.rows if r.kind == Kind.BROKER_REGISTERED_AGAIN]
    before = world.nodes[broker_id].node.broker.broker_epoch
    delete_znode(world, broker_id)
    world.run_for(20_000)
    assert world.nodes[broker_id].node.broker.broker_epoch > before
    assert check_simulated_world(world) == []


def test_while_another_session_has_the_id_the_broker_waits() -> None:
    world = world_with_topic()
    store = world.open_store()
    path = BrokerIdZNode.path(2)
    (found,) = store.read([GetData(path)])
    store.write([[Delete(path), Create(path, found.data, ephemeral=True)]])
    world.run_for(5_000)
    assert not [r for r in world.journal.rows if r.kind == Kind.BROKER_REGISTERED_AGAIN]
    store.close()
    world.run_for(20_000)
    assert [r.replica for r in world.journal.rows if r.kind == Kind.BROKER_REGISTERED_AGAIN] == [2]
    assert check_simulated_world(world) == []
    assert not world.errors


def test_a_stopped_broker_does_not_register_again() -> None:
    world = world_with_topic()
    world.shut_down(2)
    world.run_for(10_000)
    assert 2 not in world.nodes
    assert not [r for r in world.journal.rows if r.kind == Kind.BROKER_REGISTERED_AGAIN]
    assert 2 not in active_controller(world).context.live_broker_epochs


def test_a_session_may_expire_before_the_controller_is_a_candidate() -> None:
    """After the broker has registered, and before or after BeginCandidacy is queued."""
    world = SimulatedWorld(ClusterSpec(broker_ids=ALL))
    world.begin_start_all()
    world.run_for(1_000)
    world.expire_session(0)
    world.run_for(1_000)
    for broker_id in ALL:
        world.begin_candidacy(broker_id)
    world.expire_session(1)
    world.run_for(20_000)
    assert set(active_controller(world).context.live_broker_epochs) == set(ALL)
    assert check_simulated_world(world) == []
    assert not world.errors


def test_a_session_may_expire_while_the_broker_waits_to_register() -> None:
    world = world_with_topic()
    world.kill(2)
    world.start(2)
    world.run_for(500)
    world.expire_session(2)
    world.run_for(20_000)
    assert set(active_controller(world).context.live_broker_epochs) == set(ALL)
    assert check_simulated_world(world) == []
