"""world/journal/journal_guard.py: candidates while the journal or a log cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.brokers.logs.log_journal import LogJournal
from klamm.cluster.journal import Kind
from klamm.cluster.requests import Address
from klamm.controller.candidacy import Candidacy
from klamm.world.clock import VirtualClock
from klamm.world.journal.journal import FileJournal, read_journal
from klamm.world.journal.journal_guard import ADDRESS, RETRY_INTERVAL_MS, JournalGuard
from klamm.world.journal.kafka_logs import KafkaLogs
from tests.disk_limits import files_limited_to


class Guarded:
    """A guard on files in a folder, whose events are run by ``run``."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.journal = FileJournal(folder / "journal.jsonl")
        self.logs = KafkaLogs(folder / "logs", self.clock, "TRACE")
        self.candidacy = Candidacy(self.clock)
        self.changes: list[str | None] = []
        self.posted: list[Address] = []
        self.guard = JournalGuard(
            self.journal,
            self.logs,
            self.clock,
            self._post,
            self.candidacy,
            lambda: self.changes.append(self.candidacy.hold),
        )
        self.broker_rows = LogJournal(self.guard, self.clock, "run")

    def _post(self, address: Address, event: object) -> None:
        self.posted.append(address)
        self.guard.give(event)

    def run(self, ms: float = 0) -> None:
        """Let time pass, and the guard do what is due."""
        self.clock.advance_to(self.clock.monotonic_ms() + ms)
        while self.guard.is_ready(self.clock):
            self.guard.run_event()

    def close(self) -> None:
        self.logs.close()
        self.journal.close()


def test_no_controller_is_elected_until_the_rows_are_written(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path)
    guarded.broker_rows.dir_failed(1, "d0", "written")
    guarded.guard.flush()
    guarded.run(700)
    assert (guarded.posted, guarded.guard.failed_for_ms) == ([], 0)
    with files_limited_to(guarded.journal.path.stat().st_size + 10):
        for _ in range(3):
            guarded.broker_rows.dir_failed(1, "d1", "kept")
        assert guarded.posted == [ADDRESS], "the guard looks once"
        guarded.run()
        assert guarded.guard.failure is not None
        assert guarded.changes == [guarded.guard.failure.message]
        for _ in range(3):
            guarded.run(RETRY_INTERVAL_MS)
        assert guarded.guard.failed_for_ms == 3 * RETRY_INTERVAL_MS
        assert len(guarded.changes) == 1, "said once"
    guarded.run(RETRY_INTERVAL_MS)
    assert guarded.guard.failure is None
    assert guarded.changes[1:] == [None]
    assert guarded.guard.next_due_ms() is None
    kinds = [row.kind for row in read_journal(guarded.journal.path)]
    assert kinds == [Kind.LOG_DIR_FAILED] * 4
    guarded.close()


@pytest.mark.parametrize("times", [1, 2])
def test_a_log_that_cannot_be_written_counts_as_well(tmp_path: Path, times: int) -> None:
    guarded = Guarded(tmp_path)
    log = guarded.logs.open(1)
    for _ in range(times):
        with files_limited_to(10_000):
            log.info("x" * 20_000)
            guarded.guard.flush()
            guarded.run()
            assert guarded.candidacy.hold is not None
            assert "controller.log cannot be written" in guarded.candidacy.hold
        guarded.run(RETRY_INTERVAL_MS)
        assert guarded.candidacy.hold is None
    guarded.close()


def test_a_failure_that_is_over_before_the_check_holds_no_candidate(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path)
    log = guarded.logs.open(1)
    for _ in range(2):
        with files_limited_to(10_000):
            log.info("x" * 20_000)
            guarded.guard.flush()
        assert guarded.logs.retry()
        guarded.run()
        assert (guarded.guard.failure, guarded.candidacy.hold, guarded.changes) == (None, None, [])
    with files_limited_to(10_000):
        log.info("x" * 20_000)
        guarded.guard.flush()
        guarded.run()
        assert guarded.candidacy.hold is not None
    guarded.close()
