"""Interface between a scenario and a real or simulated cluster.

The drivers are in simulated_driver.py, real_driver.py and lab/drivers/kafka_driver.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import ClassVar, Final

from klamm.cluster.journal import JournalRow
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.lab.drivers.client_host import ClientHost
from klamm.lab.drivers.clients import OperatorClient, ScenarioClients
from klamm.statemachines.context import ControllerContext
from klamm.world.simulated.breakpoints import Breakpoint
from klamm.world.views.brokers import hosted_partitions
from klamm.zk.ensemble import EmbeddedEnsemble

ONLY_PRODUCER: Final = "produce_constantly must be the only producer of a partition"


class ScenarioDriver(ClientHost):
    """A cluster that a scenario changes and inspects.

    - ``agreement``: what holds if ``disagreements_with_zookeeper`` finds nothing.
    - ``unobservable``: the kinds of conditions that this cluster does not show.
    - ``operator``: client for admin requests to the controller or a broker.
    - ``clients``: the scenario's producer and consumer.
    - ``ensemble``: the scenario's private ZooKeeper servers, or None.
    """

    is_simulated: ClassVar[bool] = False
    agreement: ClassVar[str] = "controller and brokers agree with ZooKeeper"
    unobservable: Container[str] = ()
    operator: OperatorClient
    clients: ScenarioClients
    ensemble: EmbeddedEnsemble | None = None
    constant_partitions: Collection[TopicPartition] = ()
    """The partitions with a constant-rate producer."""

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

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Start a producer with constant rates, in records per second for each partition.

        Only simulated clusters have it, like ``advance`` and ``break_session``."""
        raise NotImplementedError

    def acknowledged(self, partition: TopicPartition) -> int:
        """Return how many of the records sent to a partition were acknowledged (with acks=-1)."""
        return self.clients.acknowledged(partition)

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
