"""What ties a node's side effects to its life: a killed process neither sends nor journals.

Its event thread may still be in the middle of an event when a node is killed in the real world.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.journal import JournalRow
from cluster.protocols import Journal, Transport
from cluster.requests import Message


class MortalTransport:
    """A Transport of one node: what it sends after ``is_dead`` was set is lost."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_dead = False

    def send(self, message: Message) -> None:
        """Hand a message over, while the node lives."""
        if not self.is_dead:
            self._transport.send(message)


class MortalJournal:
    """A Journal of one node: rows after ``is_dead`` was set are dropped."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.is_dead = False

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Add rows, while the node lives."""
        if not self.is_dead:
            self._journal.append(rows)

    def flush(self) -> None:
        """Hand what was added to the operating system."""
        self._journal.flush()
