"""What Spark is doing right now, on standard error: the stages of its own status tracker.

A line that is overwritten on a terminal, else a line for each step that is done.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from pyspark import StatusTracker
from pyspark.sql import SparkSession

_INTERVAL_S: Final = 0.5
_CLEAR_LINE: Final = "\r\x1b[K"


class Progress:
    """Tells of the steps of one command. ``quiet``: says nothing at all."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._begun_s = time.monotonic()
        self.elapsed_s: dict[str, float] = {}
        """Of the steps that are done."""

    def note(self, text: str) -> None:
        """Something is done since this was made."""
        self._write(f"{text}: {time.monotonic() - self._begun_s:.1f} s\n")

    @contextmanager
    def step(self, spark: SparkSession, title: str) -> Iterator[None]:
        """The Spark jobs of the block are what ``title`` says."""
        begun_s = time.monotonic()
        done = threading.Event()
        watcher = None
        if self._stream.isatty() and not self._quiet:
            tracker = spark.sparkContext.statusTracker()
            watcher = threading.Thread(
                target=self._watch, args=(tracker, title, done), name="progress", daemon=True
            )
            watcher.start()
        try:
            yield
        finally:
            done.set()
            if watcher is not None:
                watcher.join()
        self.elapsed_s[title] = time.monotonic() - begun_s
        self._write(f"{title}: {self.elapsed_s[title]:.1f} s\n")

    def _watch(self, tracker: StatusTracker, title: str, done: threading.Event) -> None:
        while not done.wait(_INTERVAL_S):
            finished, tasks = _tasks(tracker)
            share = f" {finished}/{tasks} tasks" if tasks else ""
            self._write(f"{_CLEAR_LINE}{title}{share}")
        self._write(_CLEAR_LINE)

    def _write(self, text: str) -> None:
        if not self._quiet:
            self._stream.write(text)
            self._stream.flush()


def _tasks(tracker: StatusTracker) -> tuple[int, int]:
    """How many tasks of the stages that run now are done, and how many there are."""
    stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
