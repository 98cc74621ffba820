"""The files state-change.log and controller.log of every controller of a run.

Opens and closes the files; controller/state_change_log.py decides what is written to them.
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
from klamm.world.journal.archive import Archive
from klamm.world.journal.line_file import LineFile

STATE_CHANGE_LOG: Final = "state-change.log"
CONTROLLER_LOG: Final = "controller.log"
MAX_PENDING_BYTES: Final = 1 << 20
_log = logging.getLogger(__name__)


class KafkaLogs:
    """The two log files of each broker, in ``folder``/broker-N.

    ``level`` is TRACE or INFO, and applies to both files, like the level in Kafka's log4j settings.
    Every line is passed to the operating system at once. Writing never raises: while a file cannot
    be written, ``failure`` is the reason, and the lines are kept until ``retry``. ``archive``
    decides when the files are rotated.
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
        """Why one of the files cannot be written now, or None if all can be written."""
        failures = (file.failure for files in list(self._files.values()) for file in files)
        return next((failure for failure in failures if failure is not None), None)

    def retry(self) -> bool:
        """Try to write the pending lines. Return True if all files can be written (again)."""
        return all([file.retry() for files in list(self._files.values()) for file in files])

    def open(self, broker_id: int) -> StateChangeLog:
        """Open the logs of a broker's controller.

        After a restart of the broker, new lines are appended to the same files. Raises
        JournalUnwritable if a file cannot be opened.
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
        """Close every file; idempotent. Controllers must not write to the logs afterwards."""
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
    """Writes to one log file. If a write fails, lines are kept, and KafkaLogs.failure is set."""

    def __init__(self, file: LineFile) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write text, which must end with a newline."""
        with contextlib.suppress(JournalUnwritable):
            self._file.append(text.encode(errors="backslashreplace"))
            self._file.flush()


def _missing(path: Path, lost: int) -> bytes:
    _log.error("%s: %d lines were lost because the disk failed", path, lost)
    return b""
