"""Unclean elections enabled while brokers run, for a topic, a broker or by default: leaders are
elected at once (KAFKA-6526, KAFKA-6835), by whoever is the controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.sim.crash_points import (
    GROUP_SIZES,
    Case,
    Record,
    count_cases,
    lose_everywhere,
    sizes,
)
from tests.sim.elections import T0, T1, U0, assert_in_agreement, depose
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

UNCLEAN = "unclean.leader.election.enable"
ENABLED = {UNCLEAN: "true"}


def isr_is_dead(**spec: object) -> SimulatedWorld:
    """t-0, t-1 and u-0 are on 1 and 2; 1 was alone in their ISRs and is dead, 2 is back."""
    config = {"auto.leader.rebalance.enable": "false"}
    world = three_brokers(**{"config": config, **spec})
    create_topic(world, "t", {0: (1, 2), 1: (2, 1)})
    create_topic(world, "u", {0: (1, 2)})
    world.run_for(1_000)
    world.stop(2)
    world.run_for(1_000)
    world.stop(1)
    world.run_for(1_000)
    world.start(2)
    world.run_for(2_000)
    assert leaders(world) == [-1, -1, -1]
    return world


def leaders(world: SimulatedWorld) -> list[int]:
    """Who leads t-0, t-1 and u-0."""
    return [state_of(world, *tp).leader for tp in (T0, T1, U0)]


def alter(world: SimulatedWorld, entity_type: str, name: str, config: dict[str, str]) -> None:
    """Change a config as the tool does."""
    store = world.open_store()
    client = KafkaZkClient(store)
    client.set_or_create_entity_configs(entity_type, name, config)
    client.create_config_change_notification(f"{entity_type}/{name}")
    store.close()


def events(world: SimulatedWorld) -> list[str]:
    """The unclean election events that controllers processed."""
    rows = world.journal.rows
    return [r.detail for r in rows if r.kind == "event" and r.detail and "Unclean" in r.detail]


def test_a_topic_that_allows_it_gets_leaders_at_once() -> None:
    world = isr_is_dead()
    before = state_of(world, "t", 0)
    alter(world, "topics", "t", ENABLED)
    world.run_for(1_000)
    assert leaders(world) == [2, 2, -1]
    after = state_of(world, "t", 0)
    assert (after.isr, after.leader_epoch) == ((2,), before.leader_epoch + 1)
    assert events(world) == ["TopicUncleanLeaderElectionEnable(t)"]
    controller = active_controller(world)
    assert controller.metrics.unclean_leader_elections == 2
    [event] = [r for r in world.journal.rows if r.detail == events(world)[0]]
    elected = [r for r in world.journal.rows if r.event_id == event.event_id and r.leader == 2]
    assert [(r.topic, r.partition) for r in elected] == [("t", 0), ("t", 1)]
    assert_in_agreement(world)


def test_a_topic_that_no_longer_allows_it_keeps_its_leaders() -> None:
    world = isr_is_dead()
    alter(world, "topics", "t", ENABLED)
    world.run_for(1_000)
    alter(world, "topics", "t", {})
    world.run_for(1_000)
    assert leaders(world) == [2, 2, -1]
    assert len(events(world)) == 1


@pytest.mark.parametrize("name", ["<default>", "0"])
def test_a_broker_whose_config_allows_it_gives_leaders_to_all(name: str) -> None:
    world = isr_is_dead()
    alter(world, "topics", "u", {UNCLEAN: "false"})
    alter(world, "brokers", name, ENABLED)
    world.run_for(1_000)
    assert leaders(world) == [2, 2, -1]
    alter(world, "topics", "u", {})
    alter(world, "brokers", name, ENABLED)
    world.run_for(1_000)
    # It was enabled before: that is no news, and the topic's config is none that allows it.
    assert leaders(world) == [2, 2, -1]
    assert events(world) == ["UncleanLeaderElectionEnable"]
    alter(world, "brokers", name, {})
    alter(world, "brokers", name, {UNCLEAN: "false"})
    world.run_for(1_000)
    alter(world, "brokers", name, ENABLED)
    world.run_for(1_000)
    assert leaders(world) == [2, 2, 2]
    assert_in_agreement(world)


def test_only_the_controllers_broker_counts() -> None:
    world = isr_is_dead()
    alter(world, "brokers", "2", ENABLED)
    world.run_for(1_000)
    assert leaders(world) == [-1, -1, -1]
    assert events(world) == []
    world.kill(0)
    world.run_for(20_000)
    assert active_controller(world).config.broker_id == 2
    assert leaders(world) == [2, 2, 2]


@pytest.mark.parametrize("entity", [("topics", "t"), ("brokers", "<default>")])
def test_a_config_counts_at_a_failover_too(entity: tuple[str, str]) -> None:
    world = isr_is_dead()
    store = world.open_store()
    # Without a notice nobody hears of it; a broker that starts reads its own config.
    KafkaZkClient(store).set_or_create_entity_configs(*entity, ENABLED)
    world.run_for(1_000)
    assert leaders(world) == [-1, -1, -1]
    world.start(1)
    world.stop(1)
    world.stop(2)
    world.start(2)
    world.kill(0)
    world.run_for(20_000)
    assert leaders(world) == [2, 2, 2 if entity[0] == "brokers" else -1]
    assert_in_agreement(world)


def test_a_session_that_ends_misses_nothing() -> None:
    world = isr_is_dead()
    world.pause(0)
    world.pause(2)
    world.run_for(20_000)
    alter(world, "topics", "t", ENABLED)
    world.resume(0)
    world.resume(2)
    world.run_for(10_000)
    alter(world, "topics", "u", ENABLED)
    world.run_for(1_000)
    assert leaders(world) == [2, 2, 2]
    assert_in_agreement(world)


def test_a_config_that_was_changed_before_the_election_is_no_event() -> None:
    world = isr_is_dead()
    alter(world, "topics", "t", ENABLED)
    world.run_for(1_000)
    depose(world)
    world.run_for(1_000)
    assert len(events(world)) == 1


def enable_topic(world: SimulatedWorld) -> None:
    alter(world, "topics", "t", ENABLED)
    world.run_for(20_000)


def enable_default(world: SimulatedWorld) -> None:
    alter(world, "brokers", "<default>", ENABLED)
    world.run_for(20_000)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("act", [enable_topic, enable_default])
def test_the_next_controller_elects_them(
    act: Callable[[SimulatedWorld], None],
    group_size: int | None,
    before: bool,
    record_property: Record,
) -> None:
    # A failover takes dead replicas off ISRs, and raises the leader epoch where one is the last.
    more = dict.fromkeys((T0, T1, U0), 1)
    case = Case(lambda size: isr_is_dead(**sizes(size)), act, 2, more)
    assert count_cases(case, group_size, before, record_property, "unclean by config") > 0
    record_property(
        "lost connections: unclean by config", lose_everywhere(case, group_size, before)
    )
