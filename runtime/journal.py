"""Implementations of Journal: a file of JSON lines, and rows kept in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cluster.journal import JournalRow


class FileJournal:
    """``journal.jsonl``: one JSON object a line, written in the order rows are appended.

    Several controllers of one process share it. Raises OSError when the disk refuses a write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=1 << 20)
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Add rows; they may stay in a buffer until ``flush``."""
        data = self._encoder.encode_lines(rows)
        with self._lock:
            self._file.write(data)

    def flush(self) -> None:
        """Hand the rows to the operating system."""
        with self._lock:
            if not self._file.closed:
                self._file.flush()

    def close(self) -> None:
        """Flush and close; idempotent."""
        with self._lock:
            self._file.close()


class MemoryJournal:
    """Rows in a list: what a simulated world writes and a test reads."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Add rows."""
        self.rows.extend(rows)

    def flush(self) -> None:
        """Nothing is buffered."""

    def to_bytes(self) -> bytes:
        """What a FileJournal would hold."""
        return msgspec.json.Encoder().encode_lines(self.rows)


def read_journal(path: Path) -> list[JournalRow]:
    """The complete rows of a journal file; a last line without its newline is left out."""
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1]
    return msgspec.json.Decoder(JournalRow).decode_lines(complete)
