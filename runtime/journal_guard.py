"""The journal and the logs beside it, where the disk refuses them: nobody is elected meanwhile.

What a controller does must be on record. So the active one resigns, no candidate is elected until
the files can be written again, and that is tried by itself. Rows and lines are kept by the files
themselves (runtime/line_file.py). Mirrors nothing of Kafka, whose controller has no journal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from cluster.errors import JournalUnwritable
from cluster.journal import JournalRow
from cluster.protocols import Clock, Journal
from cluster.requests import Address
from controller.candidacy import Candidacy
from runtime.actors import Actor
from runtime.journal import FileJournal, MemoryJournal
from runtime.kafka_logs import KafkaLogs

RETRY_INTERVAL_MS: Final = 500.0
ADDRESS: Final = Address("journal", 0)
KEPT: Final = (FileJournal, MemoryJournal)

logger = logging.getLogger(__name__)


class KeptFile(Protocol):
    """A file, or several, that keep what the disk refuses until ``retry``."""

    @property
    def failure(self) -> JournalUnwritable | None:
        """Why it cannot be written now."""
        ...

    def retry(self) -> bool:
        """Write what was kept; True if it can be written (again)."""
        ...


class JournalGuard(Actor):
    """A Journal that never raises. ``failure``: why it, or a log beside it, cannot be written.

    An actor beside the brokers, where ``post`` brings events: it retries there. It holds the
    ``candidacy`` meanwhile, and ``on_change`` is called after that and once the failure is over.
    """

    is_shared = True

    def __init__(
        self,
        journal: Journal,
        logs: KafkaLogs | None,
        clock: Clock,
        post: Callable[[Address, object], None],
        candidacy: Candidacy,
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(ADDRESS, self._look)
        self.failure: JournalUnwritable | None = None
        self._journal = journal
        self._files: list[KeptFile] = [journal] if isinstance(journal, KEPT) else []
        if logs is not None:
            self._files.append(logs)
        self._clock = clock
        self._post = post
        self._candidacy = candidacy
        self._on_change = on_change
        self._is_noticed = False
        self._failed_at_ms = 0.0
        self._retry_at_ms: float | None = None

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Add rows; from any thread."""
        try:
            self._journal.append(rows)
        except JournalUnwritable:
            self._notice()

    def flush(self) -> None:
        """Hand the rows to the operating system, and see that the logs beside them were written."""
        try:
            self._journal.flush()
        except JournalUnwritable:
            self._notice()
            return
        if not self._is_noticed and any(file.failure is not None for file in self._files):
            self._notice()

    @property
    def failed_for_ms(self) -> float:
        """For how long it has not been possible to write."""
        return 0.0 if self.failure is None else self._clock.monotonic_ms() - self._failed_at_ms

    def next_due_ms(self) -> float | None:
        """When to try again."""
        return self._retry_at_ms

    def run_event(self) -> None:
        """Look whether the files can be written."""
        self._look(self.inbox.popleft() if self.inbox else None)

    def _notice(self) -> None:
        if not self._is_noticed:
            self._is_noticed = True
            self._post(ADDRESS, None)

    def _look(self, _: object) -> None:
        # Not a generator: each of them is to be tried.
        if self.failure is not None and all([file.retry() for file in self._files]):
            seconds = self.failed_for_ms / 1000
            logger.warning("the journal can be written again after %.1f s", seconds)
            self.failure, self._retry_at_ms, self._is_noticed = None, None, False
            self._candidacy.hold = None
            self._on_change()
            return
        failures = (file.failure for file in self._files)
        failure = next((found for found in failures if found is not None), None)
        if failure is None:
            self._is_noticed = False
            return
        now_ms = self._clock.monotonic_ms()
        self._retry_at_ms = now_ms + RETRY_INTERVAL_MS
        begins, self.failure = self.failure is None, failure
        if begins:
            self._failed_at_ms = now_ms
            logger.warning("%s: there is no controller until it can be", failure)
            self._candidacy.hold = failure.message
            self._on_change()
