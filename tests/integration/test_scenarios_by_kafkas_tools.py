"""Recorded scenarios of real brokers whose steps are taken by Kafka's own tools.

The tools speak to the ZooKeeper, or to the listeners of the brokers, as they did in the recording.
With every quirk on, what they print, ZooKeeper's contents, the transitions and the requests are
those of Kafka 2.8.2. Then they speak to the listeners only (tests/bootstrap_scenarios.py); with
``--rewrite``, the tests first record what brokers of Kafka do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from klamm.cluster.quirks import KAFKA_2_8_2
from klamm.cluster.types import EndPoint
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.real_driver import RealDriver
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.recordings.diff import compare_scenario
from klamm.lab.recordings.recorded import recorded_spec
from klamm.lab.recordings.rows import Json
from klamm.server.admin_channel import admin_of, new_client_address
from klamm.server.closing import Closing
from klamm.tools.command_result import CommandResult
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.world.real.listeners import Listener, Listeners
from klamm.world.simulated.world import SimulatedWorld
from tests.bootstrap_scenarios import record_kafka, through_brokers
from tests.java_clients import JAVA_CLIENTS, java_marks, kafka_tools
from tests.listeners import free_ports
from tests.scenarios import SCENARIOS, Tools, read_scenario, run_recorded

CLASSES = {
    "topics": "TopicCommand",
    "reassign-partitions": "ReassignPartitionsCommand",
    "preferred-replica-election": "PreferredReplicaLeaderElectionCommand",
    "configs": "ConfigCommand",
}
"""Kafka's tools that scenarios use, keyed by their names on klamm's command line."""

RunTool = Callable[[str, Sequence[str]], CommandResult]


@pytest.fixture(scope="module")
def run_tool() -> Iterator[RunTool]:
    with kafka_tools() as run:
        yield run


def marks(name: str, shown: str, scenario: Json) -> list[pytest.MarkDecorator]:
    """Return the marks of a scenario: what it shows of each tool that it uses."""
    used = {step["step"].get("cls") for step in scenario["steps"]}
    return [
        *java_marks(JAVA_CLIENTS[0]),
        *(
            pytest.mark.client(f"kafka-{tool}", version="2.8.2", shows=shown, segments=False)
            for tool, java_class in CLASSES.items()
            if java_class in used
        ),
    ]


def params(shown: str, read: Callable[[str], Json]) -> list[object]:
    """Return the names of all scenarios, with their marks."""
    return [pytest.param(name, marks=marks(name, shown, read(name))) for name in SCENARIOS]


def tools_at(run_tool: RunTool, connect_string: str, ports: Sequence[int]) -> Tools:
    """Return what runs Kafka's tools at a cluster whose brokers listen on ``ports``."""
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    addresses = {"{zk}": connect_string, "{bootstrap}": bootstrap}

    def run(tool: str, args: Sequence[str], _: ScenarioDriver) -> CommandResult:
        java_class = f"kafka.admin.{CLASSES[tool]}"
        return run_tool(java_class, [addresses.get(arg, arg) for arg in args])

    return run


def differences(scenario: Json, chroot: str, run_tool: RunTool) -> list[str]:
    """Run a scenario with Kafka's tools on klamm, and return how that differs from Kafka."""
    spec = recorded_spec(scenario, KAFKA_2_8_2)
    port = free_ports(len(spec.broker_ids))
    spec = replace(spec, first_end_point=EndPoint("127.0.0.1", port, "PLAINTEXT", "PLAINTEXT"))
    tools = tools_at(run_tool, chroot, [port + broker_id for broker_id in spec.broker_ids])
    journal = MemoryJournal()
    with RealCluster(spec, chroot, journal) as cluster:
        listeners = Listeners(
            cluster,
            [Listener("PLAINTEXT", lambda broker: ("127.0.0.1", port + broker))],
            new_client_address,
            admin_of(cluster, Closing()),
        )
        listeners.open()
        with contextlib.closing(listeners):
            records = run_recorded(scenario, RealDriver(cluster, journal), tools)
    return compare_scenario(scenario, records)


@pytest.mark.slow
@pytest.mark.parametrize("name", params("the recorded scenarios that use it", read_scenario))
def test_a_scenario_by_kafkas_tools_equals_kafka(name: str, chroot: str, run_tool: RunTool) -> None:
    lines = differences(read_scenario(name), chroot, run_tool)
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", params("the scenarios over --bootstrap-server that use it", through_brokers)
)
def test_a_scenario_over_bootstrap_server_equals_kafka(
    name: str, chroot: str, run_tool: RunTool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if request.config.getoption("--rewrite"):
        connect = f"{chroot}-kafka"
        record_kafka(name, connect, tmp_path, partial(tools_at, run_tool, connect))
    lines = differences(through_brokers(name), chroot, run_tool)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_over_bootstrap_server_by_klamms_tools_equals_kafka(name: str) -> None:
    scenario = through_brokers(name)
    world = SimulatedWorld(recorded_spec(scenario, KAFKA_2_8_2))
    lines = compare_scenario(scenario, run_recorded(scenario, SimulatedDriver(world)))
    assert not [*world.errors, *lines], "\n".join(lines)
