"""A thread that ends with an exception ends the process: nothing continues half dead.

Of every thread, whoever started it: controllers' event threads, the brokers' hub, connections to
ZooKeeper, guards, and those that free a broker. What fails inside an event, a request or a broker
that starts is handled there, and no concern of this file. Mirrors the role of
kafka.utils.Exit and of FatalExitError in a broker's threads.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

from cluster.errors import KlammError

IN_FILE_ONLY: Final = "in_file_only"
"""Attribute of a log record that the terminal need not show: an error will say the same."""

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def threads_watched(on_failure: Callable[[KlammError], None]) -> Iterator[None]:
    """Inside, ``on_failure`` is called, on the thread itself, for each that an exception ends."""

    def hook(args: threading.ExceptHookArgs) -> None:
        name = "unknown" if args.thread is None else args.thread.name
        error = args.exc_value or args.exc_type()
        logger.error("thread %s ended", name, exc_info=error, extra={IN_FILE_ONLY: True})
        what = f"{type(error).__name__}: {error}"
        on_failure(
            KlammError(
                f"a thread of klamm, {name}, ended with {what}",
                hint="klamm.log in the data directory says where; klamm up goes on where it was",
            )
        )

    before, threading.excepthook = threading.excepthook, hook
    try:
        yield
    finally:
        threading.excepthook = before
