"""Keeps klamm's own ZooKeeper alive: where its process has ended, it is started again.

It never touches a server that runs, and knows no cluster: sessions reconnect by themselves.
Mirrors nothing of Kafka, where an init system does this.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from cluster.errors import KlammError, ZooKeeperUnavailable
from zk.embedded import EmbeddedZooKeeper

ATTEMPTS: Final = 3
STEADY_S: Final = 30.0
"""A server that ran this long is worth all attempts again."""
_LOOK_INTERVAL_S: Final = 0.2
_RETRY_INTERVAL_S: Final = 1.0

logger = logging.getLogger(__name__)


class ZooKeeperGuard:
    """Watches a started server from a thread of its own, until ``close``.

    ``on_given_up`` is called once, on that thread, when ZooKeeper ended and could not be started
    again, or ended again and again.
    """

    def __init__(
        self, server: EmbeddedZooKeeper, on_given_up: Callable[[KlammError], None]
    ) -> None:
        self._server = server
        self._on_given_up = on_given_up
        self._attempts_left = ATTEMPTS
        self._started_s = time.monotonic()
        self._is_starting = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="zookeeper-guard")
        self._thread.start()

    def close(self) -> None:
        """Look no more; cut a start short that is under way. Closing the server is its owner's."""
        self._closed.set()
        while self._thread.is_alive():
            if self._is_starting:
                self._server.kill()
            self._thread.join(_LOOK_INTERVAL_S)

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_INTERVAL_S):
            if self._server.is_running:
                continue
            failure = self._restart()
            if failure is not None and not self._closed.is_set():
                self._on_given_up(failure)
                return

    def _restart(self) -> KlammError | None:
        """Start it again; why that cannot be done, None once it serves."""
        where, log = self._server.connect_string, self._server.log_path
        if time.monotonic() - self._started_s > STEADY_S:
            self._attempts_left = ATTEMPTS
        reason = f"it ended {ATTEMPTS + 1} times, each within {STEADY_S:g} s of its start"
        while self._attempts_left and not self._closed.is_set():
            self._attempts_left -= 1
            logger.warning("ZooKeeper at %s has ended: starting it again (log: %s)", where, log)
            self._is_starting = True
            try:
                self._server.start()
            except KlammError as error:
                reason = error.message
                self._closed.wait(_RETRY_INTERVAL_S)
                continue
            finally:
                self._is_starting = False
            self._started_s = time.monotonic()
            logger.warning("ZooKeeper at %s runs again: sessions reconnect", where)
            return None
        return ZooKeeperUnavailable(
            f"ZooKeeper at {where} has ended and does not come back: {reason}",
            hint=f"its log is {log}; klamm up on the same data directory goes on from its data",
        )
