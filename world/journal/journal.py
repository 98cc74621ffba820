"""Implementations of Journal: a file of JSON lines, and a list of rows in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind, parse_row
from klamm.world.journal.archive import Archive
from klamm.world.journal.line_file import MAX_PENDING_BYTES, LineFile
from klamm.world.journal.rotated_files import LogLines

_JOURNAL_ITSELF: Final = -2
_log = logging.getLogger(__name__)


class FileJournal:
    """The file ``journal.jsonl``: one JSON object per line, in the order rows are appended.

    All controllers in a process share the file. When it is opened, an incomplete last line is
    removed; a journal row (the second of the new rows) records the number of removed bytes. While
    the file cannot be written, ``failure`` is the reason, and rows are kept in memory until
    ``retry`` succeeds. Rows beyond ``max_pending_bytes`` are lost, and a journal row records how
    many. ``archive`` decides when the file is rotated; without an archive it is never rotated.
    """

    def __init__(
        self,
        path: Path,
        *,
        is_fsynced: bool = False,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        archive: Archive | None = None,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self._file = LineFile(
            path,
            is_fsynced=is_fsynced,
            is_whole=_is_row,
            lost_line=self._lost_line,
            max_pending_bytes=max_pending_bytes,
            archive=archive,
            disk=disk,
        )
        self._unreported_cut_bytes = self._file.cut_bytes
        self._latest: JournalRow | None = None
        self._own_rows = 0

    @property
    def failure(self) -> JournalUnwritable | None:
        """The reason why the file cannot be written now, or None if it can."""
        return self._file.failure

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Append rows, which may be buffered until ``flush``.

        Raises JournalUnwritable while the file cannot be written; even then the rows are kept.
        """
        listed = rows if isinstance(rows, list) else list(rows)
        if not listed:
            return
        if self._unreported_cut_bytes:
            cut = {"cut_bytes": self._unreported_cut_bytes}
            row = self._own_row(Kind.JOURNAL_REPAIRED, listed[0], cut)
            self._unreported_cut_bytes = 0
            listed = [listed[0], row, *listed[1:]]
        self._latest = listed[-1]
        self._file.append(self._encoder.encode_lines(listed))

    def flush(self) -> None:
        """Write buffered rows to the operating system, and also to the disk if ``is_fsynced``.

        Raises JournalUnwritable while the file cannot be written.
        """
        self._file.flush()

    def retry(self) -> bool:
        """Try to write the pending rows. Return True if the file can be written (again)."""
        return self._file.retry()

    def close(self) -> None:
        """Flush and close; idempotent. Never raises: a failure to write rows is logged."""
        self._file.close()

    def _lost_line(self, lost: int) -> bytes:
        assert self._latest is not None
        row = self._own_row(Kind.JOURNAL_ROWS_LOST, self._latest, {"rows": lost})
        return self._encoder.encode(row) + b"\n"

    def _own_row(self, kind: Kind, beside: JournalRow, detail: dict[str, int]) -> JournalRow:
        """Return a row about the journal itself.

        The run id, cluster and time are copied from the row ``beside``. Rows about the journal are
        numbered separately, so that no row number occurs twice."""
        self._own_rows += 1
        return JournalRow(
            SCHEMA_VERSION,
            beside.run_id,
            beside.t_ms,
            self._own_rows,
            _JOURNAL_ITSELF,
            0,
            kind,
            cluster_id=beside.cluster_id,
            detail=msgspec.json.encode(detail).decode(),
        )


class MemoryJournal:
    """Journal rows in a list, for simulated worlds and tests."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []
        self.failure: JournalUnwritable | None = None
        self._pending: list[JournalRow] = []
        self._is_refusing = False

    def refuse(self, reason: str) -> None:
        """Make all writes fail from now on, as on a failing disk."""
        self._is_refusing = True
        self.failure = JournalUnwritable(f"the journal cannot be written: {reason}")

    def accept(self) -> None:
        """End the failure, so that the next ``retry`` succeeds."""
        self._is_refusing = False

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Append rows. During a failure, keep them for ``retry`` and raise JournalUnwritable."""
        if self.failure is not None:
            self._pending.extend(rows)
            raise self.failure.with_traceback(None)
        self.rows.extend(rows)

    def flush(self) -> None:
        """Do nothing, because rows are not buffered. Raises JournalUnwritable during a failure."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def retry(self) -> bool:
        """Try to append the pending rows. Return True if rows can be appended (again)."""
        if self._is_refusing:
            return False
        self.failure = None
        self.rows += self._pending
        self._pending.clear()
        return True


def read_journal(path: Path) -> list[JournalRow]:
    """Return the rows of a journal, including its rotated files. Damaged lines are skipped."""
    rows = []
    damaged = 0
    for line in LogLines(path):
        row = parse_row(line)
        if isinstance(row, str):
            damaged += 1
        else:
            rows.append(row)
    if damaged:
        _log.warning("%s: %d damaged lines are skipped", path, damaged)
    return rows


def _is_row(line: bytes) -> bool:
    return not isinstance(parse_row(line), str)
