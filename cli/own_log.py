"""klamm's own log: warnings, and messages about resolved problems.

They are printed on the terminal and written to klamm.log. A full klamm.log is renamed to
klamm.log.1, and so on; the oldest file is deleted.
"""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from klamm.brokers.dynamic_config import FOR_ALL
from klamm.cluster.plain_text import harmless, harmless_line
from klamm.server.thread_failures import IN_FILE_ONLY

ONCE_FOR_ALL_S: Final = 30.0
FILE_BYTES: Final = 4 << 20
OLD_FILES: Final = 3


class OneLine(logging.Formatter):
    """Formats a warning for the terminal, without the traceback, which is written to klamm.log."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a warning as one line.

        For a warning that every broker may log, the line is the text about all brokers together,
        which the log record carries besides its own message.
        """
        for_all: str | None = getattr(record, FOR_ALL, None)
        if for_all is not None:
            message = f"{for_all} (klamm status lists it until it is resolved)"
        else:
            error = record.exc_info[1] if record.exc_info else None
            message = record.getMessage() + (f": {error!r}" if error is not None else "")
        return harmless_line(f"{record.levelname.lower()}: {message}")


class FileLines(logging.Formatter):
    """Formats a warning for klamm.log: an escaped line, then the escaped traceback, if any."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        return harmless_line(super().formatMessage(record))


class OnceForAll(logging.Filter):
    """Log filter that drops a warning if another broker logged the same warning within 30 s.

    It also drops log records that are meant only for klamm.log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, IN_FILE_ONLY, False):
            return False
        for_all: str | None = getattr(record, FOR_ALL, None)
        if for_all is None:
            return True
        oldest_s = record.created - ONCE_FOR_ALL_S
        self._said_s = {text: at for text, at in self._said_s.items() if at > oldest_s}
        is_first = for_all not in self._said_s
        self._said_s[for_all] = record.created
        return is_first


class OwnLog(RotatingFileHandler):
    """Log handler that writes klamm.log.

    If a write fails, a warning is printed on the terminal. Further failures print no warning until
    a write has succeeded.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            maxBytes=FILE_BYTES,
            backupCount=OLD_FILES,
            encoding="utf-8",
            errors="backslashreplace",
            delay=True,
        )
        self.setFormatter(FileLines())
        self._is_failing = False
        self._was_failing = False

    def emit(self, record: logging.LogRecord) -> None:
        self._was_failing, self._is_failing = self._is_failing, False
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Report that the file cannot be written; warnings still go to the terminal."""
        self._is_failing = True
        if not self._was_failing:
            error = sys.exc_info()[1]
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            print(f"warning: {self.baseFilename} cannot be written: {reason}", file=sys.stderr)


def log_to(path: Path) -> None:
    """Send warnings to the terminal and to a file, which is created by the first warning.

    Messages about resolved problems have the level INFO. Only klamm's own packages may log at this
    level; libraries log only warnings and errors.
    """
    terminal = logging.StreamHandler()
    terminal.setFormatter(OneLine())
    terminal.addFilter(OnceForAll())
    logging.basicConfig(level=logging.WARNING, handlers=[OwnLog(path), terminal])
    for package in ("server", "world"):
        logging.getLogger(f"klamm.{package}").setLevel(logging.INFO)
