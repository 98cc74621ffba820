"""Lists all kinds of logs (``SOURCES``), and determines the kind of each file.

The kind follows from a file's name and first bytes. Files that begin alike are read completely, to
reject a file that is a copy of another.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.cluster.rotated_names import COMPRESSED, UNFINISHED, parse_rotated, rotated_names
from klamm.replay.event_table import FileSummary
from klamm.replay.sources import LogSource, journal, kafka_logs, zookeeper
from klamm.replay.sources.file_parts import decompressed_head, have_equal_contents

SOURCES: Final[tuple[LogSource, ...]] = (
    journal.SOURCE,
    kafka_logs.STATE_CHANGES,
    kafka_logs.CONTROLLER,
    zookeeper.SOURCE,
)
HEAD_BYTES: Final = 64 << 10
_BEGINNING_BYTES: Final = 4 << 10
_KNOWN: Final = ", ".join(source.name for source in SOURCES)
_PATHS: Final = "give journals, logs or directories of logs"


_Log = tuple[Path, LogSource, FileSummary, bytes]
"""A log file, with its first bytes after decompression, to find copies."""


class SourceFiles(NamedTuple):
    """The files of one kind of log, in the order in which they were given or found."""

    source: LogSource
    paths: list[Path]
    summaries: list[FileSummary]

    @property
    def size(self) -> int:
        """Total size of the files in bytes."""
        return sum(summary.size for summary in self.summaries)


def find_logs(paths: Sequence[Path]) -> list[SourceFiles]:
    """Find all logs at or below some paths, and group them by kind.

    Includes the rotated files of each log. Directories are searched recursively; files in them that
    are not logs are ignored. Raises UsageError for a path that does not exist, a file that is empty
    or not a log, a directory without logs, and a file that is given twice.
    """
    if not paths:
        raise UsageError("no files to read", hint=_PATHS)
    found: dict[str, SourceFiles] = {}
    seen: dict[str | bytes, list[Path]] = {}
    for path in _with_rotated(paths):
        for file, source, summary, begins in _logs_under(path):
            # Logs of two ZooKeeper servers may be equal: their transactions are merged.
            alike = seen.setdefault(str(file) if source.unites_copies else begins, [])
            for first in alike:
                if first == file or have_equal_contents(first, file):
                    words = "is given twice" if first == file else f"is a copy of {first}"
                    raise UsageError(f"{file} {words}", hint="its events would count twice")
            alike.append(file)
            files = found.setdefault(source.name, SourceFiles(source, [], []))
            files.paths.append(file)
            files.summaries.append(summary)
    return [found[source.name] for source in SOURCES if source.name in found]


def _with_rotated(paths: Sequence[Path]) -> Iterator[Path]:
    """Insert the rotated files of each log before its path, unless they are in ``paths``."""
    given = {path.absolute() for path in paths}
    for path in paths:
        if path.is_file():
            names = rotated_names(path.name, [at.name for at in path.absolute().parent.iterdir()])
            rotated = [path.with_name(name.name) for name in names]
            yield from (other for other in rotated if other.absolute() not in given)
            if rotated and not path.stat().st_size:
                continue  # rotated a moment ago
        yield path


def _logs_under(path: Path) -> Iterator[_Log]:
    if path.is_dir():
        logs = [log for file in _files(path) if (log := _recognized(file)) is not None]
        if not logs:
            raise UsageError(f"no logs found in {path}", hint=f"known kinds of logs: {_KNOWN}")
        yield from logs
        return
    if not path.exists():
        raise UsageError(f"{path} does not exist", hint=_PATHS)
    if not path.is_file():
        raise UsageError(f"{path} is neither a file nor a directory")
    if path.stat().st_size == 0:
        raise UsageError(f"{path} is empty")
    log = _recognized(path)
    if log is None:
        raise UsageError(
            f"{path} is not a log that klamm knows", hint=f"known kinds of logs: {_KNOWN}"
        )
    yield log


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below a directory.

    Leaves out incomplete compressed files, and rotated files that also exist in compressed form.
    """
    found = sorted(folder.iterdir(), key=lambda path: path.name)
    finished = {path.name for path in found}
    for path in found:
        is_replaced = parse_rotated(path.name) and f"{path.name}{COMPRESSED}" in finished
        if path.is_file() and not path.name.endswith(UNFINISHED) and not is_replaced:
            yield path
    for path in found:
        if path.is_dir() and not path.is_symlink():
            yield from _files(path)


def _recognized(path: Path) -> _Log | None:
    with path.open("rb") as file:
        try:
            head = file.read(HEAD_BYTES)
            size = file.seek(0, os.SEEK_END)
        except OSError as error:
            raise EnvironmentProblem(f"{path} cannot be read: {error.strerror}") from error
    if not size:
        return None
    path = path.absolute()
    summary = FileSummary(str(path), size, hashlib.sha256(head).hexdigest())
    of_it = (source for source in SOURCES if source.recognizes(path, head))
    source = next(of_it, None)
    begins = decompressed_head(head)[:_BEGINNING_BYTES]
    return None if source is None else (path, source, summary, begins)
