"""Protocols between controller or broker logic and its environment: clock, transport, journal.

Also the views that a controller has of the broker in its process. runtime/ and brokers/ implement
these protocols.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from klamm.cluster.journal import JournalRow
from klamm.cluster.requests import Message
from klamm.cluster.types import TopicPartition


class Clock(Protocol):
    """Source of time."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since the epoch, for timestamps."""
        ...

    def monotonic_ms(self) -> float:
        """Return the monotonic time in milliseconds, for timers and durations."""
        ...


class Transport(Protocol):
    """Carrier of messages between actors.

    Messages between two actors arrive in order while both are alive, and are lost otherwise.
    """

    def send(self, message: Message) -> None:
        """Send a message; never blocks, and never raises if the destination is gone."""
        ...


class Journal(Protocol):
    """Store of journal rows."""

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Append rows in this order."""
        ...

    def flush(self) -> None:
        """Flush the appended rows to the operating system."""
        ...


class MetadataView(Protocol):
    """Read-only view of the metadata cache of the broker in the controller's process."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Return the cached leader of a partition; None if the partition is unknown."""
        ...

    def num_partitions(self, topic: str) -> int:
        """Return the cached number of partitions of a topic; 0 if the topic is unknown."""
        ...


class DynamicConfigView(Protocol):
    """Read-only view of the dynamic configs of the broker in the controller's process."""

    @property
    def unclean_leader_election_enable(self) -> bool:
        """Whether topics without this config allow unclean leader elections."""
        ...
