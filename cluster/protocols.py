"""The seams between the decisions and the world: Clock, Transport, Journal, and views of a broker.

Only protocols: implementations live in runtime/.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from klamm.cluster.journal import JournalRow
from klamm.cluster.requests import Message
from klamm.cluster.types import TopicPartition


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, for timestamps."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds that never go back, for timers and durations."""
        ...


class Transport(Protocol):
    """Carries messages between actors: in order between two that stay alive, otherwise lost."""

    def send(self, message: Message) -> None:
        """Hand a message over; never blocks, never raises because the other side is gone."""
        ...


class Journal(Protocol):
    """Where rows go that say what happened. Rows are complete; the journal only stores them."""

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Add rows in this order."""
        ...

    def flush(self) -> None:
        """Hand what was added to the operating system."""
        ...


class MetadataView(Protocol):
    """What the controller may ask of its own broker's metadata cache."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The leader that the cache shows; None if it does not know the partition."""
        ...

    def num_partitions(self, topic: str) -> int:
        """How many partitions of a topic the cache knows; 0 if it does not know the topic."""
        ...


class DynamicConfigView(Protocol):
    """What the controller may ask of its own broker's config, which may change while it runs."""

    @property
    def unclean_leader_election_enable(self) -> bool:
        """Whether a topic whose config does not say may have a leader out of sync."""
        ...
