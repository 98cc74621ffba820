"""`klamm replay ingest --follow`: reads a growing journal into an event table.

Each batch of complete lines is written to a temporary directory, which is then renamed to the batch
number. The read position is saved after the rename. After a crash between the two, the same batch
is read again and replaces the first attempt.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.replay.engines import Engine
from klamm.replay.event_files import Folders, Tasks, write_names, write_tasks
from klamm.replay.event_schema import JOURNAL, SOURCES, code_of
from klamm.replay.event_table import DAMAGED, EVENTS, MANIFEST, NAMES, Manifest, is_table
from klamm.replay.full_disk import full_disk_errors
from klamm.replay.ingest import describe
from klamm.replay.locations import is_remote
from klamm.replay.sources.file_parts import compression_of
from klamm.replay.sources.journal import batches_of_log
from klamm.replay.sources.log_tail import LogPosition, beginning, last_line_end, parts_between
from klamm.replay.sources.registry import SourceFiles, find_logs

FOLLOWED: Final = "followed.json"
INTERVAL_S: Final = 0.2
_NEXT: Final = "next"
_NAMED: Final = "named"


class _Followed(msgspec.Struct, frozen=True):
    """The content of followed.json: journal path, number of batches so far, read position."""

    journal: str
    batches: int = 0
    place: LogPosition | None = None


def open_followed(path: Path, folder: Path) -> SourceFiles:
    """Create a directory for a table that follows a journal, or resume with an existing one.

    Returns the journal as a SourceFiles. Raises UsageError if ``path`` is not an uncompressed
    journal, or if ``folder`` exists and was not created by following this journal.
    """
    for at in (path, folder):
        if is_remote(at):
            raise UsageError(f"--follow reads and writes local files only, not {at}")
    (found, *others) = find_logs([path])
    if path.is_dir() or others or found.source.name != JOURNAL:
        raise UsageError(f"--follow takes one journal; {path} is not a journal")
    # ``found`` also lists the journal's rotated files, which ``log_tail`` finds by itself.
    journal = path.absolute()
    summary = msgspec.structs.replace(found.summaries[-1], path=str(journal))
    found = found._replace(paths=[journal], summaries=[summary])
    with path.open("rb") as file:
        if compression_of(file.read(4)) is not None:
            raise UsageError(f"{path} is compressed and cannot be followed")
    if not (folder / FOLLOWED).exists():
        if folder.exists():
            raise UsageError(f"{folder} already exists and does not follow {path}")
        folder.mkdir(parents=True)
        _save(folder, _Followed(str(journal)))
    elif (other := _load(folder).journal) != str(journal):
        raise UsageError(f"{folder} follows {other}, not {path}")
    return found


def check_followed(folder: Path) -> None:
    """Raise UsageError if a directory holds a table that --follow has not completed yet."""
    if (folder / FOLLOWED).is_file() and not is_table(folder):
        journal = _load(folder).journal
        raise UsageError(
            f"{folder} is incomplete until the command that follows {journal} ends",
            hint=f"if it was killed, resume: klamm replay ingest {journal} --out {folder} --follow",
        )


def _load(folder: Path) -> _Followed:
    try:
        return msgspec.json.decode((folder / FOLLOWED).read_bytes(), type=_Followed)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{folder / FOLLOWED} is damaged, or was written by an older klamm",
            hint="follow the journal into another directory",
        ) from error


def _save(folder: Path, followed: _Followed) -> None:
    partial = folder / f"{FOLLOWED}.partial"
    partial.write_bytes(msgspec.json.encode(followed))
    partial.replace(folder / FOLLOWED)


def follow(
    engine: Engine,
    found: SourceFiles,
    folder: Path,
    stop: threading.Event,
    *,
    idle_timeout_s: float | None = None,
    on_batch: Callable[[int], None] = lambda rows: None,
) -> Manifest:
    """Read the lines of a growing journal into a table until ``stop`` is set.

    ``idle_timeout_s``: also stop after this many seconds without new lines. ``on_batch`` is called
    after each batch with its number of rows. The directory has no manifest until this function
    returns, so that it cannot be mistaken for a complete table. Raises
    EnvironmentProblem if the journal was truncated or replaced, after completing the table with the
    rows read so far.
    """
    begun_s = last_s = time.monotonic()
    with full_disk_errors(folder):
        try:
            while True:
                count = _read_batch(engine, folder)
                if count is not None:
                    last_s = time.monotonic()
                    on_batch(count)
                elif idle_timeout_s is not None and time.monotonic() - last_s > idle_timeout_s:
                    break
                if stop.wait(INTERVAL_S):
                    break
        except EnvironmentProblem as error:
            raise _ended(engine, found, folder, error) from error
        return _finish(engine, found, folder, time.monotonic() - begun_s)


def _read_batch(engine: Engine, folder: Path) -> int | None:
    """Read and store the new complete lines.

    Returns the number of rows stored, or None if the journal has no new lines.
    """
    followed = _load(folder)
    start = followed.place or beginning(Path(followed.journal))
    end = last_line_end(start)
    parts = parts_between(start, end)
    if parts:
        stored = _store(engine, folder, Tasks(parts, batches_of_log, 0), followed.batches)
        _save(folder, _Followed(followed.journal, followed.batches + 1, end))
        return stored
    if end != start:
        _save(folder, msgspec.structs.replace(followed, place=end))
    return None


def _ended(
    engine: Engine, found: SourceFiles, folder: Path, error: EnvironmentProblem
) -> EnvironmentProblem:
    """Complete the table with the rows stored so far, because the journal cannot be followed.

    Returns ``error`` with a hint that names the table.
    """
    if _events(folder).exists():
        if not is_table(folder):
            _finish(engine, found, folder, elapsed_s=0.0)
        hint = f"{folder} has the rows read so far; follow a new journal into another directory"
        error.hint = error.hint or hint
    return error


def _store(engine: Engine, folder: Path, tasks: Tasks, number: int) -> int:
    """Store a batch in directories named by its number, replacing any earlier attempt."""
    following = folder / _NEXT
    shutil.rmtree(following, ignore_errors=True)
    folders = Folders(JOURNAL, following / EVENTS, following / _NAMED, following / DAMAGED)
    stored = write_tasks(engine, tasks, folders)
    (folder / MANIFEST).unlink(missing_ok=True)
    for name in (DAMAGED, _NAMED):
        _put(following / name, folder / name / f"batch={number}")
    _put(following / EVENTS, _events(folder) / f"batch={number}")
    return stored


def _put(made: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(made, place)


def _events(folder: Path) -> Path:
    return folder / EVENTS / f"source={code_of(JOURNAL, SOURCES)}"


def _finish(engine: Engine, found: SourceFiles, folder: Path, elapsed_s: float) -> Manifest:
    """Complete a table: write the names and, last, the manifest."""
    journal = found.paths[0]
    if not _events(folder).exists():
        raise EnvironmentProblem(
            f"no lines were read from {journal}",
            hint="run the same command again once the journal has lines",
        )
    for name in (_NEXT, NAMES):
        shutil.rmtree(folder / name, ignore_errors=True)
    write_names(engine, folder / _NAMED, folder / NAMES)
    (summary,) = found.summaries
    if journal.exists():
        summary = msgspec.structs.replace(summary, size=journal.stat().st_size)
    manifest = describe(engine, folder, [(found._replace(summaries=[summary]), elapsed_s, None)])
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest
