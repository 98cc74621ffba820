"""How a scenario acts on a cluster: a protocol with one implementation for each world.

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
    """A cluster to act on, and to look at."""

    @property
    def cluster(self) -> Cluster:
        """The cluster; another one after ``kill_all`` in the real world."""
        ...

    @property
    def operator(self) -> OperatorClient:
        """Asks the controller or a broker, while the cluster works."""
        ...

    @property
    def clients(self) -> ScenarioClients:
        """The scenario's producer and consumer."""
        ...

    @property
    def store(self) -> Store:
        """A session of the scenario's own, to look at the tree with."""
        ...

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The cluster's journal so far."""
        ...

    @property
    def elapsed_ms(self) -> float:
        """How long the cluster has been there: virtual time in the simulated world."""
        ...

    def kill_all(self) -> list[int]:
        """Kill the process of the whole cluster; returns the brokers that ran in it. ZooKeeper, the
        disks and the scenario's clients survive."""
        ...

    def degrade_network(self, faults: NetworkFaults) -> None:
        """Lose, repeat and reorder messages that carry records. Raises UsageError where that cannot
        be done."""
        ...

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Kill, start, pause or resume a ZooKeeper server, or lose or regain the quorum. Raises
        UsageError where that cannot be done."""
        ...

    def add_client(self, client: Client) -> None:
        """Let a producer or consumer live."""
        ...

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` with the monotonic milliseconds, while no client or broker runs."""
        ...

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Let a producer give partitions records at constant rates from now on. Raises UsageError
        where that cannot be done."""
        ...

    def acknowledged(self, partition: TopicPartition) -> int:
        """How many records of a partition the whole ISR has."""
        ...

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Let the cluster work until ``condition`` holds; False if time is up first."""
        ...

    def run_for(self, duration_ms: float) -> None:
        """Let the cluster work for this long."""
        ...

    def settle(self) -> None:
        """Let the cluster work until nothing is left to do."""
        ...

    def controller_context(self) -> ControllerContext | None:
        """What the active controller knows, to read only; None while there is none."""
        ...

    def disagreements(self) -> list[str]:
        """What runtime/checks/agreement.py and runtime/checks/clients.py find, a line each."""
        ...
