"""Recorded scenarios of real brokers whose steps are taken by Kafka's own tools.

The tools speak to the ZooKeeper, or to the listeners of the brokers, as they did in the recording.
With every quirk on, what they print, ZooKeeper's contents, the transitions and the requests are
those of Kafka 2.8.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from klamm.cluster.quirks import KAFKA_2_8_2
from klamm.cluster.types import EndPoint
from klamm.runtime.journal import MemoryJournal
from klamm.runtime.real.cluster import RealCluster
from klamm.runtime.scenarios.diff import compare_scenario
from klamm.runtime.scenarios.driver import ScenarioDriver
from klamm.runtime.scenarios.real_driver import RealDriver
from klamm.runtime.scenarios.recorded import recorded_spec
from klamm.runtime.scenarios.steps import ToolResult
from klamm.server.admin_channel import admin_of, new_client_address
from klamm.server.closing import Closing
from klamm.wire.listeners import Listener, Listeners
from tests.java_clients import JAVA_CLIENTS, java_marks, kafka_tools
from tests.listeners import free_ports
from tests.scenarios import SCENARIOS, read_scenario, run_recorded

CLASSES = {
    "topics": "TopicCommand",
    "reassign-partitions": "ReassignPartitionsCommand",
    "preferred-replica-election": "PreferredReplicaLeaderElectionCommand",
}
"""Kafka's tools that scenarios use, keyed by their names on klamm's command line."""

RunTool = Callable[[str, Sequence[str]], ToolResult]


@pytest.fixture(scope="module")
def run_tool() -> Iterator[RunTool]:
    with kafka_tools() as run:
        yield run


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a scenario: what it shows of each tool that it uses."""
    used = {step["step"].get("cls") for step in read_scenario(name)["steps"]}
    shown = "the recorded scenarios that use it"
    return [
        *java_marks(JAVA_CLIENTS[0]),
        *(
            pytest.mark.client(f"kafka-{tool}", version="2.8.2", shows=shown, segments=False)
            for tool, java_class in CLASSES.items()
            if java_class in used
        ),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in SCENARIOS])
def test_a_scenario_by_kafkas_tools_equals_kafka(name: str, chroot: str, run_tool: RunTool) -> None:
    scenario = read_scenario(name)
    spec = recorded_spec(scenario, KAFKA_2_8_2)
    port = free_ports(len(spec.broker_ids))
    spec = replace(spec, first_end_point=EndPoint("127.0.0.1", port, "PLAINTEXT", "PLAINTEXT"))
    addresses = {
        "{zk}": chroot,
        "{bootstrap}": ",".join(f"127.0.0.1:{port + broker}" for broker in spec.broker_ids),
    }

    def run(tool: str, args: Sequence[str], _: ScenarioDriver) -> ToolResult:
        java_class = f"kafka.admin.{CLASSES[tool]}"
        return run_tool(java_class, [addresses.get(arg, arg) for arg in args])

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
            records = run_recorded(scenario, RealDriver(cluster, journal), run)
    lines = compare_scenario(scenario, records)
    assert not lines, "\n".join(lines)
