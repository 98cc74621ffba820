"""The files state-change.log and controller.log of every controller of a run.

Opens and closes files; controller/state_change_log.py decides what is written.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Final

from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.protocols import Clock
from klamm.controller.state_change_log import StateChangeLog
from klamm.runtime.archive import Archive
from klamm.runtime.line_file import LineFile

STATE_CHANGE_LOG: Final = "state-change.log"
CONTROLLER_LOG: Final = "controller.log"
MAX_PENDING_BYTES: Final = 1 << 20
_log = logging.getLogger(__name__)


class KafkaLogs:
    """Appends to the two logs of each broker under ``folder``/broker-N, until ``close``.

    ``level``: TRACE or INFO, as Kafka's log4j setting of both. Every write is handed to the
    operating system at once. Writing never raises: while a file cannot be written, ``failure`` is
    the reason, and its lines are kept until ``retry``. ``archive`` decides when files are rotated.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        level: str,
        *,
        archive: Archive | None = None,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        self._folder = folder
        self._archive = archive
        self._disk = disk
        self._clock = clock
        self._is_trace = level == "TRACE"
        self._files: dict[int, tuple[LineFile, LineFile]] = {}
        self._stack = contextlib.ExitStack()

    @property
    def failure(self) -> JournalUnwritable | None:
        """The reason why one of the files cannot be written now; None if all can."""
        failures = (file.failure for files in list(self._files.values()) for file in files)
        return next((failure for failure in failures if failure is not None), None)

    def retry(self) -> bool:
        """Write the pending lines; return True if all files can be written (again)."""
        return all([file.retry() for files in list(self._files.values()) for file in files])

    def open(self, broker_id: int) -> StateChangeLog:
        """Return the logs of a broker's controller. A restarted broker continues them.

        Raises JournalUnwritable if one cannot be opened.
        """
        files = self._files.get(broker_id)
        if files is None:
            directory = self._folder / f"broker-{broker_id}"
            try:
                self._disk.make_dirs(directory)
            except OSError as error:
                raise JournalUnwritable(f"cannot create {directory}: {error.strerror}") from error
            files = (
                self._open_file(directory / STATE_CHANGE_LOG),
                self._open_file(directory / CONTROLLER_LOG),
            )
            self._files[broker_id] = files
        state_change, controller = files
        return StateChangeLog(
            broker_id,
            self._clock,
            state_change=_Lines(state_change),
            controller=_Lines(controller),
            is_trace=self._is_trace,
        )

    def close(self) -> None:
        """Close every file; controllers must not write afterwards. Idempotent."""
        self._stack.close()

    def _open_file(self, path: Path) -> LineFile:
        file = LineFile(
            path,
            lost_line=lambda lost: _missing(path, lost),
            max_pending_bytes=MAX_PENDING_BYTES,
            archive=self._archive,
            disk=self._disk,
        )
        self._stack.callback(file.close)
        return file


class _Lines:
    """The sink of one log. On a write failure lines are kept, and KafkaLogs.failure is set."""

    def __init__(self, file: LineFile) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write text that ends with a newline."""
        with contextlib.suppress(JournalUnwritable):
            self._file.append(text.encode(errors="backslashreplace"))
            self._file.flush()


def _missing(path: Path, lost: int) -> bytes:
    _log.error("%s: %d lines were lost because the disk failed", path, lost)
    return b""
