"""Follow a growing journal into an event table (`klamm replay ingest --follow`), resumably.

Spark's checkpoint stores the read position. Each batch is written to a temporary directory and
renamed to its batch number, so that a batch repeated after a crash replaces the first attempt.
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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError
from klamm.replay.event_files import Folders, write_files, write_names
from klamm.replay.event_schema import JOURNAL, SOURCES, code_of
from klamm.replay.event_table import DAMAGED, EVENTS, MANIFEST, NAMES, Manifest, is_table
from klamm.replay.ingest import describe
from klamm.replay.sources.file_parts import compression_of
from klamm.replay.sources.follow import FORMAT, FollowedJournal
from klamm.replay.sources.registry import SourceFiles, find_files
from klamm.replay.spark_errors import as_klamm_error, one_line_errors

CHECKPOINT: Final = "checkpoint"
FOLLOWED: Final = "followed.json"
INTERVAL_S: Final = 1.0
_NEXT: Final = "next"
_NAMED: Final = "named"
_POLL_S: Final = 0.2
_WAITING: Final = "Waiting for"
"""How Spark's status message begins between two polls for data."""


def open_followed(path: Path, folder: Path) -> SourceFiles:
    """Create the directory of a table that follows a journal, or open an existing one to resume.

    Raises UsageError if ``path`` is not an uncompressed journal, or if ``folder`` exists and does
    not follow it.
    """
    (found, *others) = find_files([path])
    if path.is_dir() or others or found.source.name != JOURNAL:
        raise UsageError(f"--follow takes one journal; {path} is not a journal")
    # Following finds the journal's rotated files, too.
    journal = path.absolute()
    summary = msgspec.structs.replace(found.summaries[-1], path=str(journal))
    found = found._replace(paths=[journal], summaries=[summary])
    with path.open("rb") as file:
        if compression_of(file.read(4)) is not None:
            raise UsageError(f"{path} is compressed and cannot be followed")
    followed = folder / FOLLOWED
    if not followed.exists():
        if folder.exists():
            raise UsageError(f"{folder} already exists and does not follow {path}")
        folder.mkdir(parents=True)
        followed.write_bytes(msgspec.json.encode(str(path.absolute())))
    elif (other := msgspec.json.decode(followed.read_bytes(), type=str)) != str(path.absolute()):
        raise UsageError(f"{folder} follows {other}, not {path}")
    return found


def check_followed(folder: Path) -> None:
    """Check that a directory is not an incomplete table of --follow. Raises UsageError."""
    if (folder / FOLLOWED).is_file() and not is_table(folder):
        journal = msgspec.json.decode((folder / FOLLOWED).read_bytes(), type=str)
        raise UsageError(
            f"{folder} follows {journal} and is incomplete until that command ends",
            hint=f"if it was killed, resume: klamm replay ingest {journal} --out {folder} --follow",
        )


def follow(
    spark: SparkSession,
    found: SourceFiles,
    folder: Path,
    stop: threading.Event,
    *,
    idle_timeout_s: float | None = None,
    on_batch: Callable[[int, float], None] = lambda rows, elapsed_s: None,
) -> Manifest:
    """Read a journal's present and future lines until ``stop`` is set or the journal is idle.

    ``idle_timeout_s``: stop after this many seconds without new lines. ``on_batch`` is called with
    the number of rows and the seconds of each batch. While batches arrive the directory has no
    manifest, so that it cannot be mistaken for a complete table. Raises EnvironmentProblem if the
    journal was truncated or replaced; the table is then complete with the rows read before.
    """
    begun_s = time.monotonic()
    batches = _Batches(folder, on_batch)
    with one_line_errors(folder):
        spark.dataSource.register(FollowedJournal)
        query = (
            spark.readStream.format(FORMAT)
            .load(str(found.paths[0]))
            .writeStream.foreachBatch(batches.store)
            .option("checkpointLocation", str((folder / CHECKPOINT).absolute()))
            .trigger(processingTime=f"{INTERVAL_S} seconds")
            .start()
        )
        idleness = _Idleness(query, batches)
        try:
            while query.isActive and not stop.wait(_POLL_S):
                if idle_timeout_s is not None and idleness.so_far_s() > idle_timeout_s:
                    break
        finally:
            query.stop()
        if batches.error is not None:
            raise batches.error
        if (error := query.exception()) is not None:
            raise _ended(spark, found, folder, as_klamm_error(str(error), folder)) from error
        return _finish(spark, found, folder, time.monotonic() - begun_s)


def _ended(spark: SparkSession, found: SourceFiles, folder: Path, error: KlammError) -> KlammError:
    """Complete the table with the rows stored so far, and return the error with a hint."""
    if _events(folder).exists():
        if not is_table(folder):
            _finish(spark, found, folder, elapsed_s=0.0)
        hint = f"{folder} keeps the rows read before; follow a new journal into another directory"
        error.hint = error.hint or hint
    return error


class _Idleness:
    """Measures how long a streaming query has been idle.

    Starting the query and processing a batch do not count as idle, however long they take.
    """

    def __init__(self, query: StreamingQuery, batches: _Batches) -> None:
        self._query = query
        self._batches = batches
        self._since_s = time.monotonic()
        self._has_looked = False

    def so_far_s(self) -> float:
        """Return the seconds since the query was last seen busy; call it periodically."""
        status = self._query.status
        self._has_looked |= status["message"].startswith(_WAITING)
        if not self._has_looked or status["isDataAvailable"]:
            self._since_s = time.monotonic()
            return 0.0
        return time.monotonic() - max(self._since_s, self._batches.last_s)


class _Batches:
    """Stores the batches of a streaming query in the table's directory."""

    def __init__(self, folder: Path, on_batch: Callable[[int, float], None]) -> None:
        self._folder = folder
        self._on_batch = on_batch
        self.last_s = time.monotonic()
        self.error: OSError | None = None

    def store(self, rows: DataFrame, number: int) -> None:
        """Store a batch in directories named by its number, replacing any earlier attempt."""
        begun_s = time.monotonic()
        try:
            count = self._store(rows, number)
        except OSError as error:
            # Keep the error: Spark would report it as a failure of Python code.
            self.error = error
            raise
        self.last_s = time.monotonic()
        self._on_batch(count, self.last_s - begun_s)

    def _store(self, rows: DataFrame, number: int) -> int:
        following = self._folder / _NEXT
        shutil.rmtree(following, ignore_errors=True)
        folders = Folders(JOURNAL, following / EVENTS, following / _NAMED, following / DAMAGED)
        stored = write_files(rows.sparkSession, rows, folders)
        (self._folder / MANIFEST).unlink(missing_ok=True)
        for name in (DAMAGED, _NAMED):
            _put(following / name, self._folder / name / f"batch={number}")
        _put(following / EVENTS, _events(self._folder) / f"batch={number}")
        return stored.rows


def _put(made: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(made, place)


def _events(folder: Path) -> Path:
    return folder / EVENTS / f"source={code_of(JOURNAL, SOURCES)}"


def _finish(spark: SparkSession, found: SourceFiles, folder: Path, elapsed_s: float) -> Manifest:
    """Complete a table: write the names and, last, the manifest."""
    journal = found.paths[0]
    if not _events(folder).exists():
        raise EnvironmentProblem(
            f"no lines were read from {journal}",
            hint="run the same command again once the journal has lines",
        )
    for name in (_NEXT, NAMES):
        shutil.rmtree(folder / name, ignore_errors=True)
    write_names(spark, folder / _NAMED, folder / NAMES)
    (summary,) = found.summaries
    if journal.exists():
        summary = msgspec.structs.replace(summary, size=journal.stat().st_size)
    manifest = describe(spark, folder, [(found._replace(summaries=[summary]), elapsed_s, None)])
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest
