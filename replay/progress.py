"""Progress of Spark jobs on standard error, from Spark's status tracker.

On a terminal one line that is overwritten; in any case a line for each finished step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from pyspark import StatusTracker
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import ProgressColumn, Task, TextColumn
from rich.text import Text


class Progress:
    """Reports the steps of one command to ``stream``; ``quiet`` suppresses all output."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._begun_s = time.monotonic()
        self.elapsed_s: dict[str, float] = {}
        """Duration of each finished step."""

    def note(self, text: str) -> None:
        """Report a text with the seconds since this object was created."""
        self._say(text, time.monotonic() - self._begun_s)

    @contextmanager
    def step(self, spark: SparkSession, title: str) -> Iterator[None]:
        """Show the progress of the block's Spark jobs under ``title``; report its duration."""
        begun_s = time.monotonic()
        columns = TextColumn("{task.description}"), _Tasks(spark.sparkContext.statusTracker())
        console = Console(file=self._stream)
        is_hidden = self._quiet or not console.is_terminal
        with Bar(
            *columns, console=console, transient=True, disable=is_hidden, refresh_per_second=2
        ) as bar:
            bar.add_task(title, total=None)
            yield
        self.elapsed_s[title] = time.monotonic() - begun_s
        self._say(title, self.elapsed_s[title])

    def _say(self, text: str, elapsed_s: float) -> None:
        # A console would not escape what names contain.
        if not self._quiet:
            self._stream.write(f"{text}: {elapsed_s:.1f} s\n")
            self._stream.flush()


class _Tasks(ProgressColumn):
    """Column with the finished and total tasks of the running stages."""

    def __init__(self, tracker: StatusTracker) -> None:
        super().__init__()
        self._tracker = tracker

    def render(self, task: Task) -> Text:
        """Return the numbers; empty while no stage is running."""
        stages = [self._tracker.getStageInfo(n) for n in self._tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        finished = sum(stage.numCompletedTasks for stage in known)
        total = sum(stage.numTasks for stage in known)
        return Text(f"{finished}/{total} tasks" if total else "")
