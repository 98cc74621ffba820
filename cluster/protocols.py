"""Interfaces that the logic of controllers and brokers requires: clock, transport and journal.

Two more interfaces let a controller read the state of the broker that runs in the same process.
world/ and brokers/ implement all of the interfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from klamm.cluster.journal import JournalRow
from klamm.cluster.requests import Address, Message, Request
from klamm.cluster.types import TopicPartition

SendRequest = Callable[[Address, Request], int]
"""Function that sends a request to an address and returns the request's correlation id."""


class Clock(Protocol):
    """Source of wall-clock and monotonic time."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch, for timestamps."""
        ...

    def monotonic_ms(self) -> float:
        """Return the monotonic time in milliseconds, for timers and durations."""
        ...


class Transport(Protocol):
    """Delivers messages between actors, which are controllers, brokers and clients.

    Messages between two actors arrive in order while both are alive. A message to or from a dead
    actor is lost.
    """

    def send(self, message: Message) -> None:
        """Send a message. The call never blocks, and does not raise if the receiver is gone."""
        ...


class Journal(Protocol):
    """Destination of journal rows."""

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Append rows in the given order."""
        ...

    def flush(self) -> None:
        """Flush the appended rows to the operating system."""
        ...


class MetadataView(Protocol):
    """A controller's read-only view of the metadata cache of the broker in the same process."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Return the cached leader of a partition, or None if the partition is unknown."""
        ...

    def num_partitions(self, topic: str) -> int:
        """Return the cached number of partitions of a topic, or 0 if the topic is unknown."""
        ...


class DynamicConfigView(Protocol):
    """A controller's read-only view of the dynamic configs of the broker in the same process."""

    @property
    def unclean_leader_election_enable(self) -> bool:
        """The broker's unclean.leader.election.enable, for topics that do not override it."""
        ...
