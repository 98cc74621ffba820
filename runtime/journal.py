"""Implementations of Journal: a file of JSON lines, and rows kept in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.runtime.archive import Archive
from klamm.runtime.line_file import MAX_PENDING_BYTES, LineFile
from klamm.runtime.rotated_files import whole_lines

_JOURNAL_ITSELF: Final = -2
_decoder = msgspec.json.Decoder(JournalRow)
_log = logging.getLogger(__name__)


class FileJournal:
    """``journal.jsonl``: one JSON object per line, in the order rows are appended.

    Several controllers of one process share it. Opening truncates a torn last line; a row after
    the first one records the size. While the disk fails, ``failure`` is the reason; rows are kept
    until ``retry`` succeeds, up to a limit, and a row counts those lost beyond it.
    ``archive`` decides when the file is rotated; without one it never is.
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
        """The reason why the file cannot be written now; None if it can."""
        return self._file.failure

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Add rows; they may stay in a buffer until ``flush``.

        Raises JournalUnwritable while the file cannot be written; the rows are still kept.
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
        """Hand the rows to the operating system, or to the disk if the file is fsynced.

        Raises JournalUnwritable while the file cannot be written.
        """
        self._file.flush()

    def retry(self) -> bool:
        """Write the pending rows; return True if the file can be written (again)."""
        return self._file.retry()

    def close(self) -> None:
        """Flush and close; idempotent, never raises. Rows that cannot be written are logged."""
        self._file.close()

    def _lost_line(self, lost: int) -> bytes:
        assert self._latest is not None
        row = self._own_row(Kind.JOURNAL_ROWS_LOST, self._latest, {"rows": lost})
        return self._encoder.encode(row) + b"\n"

    def _own_row(self, kind: Kind, beside: JournalRow, detail: dict[str, int]) -> JournalRow:
        """Return a row about the journal itself, with the run and time of a neighbouring row.

        These rows have separate sequence numbers, so that no number occurs twice."""
        self._own_rows += 1
        return JournalRow(
            SCHEMA_VERSION,
            beside.run_id,
            beside.t_ms,
            self._own_rows,
            _JOURNAL_ITSELF,
            0,
            kind,
            detail=msgspec.json.encode(detail).decode(),
        )


class MemoryJournal:
    """Rows in a list, for simulated worlds and tests."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []
        self.failure: JournalUnwritable | None = None
        self._pending: list[JournalRow] = []
        self._is_refusing = False

    def refuse(self, reason: str) -> None:
        """Behave from now on like a file on a failing disk."""
        self._is_refusing = True
        self.failure = JournalUnwritable(f"the journal cannot be written: {reason}")

    def accept(self) -> None:
        """End the failure: ``retry`` succeeds from now on."""
        self._is_refusing = False

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Add rows; while failing, keep them and raise JournalUnwritable like a FileJournal."""
        if self.failure is not None:
            self._pending.extend(rows)
            raise self.failure.with_traceback(None)
        self.rows.extend(rows)

    def flush(self) -> None:
        """Do nothing: no rows are buffered. Raises JournalUnwritable."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def retry(self) -> bool:
        """Add the pending rows; return True if rows can be added (again)."""
        if self._is_refusing:
            return False
        self.failure = None
        self.rows += self._pending
        self._pending.clear()
        return True

    def to_bytes(self) -> bytes:
        """Return the rows as the contents of a FileJournal."""
        return msgspec.json.Encoder().encode_lines(self.rows)


def read_journal(path: Path) -> list[JournalRow]:
    """Return the complete rows of a journal and its rotated files. Damaged lines are skipped."""
    rows = []
    damaged = 0
    for line in whole_lines(path):
        row = _row(line)
        if row is None:
            damaged += 1
        else:
            rows.append(row)
    if damaged:
        _log.warning("%s: %d damaged lines are skipped", path, damaged)
    return rows


def _is_row(line: bytes) -> bool:
    return _row(line) is not None


def _row(line: bytes) -> JournalRow | None:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
