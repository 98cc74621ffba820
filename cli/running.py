"""Shared part of commands that run a private cluster in the foreground: a work directory, a log
for warnings of libraries, and a clean shutdown after a signal.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from klamm.cli.own_log import OwnLog
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.server.data_dir import OWN_LOG_FILE
from klamm.server.signals import ending_signals_handled


@contextlib.contextmanager
def own_log(folder: Path) -> Iterator[None]:
    """Send warnings of libraries to a file, so that they do not garble the command's output."""
    handler = OwnLog(folder / OWN_LOG_FILE)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Turn signals that end a process into a KeyboardInterrupt, so that everything is closed.

    Exits after the block even if code inside swallowed the exception: kazoo's ``_call`` treats any
    exception as a closed connection.
    """
    seen: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    try:
        with ending_signals_handled(end):
            yield
    finally:
        if seen:
            sys.exit(128 + seen[0])


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and the other ending signals set; the block then ends normally."""
    stop = threading.Event()
    with ending_signals_handled(lambda *_: stop.set()):
        yield stop


@contextlib.contextmanager
def work_folder(data_dir: Path | None, prefix: str) -> Iterator[Path]:
    """Yield ``data_dir``, or a temporary directory that is removed after the block.

    ``prefix``: the beginning of the temporary directory's name. Raises UsageError if ``data_dir``
    is not empty, EnvironmentProblem if it cannot be created.
    """
    if data_dir is None:
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)
        return
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        is_empty = not any(data_dir.iterdir())
    except OSError as error:
        raise EnvironmentProblem(
            f"--data-dir {data_dir} cannot be used: {error.strerror}", hint="choose another"
        ) from error
    if not is_empty:
        raise UsageError(
            f"--data-dir {data_dir} is not empty", hint="name a new directory, or omit --data-dir"
        )
    yield data_dir
