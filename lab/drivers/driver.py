"""Interface between a scenario and a real or simulated cluster.

The drivers are in simulated_driver.py, real_driver.py and lab/drivers/kafka_driver.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import ClassVar, Final, TypeVar

from klamm.cluster.journal import JournalRow
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.lab.checks.admin_history import AdminHistory
from klamm.lab.drivers.clients import OperatorClient, ScenarioClients
from klamm.lab.drivers.turns import Turns
from klamm.statemachines.context import ControllerContext
from klamm.world.client_actor import Client
from klamm.world.cluster import Cluster
from klamm.world.simulated.breakpoints import Breakpoint
from klamm.world.views.brokers import hosted_partitions
from klamm.zk.ensemble import EmbeddedEnsemble
from klamm.zk.store import Store

T = TypeVar("T")

ONLY_PRODUCER: Final = "produce_constantly must be the only producer of a partition"


class ScenarioDriver:
    """A cluster that a scenario changes and inspects.

    - ``agreement``: what holds if ``disagreements_with_zookeeper`` finds nothing.
    - ``unobservable``: the kinds of conditions that this cluster does not show.
    - ``operator``: client for admin requests to the controller or a broker.
    - ``admin_history``: the history of the scenario's admin operations.
    - ``clients``: the scenario's producer and consumer.
    - ``ensemble``: the scenario's private ZooKeeper servers, or None.
    - ``turns``: runs the cluster for this driver, with its observers and branches.
    """

    cluster: Cluster
    is_simulated: ClassVar[bool] = False
    agreement: ClassVar[str] = "controller and brokers agree with ZooKeeper"
    unobservable: Container[str] = ()
    operator: OperatorClient
    admin_history: AdminHistory
    clients: ScenarioClients
    ensemble: EmbeddedEnsemble | None = None
    constant_partitions: Collection[TopicPartition] = ()
    """The partitions with a constant-rate producer."""
    turns: Turns

    @property
    def store(self) -> Store:
        """The scenario's ZooKeeper session, for reading and writing znodes.

        Its writes are recorded in ``admin_history``."""
        raise NotImplementedError

    @property
    def rows(self) -> Sequence[JournalRow]:
        """All journal rows of the cluster so far."""
        raise NotImplementedError

    @property
    def zookeeper_changes(self) -> int:
        """A number that changes whenever a znode changes, so that callers can cache reads."""
        raise NotImplementedError

    @property
    def elapsed_ms(self) -> float:
        """Age of the cluster in milliseconds (virtual time in the simulated world)."""
        raise NotImplementedError

    @property
    def steps_run(self) -> int:
        """Number of steps that the simulated world has run. Raises UsageError in the real world."""
        raise NotImplementedError

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer."""
        raise NotImplementedError

    def call_client(self, function: Callable[[float], T]) -> T:
        """Call ``function`` with the monotonic time in ms while no client or broker is running."""
        raise NotImplementedError

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Start a producer with constant rates, in records per second for each partition.

        Only simulated clusters have it, like ``advance`` and ``break_session``."""
        raise NotImplementedError

    def acknowledged(self, partition: TopicPartition) -> int:
        """Return how many of the records sent to a partition were acknowledged (with acks=-1)."""
        return self.clients.acknowledged(partition)

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Run the cluster until ``condition`` holds. Return False after the timeout."""
        return self.turns.run_until(condition, timeout_ms)

    def run_for(self, duration_ms: float) -> None:
        """Run the cluster for this many milliseconds."""
        self.turns.run_until(lambda: False, duration_ms)

    def advance(self, count: int) -> None:
        """Run this many steps of the simulated world."""
        raise NotImplementedError

    def break_session(self, broker_id: int, how: str) -> None:
        """Break a broker's ZooKeeper session or connection.

        ``how``: a key of SESSION_FAULTS in world/simulated/world.py."""
        raise NotImplementedError

    def break_at(self, point: Breakpoint) -> Callable[[], bool]:
        """Stop a controller, once, at a moment of its work, so that others can act before it.

        Returns a function that returns True once the controller has been stopped. Raises UsageError
        in the real world."""
        raise NotImplementedError

    def watch(self, names: Sequence[str]) -> None:
        """Check these invariants after every event from now on. Has no effect in the real world.

        After a violation, each method that runs the cluster raises InvariantViolated."""

    def quiesce(self) -> None:
        """Run the cluster until it is idle."""
        raise NotImplementedError

    def controller_context(self) -> ControllerContext | None:
        """Return the active controller's context, or None. The context must not be changed."""
        return self.cluster.controller_context

    def known_assignments(self) -> Mapping[TopicPartition, ReplicaAssignment] | None:
        """Return the assignments of all partitions, as known to the active controller.

        Returns None if no controller is active."""
        context = self.controller_context()
        return None if context is None else context.assignments

    def hosted_partitions(self, broker_id: int) -> list[str] | None:
        """Return the partitions with a replica in a broker's log directories, sorted.

        Returns None if the broker is not running."""
        return self.call_client(lambda _: hosted_partitions(self.cluster, broker_id))

    def disagreements_with_zookeeper(self) -> list[str]:
        """Return the differences between ZooKeeper, the brokers and the controller, as lines."""
        raise NotImplementedError

    def disagreements(self) -> list[str]:
        """Return the findings of all checks at the end of a run, one line each.

        The checks are those in lab/checks/agreement.py and lab/checks/clients.py."""
        return self.disagreements_with_zookeeper() + self.clients.findings()
