"""What an action is carried out on: the cluster, and references to its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from klamm.cluster.types import TopicPartition
from klamm.zk.store import Store

if TYPE_CHECKING:
    from klamm.runtime.cluster import Cluster


class InRack(msgspec.Struct, frozen=True, tag=True):
    """All brokers of a rack."""

    rack: str


class IsrFollower(msgspec.Struct, frozen=True, tag=True):
    """Any follower in the ISR of a partition, which is given by its name."""

    partition: str


RUNNING: Final = "running"
PAUSED: Final = "paused"
KILLED: Final = "killed"
POWERED_OFF: Final = "powered off"
STOPPED: Final = "stopped"
ENDED: Final = (KILLED, POWERED_OFF, STOPPED)
"""States of a broker that is no longer running."""
DEAD: Final = "dead"
CONTROLLER: Final = "controller"

BrokerRef = int | str | TopicPartition | InRack | IsrFollower
"""The brokers that an action affects. An int is a broker id. Scenarios may also give a partition
(its leader), CONTROLLER (the broker with the active controller), DEAD or PAUSED (all brokers that
earlier steps ended or paused), a rack, or a follower of a partition."""


class ActionTarget(Protocol):
    """The target of an action: a running scenario, or the cluster behind the HTTP server."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the actions change."""
        ...

    @property
    def store(self) -> Store:
        """A session with the cluster's ZooKeeper."""
        ...

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """Return the ids of the brokers that a reference, e.g. ``dead``, stands for.

        Raises KlammError if there are none."""
        ...

    def note_state(self, broker_id: int, state: str) -> None:
        """Record the state of a broker, e.g. ``killed``, after an action."""
        ...
