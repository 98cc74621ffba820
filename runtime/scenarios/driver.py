"""Interface between a scenario and a cluster, with one implementation for each world.

These are simulated_driver.py and real_driver.py; they decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from klamm.cluster.journal import JournalRow
from klamm.cluster.types import TopicPartition
from klamm.runtime.client_actor import Client
from klamm.runtime.cluster import Cluster
from klamm.runtime.scenarios.clients import OperatorClient, ScenarioClients
from klamm.runtime.transport import NetworkFaults
from klamm.statemachines.context import ControllerContext
from klamm.zk.store import Store

T = TypeVar("T")


class ScenarioDriver(Protocol):
    """A cluster that a scenario acts on and inspects."""

    @property
    def cluster(self) -> Cluster:
        """The cluster; a new one after ``kill_all`` in the real world."""
        ...

    @property
    def operator(self) -> OperatorClient:
        """Client for requests to the controller or a broker, while the cluster runs."""
        ...

    @property
    def clients(self) -> ScenarioClients:
        """The scenario's producer and consumer."""
        ...

    @property
    def store(self) -> Store:
        """A private session of the scenario, to read znodes."""
        ...

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The cluster's journal so far."""
        ...

    @property
    def elapsed_ms(self) -> float:
        """Age of the cluster: virtual time in the simulated world."""
        ...

    def kill_all(self) -> list[int]:
        """Kill the process of the whole cluster; return the brokers that were running.

        ZooKeeper, the disks and the scenario's clients survive."""
        ...

    def degrade_network(self, faults: NetworkFaults) -> None:
        """Lose, repeat and reorder messages that carry records.

        Raises UsageError if this world does not support it."""
        ...

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Kill, start, pause or resume a ZooKeeper server, or lose or regain the quorum.

        Raises UsageError if this world does not support it."""
        ...

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer."""
        ...

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` with the monotonic time in ms, while no client or broker runs."""
        ...

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Start a producer with constant rates by partition.

        Raises UsageError if this world does not support it."""
        ...

    def acknowledged(self, partition: TopicPartition) -> int:
        """Return the number of records of a partition that the whole ISR has."""
        ...

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Run the cluster until ``condition`` holds; return False after the timeout."""
        ...

    def run_for(self, duration_ms: float) -> None:
        """Run the cluster for this long."""
        ...

    def quiesce(self) -> None:
        """Run the cluster until it is idle."""
        ...

    def controller_context(self) -> ControllerContext | None:
        """Return the active controller's context, read-only; None without one."""
        ...

    def disagreements(self) -> list[str]:
        """Return the findings of runtime/checks/agreement.py and clients.py, one line each."""
        ...
