"""Ends the process if one of its threads ends with an exception.

Covers every thread: controllers' event threads, the brokers' thread, connections to ZooKeeper, the
ZooKeeper guard and monitor, and threads that clean up after a failed broker. A failure inside an
event, a request or a broker start is handled where it occurs and does not end a thread. Mirrors the
role of kafka.utils.Exit and of FatalExitError in a broker's threads.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

from klamm.cluster.errors import KlammError

IN_FILE_ONLY: Final = "in_file_only"
"""Attribute of a log record that is written only to klamm.log.

The terminal shows the error itself instead.
"""

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def threads_watched(on_failure: Callable[[KlammError], None]) -> Iterator[None]:
    """Context manager that calls ``on_failure`` on each thread that an exception ends."""

    def hook(args: threading.ExceptHookArgs) -> None:
        name = "unknown" if args.thread is None else args.thread.name
        error = args.exc_value or args.exc_type()
        logger.error("thread %s ended", name, exc_info=error, extra={IN_FILE_ONLY: True})
        what = f"{type(error).__name__}: {error}"
        on_failure(
            KlammError(
                f"klamm thread {name} ended with {what}",
                hint="klamm.log in the data directory has the traceback; run klamm up again to "
                "continue the cluster",
            )
        )

    before, threading.excepthook = threading.excepthook, hook
    try:
        yield
    finally:
        threading.excepthook = before
