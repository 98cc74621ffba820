"""Shows the progress of a replay command on standard error.

On a terminal, the current step is shown in a line that is updated. Elsewhere, a line is printed if
a step takes a long time. In both cases a line is printed for each finished step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import ProgressColumn, Task, TextColumn
from rich.text import Text

from klamm.replay.engines import SPARK, Engine


class Progress:
    """Reports the progress of a command to ``stream``. ``quiet`` suppresses all output.

    ``waiting`` is called for each step if ``stream`` is not a terminal. Its result is a context
    manager that can print a message if the step takes a long time.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        quiet: bool = False,
        waiting: Callable[[str], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._waiting = waiting or (lambda _: nullcontext())
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._tasks: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._begun_s = time.monotonic()
        self.elapsed_s: dict[str, float] = {}
        """Duration of each finished step in seconds, keyed by the step's title."""

    def began(self, engine: Engine) -> None:
        """Show the tasks of this query engine from now on. If it is Spark, print that it runs."""
        self._tasks = engine.tasks
        if engine.name == SPARK:
            self.note("Spark has started")

    def note(self, text: str) -> None:
        """Print a message with the seconds since this object was created."""
        self._say(text, time.monotonic() - self._begun_s)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Context manager that shows ``title`` while its body runs, then prints the duration."""
        begun_s = time.monotonic()
        columns = TextColumn("{task.description}"), _Tasks(self._tasks)
        console = Console(file=self._stream)
        is_hidden = self._quiet or not console.is_terminal
        with (
            self._waiting(title) if is_hidden else nullcontext(),
            Bar(
                *columns, console=console, transient=True, disable=is_hidden, refresh_per_second=2
            ) as bar,
        ):
            bar.add_task(title, total=None)
            yield
        self.elapsed_s[title] = time.monotonic() - begun_s
        self._say(title, self.elapsed_s[title])

    def _say(self, text: str, elapsed_s: float) -> None:
        # Written directly: rich's Console would print control characters in names unescaped.
        if not self._quiet:
            self._stream.write(f"{text}: {elapsed_s:.1f} s\n")
            self._stream.flush()


class _Tasks(ProgressColumn):
    """Column of the progress display, for example "3/8 tasks"."""

    def __init__(self, tasks: Callable[[], tuple[int, int]]) -> None:
        super().__init__()
        self._tasks = tasks

    def render(self, task: Task) -> Text:
        """Return the text of the column, which is empty if the number of tasks is unknown."""
        finished, total = self._tasks()
        return Text(f"{finished}/{total} tasks" if total else "")
