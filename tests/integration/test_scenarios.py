"""Recorded scenarios of real Kafka 2.8.2 brokers, run again by klamm in both worlds.

With every quirk on nothing may differ; without them only what docs/deviations.md lists.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.quirks import KAFKA_2_8_2, Quirks
from runtime.journal import MemoryJournal
from runtime.node import ClusterSpec, rack_map
from runtime.real_cluster import RealCluster
from runtime.scenario import Json, ScenarioRunner, load_scenario
from runtime.scenario_diff import compare_scenario
from runtime.scenario_drivers import RealDriver, SimulatedDriver
from runtime.simulated_world import SimulatedWorld
from tests.tools import topic_tool

DATA = Path(__file__).parent.parent / "data" / "scenarios"
STEPS = {"leader_kill_restart": 4}
"""How many steps of a scenario are run where not all: its last is a preferred election."""
SCENARIOS = sorted(path.stem for path in DATA.glob("*.json"))


def spec_of(scenario: Json, quirks: Quirks, seed: int = 0) -> ClusterSpec:
    """The cluster that the scenario was recorded on."""
    broker_ids = tuple(range(scenario["brokers"]))
    racks = [f"rack{broker_id}" for broker_id in broker_ids] if scenario["racks"] else []
    return ClusterSpec(
        broker_ids=broker_ids,
        racks=rack_map(broker_ids, racks),
        session_timeout_ms=2000,
        quirks=quirks,
        seed=seed,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_with_all_quirks_equals_kafka(name: str, seed: int) -> None:
    scenario = load_scenario(DATA / f"{name}.json")
    world = SimulatedWorld(spec_of(scenario, KAFKA_2_8_2, seed))
    records = ScenarioRunner(scenario, SimulatedDriver(world, topic_tool)).run(STEPS.get(name))
    assert not world.errors
    lines = compare_scenario(scenario, records)
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_real_zookeeper_with_all_quirks_equals_kafka(name: str, chroot: str) -> None:
    scenario = load_scenario(DATA / f"{name}.json")
    journal = MemoryJournal()
    with RealCluster(spec_of(scenario, KAFKA_2_8_2), chroot, journal) as cluster:
        driver = RealDriver(cluster, journal, topic_tool)
        records = ScenarioRunner(scenario, driver).run(STEPS.get(name))
    lines = compare_scenario(scenario, records)
    assert not lines, "\n".join(lines)
