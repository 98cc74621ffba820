"""Code shared by commands that run a private cluster in the foreground.

Provides a work directory, a log for libraries' warnings, and a clean shutdown after a signal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from klamm.cluster.errors import EnvironmentProblem, Interrupted, UsageError
from klamm.interrupts import ending_signals_handled, temporary_folder

_RESENT_AFTER_S: Final = 0.01


@contextlib.contextmanager
def own_log(folder: Path) -> Iterator[logging.Handler]:
    """Context manager that sends warnings of libraries to klamm.log instead of the terminal."""
    from klamm.cli.own_log import OwnLog
    from klamm.server.data_dir import OWN_LOG_FILE

    handler = OwnLog(folder / OWN_LOG_FILE)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Context manager that turns a termination signal into KeyboardInterrupt in its body.

    The exception unwinds the body, so that all resources are closed. Python drops an exception that
    is raised in a finalizer or in a callback of a library; the signal is then sent again. After a
    signal, the process exits at the end of the context, even if the body swallowed the exception:
    kazoo's ``_call`` treats any exception as a closed connection.
    """
    seen: list[int] = []
    report, resent = sys.unraisablehook, contextlib.ExitStack()

    def end(number: int, _: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    def send_again(dropped: sys.UnraisableHookArgs) -> None:
        if not seen or not isinstance(dropped.exc_value, KeyboardInterrupt):
            report(dropped)
            return
        # Not from here: Python drops what this function raises, too.
        timer = threading.Timer(_RESENT_AFTER_S, os.kill, (os.getpid(), seen[-1]))
        resent.callback(timer.join)
        resent.callback(timer.cancel)
        timer.start()

    sys.unraisablehook = send_again
    try:
        with ending_signals_handled(end), resent:
            yield
    finally:
        sys.unraisablehook = report
        if seen:
            sys.exit(128 + seen[0])


@contextlib.contextmanager
def stopped_by_signals(when_interrupted: str) -> Iterator[threading.Event]:
    """Context manager that yields an event, which termination signals such as Ctrl-C set.

    The caller's code must stop when the event is set. After Ctrl-C, Interrupted is raised at the
    end of the context, with the message ``when_interrupted``.
    """
    stop = threading.Event()
    arrived = queue.SimpleQueue[int]()
    seen: list[int] = []

    def stop_after_signal() -> None:
        while number := arrived.get():
            seen.append(number)
            stop.set()

    # If the handler itself set the event, it would wait forever for a lock that the interrupted
    # ``stop.wait`` holds. ``SimpleQueue.put`` needs no lock.
    thread = threading.Thread(target=stop_after_signal, name="signals", daemon=True)
    thread.start()
    try:
        with ending_signals_handled(lambda number, _: arrived.put(number)):
            yield stop
    finally:
        arrived.put(0)
        thread.join()
    if signal.SIGINT in seen:
        raise Interrupted(when_interrupted)


@contextlib.contextmanager
def work_folder(data_dir: Path | None, prefix: str) -> Iterator[Path]:
    """Context manager that yields ``data_dir``, or a temporary directory that it removes at the
    end.

    ``prefix`` is the beginning of the temporary directory's name. Raises UsageError if ``data_dir``
    is not empty, and EnvironmentProblem if it cannot be created.
    """
    if data_dir is None:
        with temporary_folder(prefix) as folder:
            yield folder
        return
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        is_empty = not any(data_dir.iterdir())
    except OSError as error:
        from klamm.server.data_dir import why_not_made

        raise EnvironmentProblem(
            f"--data-dir {data_dir} cannot be used: {why_not_made(error)}",
            hint="choose another directory",
        ) from error
    if not is_empty:
        raise UsageError(
            f"--data-dir {data_dir} is not empty", hint="give a new directory, or omit --data-dir"
        )
    yield data_dir


def write_file(path: Path, content: str) -> None:
    """Write a file that the user has named. Raises EnvironmentProblem if that is not possible."""
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be written: {error.strerror}") from error
