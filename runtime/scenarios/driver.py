"""How a scenario acts on a cluster: a protocol with one implementation for each world.

These are simulated_driver.py and real_driver.py; they decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from brokers.broker import Broker
from cluster.journal import JournalRow
from cluster.requests import Message, Request, Response
from cluster.types import TopicPartition
from runtime.client_actor import Client
from runtime.disks import ClusterDisks
from runtime.transport import NetworkFaults
from statemachines.context import ControllerContext
from zk.store import Store

T = TypeVar("T")


class ToolResult(msgspec.Struct, frozen=True):
    """What a Kafka tool printed and returned."""

    stdout: str
    stderr: str
    rc: int


class ScenarioDriver(Protocol):
    """A cluster to act on, and to look at."""

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

    def add_tap(self, tap: Callable[[Message], None]) -> None:
        """Call ``tap`` with every message that is sent from now on."""
        ...

    @property
    def disks(self) -> ClusterDisks:
        """The cluster's disks, for fault injection."""
        ...

    def kill_all(self) -> list[int]:
        """Kill the process of the whole cluster; returns the brokers that ran in it. ZooKeeper, the
        disks and the scenario's clients survive."""
        ...

    def begin_start_all(self) -> Sequence[int]:
        """Start all brokers, in a new process after ``kill_all``; returns them. None becomes the
        controller before ``begin_candidacies``."""
        ...

    def begin_candidacies(self) -> None:
        """Let a controller be elected after ``begin_start_all``."""
        ...

    def start(self, broker_id: int) -> None:
        """Start a broker."""
        ...

    def kill(self, broker_id: int) -> None:
        """Kill a broker: its session goes when it times out."""
        ...

    def power_off(self, broker_id: int) -> None:
        """Kill a broker together with its machine: what its logs had not flushed may be lost."""
        ...

    def stop(self, broker_id: int) -> None:
        """Begin a controlled shutdown of a broker."""
        ...

    def pause(self, broker_id: int) -> None:
        """Freeze a broker and its controller; no heartbeat leaves them."""
        ...

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on where it was."""
        ...

    def bounce_registration(self, broker_id: int) -> None:
        """Delete a broker's znode and create it again with the same data, in one go."""
        ...

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Let a log directory of a broker fail."""
        ...

    def isolate(self, broker_ids: Sequence[int]) -> None:
        """From now on records travel among these brokers and among the others, not between them;
        none: among all."""
        ...

    def degrade_network(self, faults: NetworkFaults) -> None:
        """Lose, repeat and reorder messages that carry records. Raises UsageError where that cannot
        be done."""
        ...

    def preload(self, partition: TopicPartition, size_bytes: int) -> None:
        """Let the replicas of a partition hold so many bytes more. Raises UsageError."""
        ...

    def move_controller(self) -> None:
        """Delete /controller."""
        ...

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Kill, start, pause or resume a ZooKeeper server, or lose or regain the quorum. Raises
        UsageError where that cannot be done."""
        ...

    def run_tool(self, name: str, args: Sequence[str]) -> ToolResult:
        """Run a tool; ``{zk}`` in ``args`` stands for the cluster's ZooKeeper."""
        ...

    def ask(self, request: Request, broker_id: int | None = None) -> Response:
        """Send a request to the controller, or to a broker, and let the cluster work until it is
        answered. Raises RequestTimedOut if it is not, KlammError without a controller."""
        ...

    def add_client(self, client: Client) -> None:
        """Let a producer or consumer live."""
        ...

    def brokers(self) -> Sequence[Broker]:
        """The brokers that run; to be looked at only inside ``call_client``."""
        ...

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` with the monotonic milliseconds, while no client or broker runs."""
        ...

    def produce(self, partition: TopicPartition, count: int) -> None:
        """Give the scenario's producer records, which it goes on to send."""
        ...

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Let a producer give partitions records at constant rates from now on. Raises UsageError
        where that cannot be done."""
        ...

    def acknowledged(self, partition: TopicPartition) -> int:
        """How many records of a partition the whole ISR has."""
        ...

    def consumed(self, partition: TopicPartition) -> int:
        """How many records of a partition the scenario's consumer has read."""
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

    def hosted(self, broker_id: int) -> list[TopicPartition] | None:
        """The partitions that a broker has replicas of, in order; None if it does not run."""
        ...

    @property
    def errors(self) -> list[str]:
        """What went wrong inside brokers and controllers, a line each: bugs."""
        ...

    def disagreements(self) -> list[str]:
        """What runtime/checks/agreement.py and runtime/checks/clients.py find, a line each."""
        ...
