"""What commands share that run a cluster of their own in the foreground: a directory to work in,
a log for what libraries say, and an end that closes everything whatever signal asks for it.
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
    """What libraries complain of goes into a file, as it would tear the output apart."""
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
    """What ends a process ends the block instead, as Ctrl-C does, so that everything is closed.

    Nothing that catches the exception in between can keep the process: kazoo's ``_call`` takes any
    exception for a closed connection.
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
    """An event that Ctrl-C and what ends a process set, for a block that ends well when it is."""
    stop = threading.Event()
    with ending_signals_handled(lambda *_: stop.set()):
        yield stop


@contextlib.contextmanager
def work_folder(data_dir: Path | None, prefix: str) -> Iterator[Path]:
    """The directory to work in; a temporary one, named after ``prefix``, is removed at the end.

    Raises UsageError if ``data_dir`` holds something, EnvironmentProblem if it cannot be made.
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
            f"--data-dir {data_dir} is not empty", hint="name a new directory, or leave it out"
        )
    yield data_dir
