"""The cluster of a scenario, as far as its clients use it. Drivers (driver.py) add the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from klamm.lab.checks.admin_history import AdminHistory
from klamm.lab.drivers.turns import Turns
from klamm.world.client_actor import Client
from klamm.world.cluster import Cluster
from klamm.zk.store import Store

T = TypeVar("T")


class ClientHost:
    """A cluster on which the clients of a scenario run.

    - ``admin_history``: the history of the scenario's admin operations.
    - ``turns``: runs the cluster, with its observers and branches.
    """

    cluster: Cluster
    admin_history: AdminHistory
    turns: Turns

    @property
    def store(self) -> Store:
        """The scenario's ZooKeeper session, for reading and writing znodes.

        Its writes are recorded in ``admin_history``."""
        raise NotImplementedError

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer."""
        raise NotImplementedError

    def call_client(self, function: Callable[[float], T]) -> T:
        """Call ``function`` with the monotonic time in ms while no client or broker is running."""
        raise NotImplementedError

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Run the cluster until ``condition`` holds. Return False after the timeout."""
        return self.turns.run_until(condition, timeout_ms)
