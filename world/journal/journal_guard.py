"""Journal guard: no controller is active while the journal or the logs cannot be written.

Every controller action must be recorded in the journal. So when a write fails, the active
controller resigns, and no controller is elected until the guard can write the files again. Until
then, rows and lines are kept in memory (line_file.py). Kafka has no counterpart, because its
controller has no journal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.journal import JournalRow
from klamm.cluster.protocols import Clock, Journal
from klamm.cluster.requests import Address
from klamm.controller.candidacy import Candidacy
from klamm.world.actors import Actor
from klamm.world.journal.journal import FileJournal, MemoryJournal
from klamm.world.journal.kafka_logs import KafkaLogs

RETRY_INTERVAL_MS: Final = 500.0
ADDRESS: Final = Address("journal", 0)
KEPT: Final = (FileJournal, MemoryJournal)

logger = logging.getLogger(__name__)


class JournalGuard(Actor):
    """A Journal that never raises: on a failure it makes the controllers resign instead.

    ``failure`` is the reason why the journal or a Kafka-like log cannot be written, or None. The
    guard is an actor on the brokers' thread, where it retries; ``post`` delivers its events. During
    a failure it sets ``candidacy.hold``, so that no controller is elected. ``on_change`` is called
    when a failure begins or ends.
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
        super().__init__(ADDRESS)
        self.failure: JournalUnwritable | None = None
        self._journal = journal
        self._files: list[FileJournal | MemoryJournal | KafkaLogs]
        self._files = [journal] if isinstance(journal, KEPT) else []
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
        """Append rows. Thread-safe."""
        try:
            self._journal.append(rows)
        except JournalUnwritable:
            self._notice()

    def flush(self) -> None:
        """Write the rows to the operating system, and detect failures of the Kafka-like logs."""
        try:
            self._journal.flush()
        except JournalUnwritable:
            self._notice()
            return
        if not self._is_noticed and any(file.failure is not None for file in self._files):
            self._notice()

    @property
    def failed_for_ms(self) -> float:
        """How long writes have been failing, in milliseconds; 0 if they succeed."""
        return 0.0 if self.failure is None else self._clock.monotonic_ms() - self._failed_at_ms

    def next_due_ms(self) -> float | None:
        return self._retry_at_ms

    def run_event(self) -> None:
        """Try to write the files again."""
        self.inbox.clear()
        self._look()

    def _notice(self) -> None:
        if not self._is_noticed:
            self._is_noticed = True
            self._post(ADDRESS, None)

    def _look(self) -> None:
        # Not a generator expression, because every file must be retried.
        if self.failure is not None and all([file.retry() for file in self._files]):
            seconds = self.failed_for_ms / 1000
            logger.info("the journal can be written again after %.1f s", seconds)
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
            logger.warning("%s: no controller is elected until it can be written", failure)
            self._candidacy.hold = failure.message
            self._on_change()
