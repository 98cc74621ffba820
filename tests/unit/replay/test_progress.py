"""replay/progress.py: what is printed of the steps of a command."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import Task

from klamm.replay.engines import Engine
from klamm.replay.progress import Progress, _Tasks


def test_finished_steps_are_printed_with_their_time_and_waits_are_announced() -> None:
    waited: list[str] = []

    @contextmanager
    def waiting(title: str) -> Iterator[None]:
        waited.append(f"{title} begins")
        yield
        waited.append(f"{title} ends")

    out = io.StringIO()
    progress = Progress(out, waiting=waiting)
    with progress.step("read files"):
        assert waited == ["read files begins"]
        assert out.getvalue() == ""
    progress.note("a note")
    assert waited == ["read files begins", "read files ends"]
    assert re.fullmatch(r"read files: 0\.\d s\na note: 0\.\d s\n", out.getvalue())
    assert list(progress.elapsed_s) == ["read files"]
    quiet = Progress(out, quiet=True)
    before = out.getvalue()
    with quiet.step("silent"):
        pass
    assert (out.getvalue(), list(quiet.elapsed_s)) == (before, ["silent"])


def test_the_start_of_an_engine_is_announced_for_spark_only(duckdb: Engine) -> None:
    out = io.StringIO()
    Progress(out).began(duckdb)
    assert out.getvalue() == ""


@pytest.mark.parametrize(("tasks", "text"), [((3, 8), "3/8 tasks"), ((0, 0), "")])
def test_the_tasks_of_an_engine_are_counted(tasks: tuple[int, int], text: str) -> None:
    console = Console(file=io.StringIO())
    with Bar(console=console) as bar:
        number = bar.add_task("x", total=None)
        task: Task = bar.tasks[number]
        assert str(_Tasks(lambda: tasks).render(task)) == text
