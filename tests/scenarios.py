"""Recorded scenarios of real Kafka 2.8.2 brokers, and how klamm runs them again.

Each is a JSON file of tests/data/scenarios; runtime/scenario.py repeats its steps and
runtime/scenario_diff.py compares. Nothing is judged here.
"""

from __future__ import annotations

from pathlib import Path

from cluster.quirks import Quirks
from runtime.journal import MemoryJournal
from runtime.node import ClusterSpec, rack_map
from runtime.real_cluster import RealCluster
from runtime.scenario import ScenarioRunner, load_scenario
from runtime.scenario_diff import compare_scenario
from runtime.scenario_drivers import RealDriver, SimulatedDriver
from runtime.scenario_rows import Json
from runtime.simulated_world import SimulatedWorld
from tests.tools import kafka_tool

_DATA = Path(__file__).parent / "data" / "scenarios"
SCENARIOS = tuple(sorted(path.stem for path in _DATA.glob("*.json")))


def read_scenario(name: str) -> Json:
    """A recorded scenario."""
    return load_scenario(_DATA / f"{name}.json")


def spec_of(scenario: Json, quirks: Quirks, seed: int = 0) -> ClusterSpec:
    """The cluster that the scenario was recorded on."""
    broker_ids = tuple(range(scenario["brokers"]))
    racks = [f"rack{broker_id}" for broker_id in broker_ids] if scenario["racks"] else []
    return ClusterSpec(
        broker_ids=broker_ids,
        racks=rack_map(broker_ids, racks),
        session_timeout_ms=2000,
        quirks=quirks,
        config={"auto.leader.rebalance.enable": "false"}
        | {name: str(value) for name, value in scenario["props"].items()},
        seed=seed,
    )


def simulated_differences(name: str, quirks: Quirks, seed: int = 0) -> list[str]:
    """How klamm in the simulated world differs from Kafka, a line each."""
    scenario = read_scenario(name)
    world = SimulatedWorld(spec_of(scenario, quirks, seed))
    records = ScenarioRunner(scenario, SimulatedDriver(world, kafka_tool)).run()
    return [*world.errors, *compare_scenario(scenario, records)]


def real_differences(name: str, quirks: Quirks, connect_string: str) -> list[str]:
    """How klamm on a real ZooKeeper differs from Kafka, a line each."""
    scenario = read_scenario(name)
    journal = MemoryJournal()
    with RealCluster(spec_of(scenario, quirks), connect_string, journal) as cluster:
        records = ScenarioRunner(scenario, RealDriver(cluster, journal, kafka_tool)).run()
    return compare_scenario(scenario, records)
