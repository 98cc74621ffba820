"""Guard of the embedded ZooKeeper servers: restarts them, and kills or pauses them on request.

A server that has ended or hangs is restarted, unless an operator killed or paused it (klamm zk
kill, klamm zk pause). The cluster's sessions reconnect automatically. Kafka has no equivalent; an
init system usually restarts ZooKeeper.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from klamm.cluster.errors import KlammError, ZooKeeperUnavailable
from klamm.cluster.status import ZooKeeperServerState
from klamm.server.states import ZooKeeperServerChange, ZooKeeperServers
from klamm.zk.ensemble import NO_ANSWER, EmbeddedEnsemble, ServerState

ATTEMPTS: Final = 3
STEADY_S: Final = 30.0
"""After a server has run this long, all restart attempts are available again."""
HANG_S: Final = 10.0
"""A running server that does not respond for this long is killed and restarted."""
_LOOK_INTERVAL_S: Final = 0.2
_ASK_INTERVAL_S: Final = 1.0
_RETRY_INTERVAL_S: Final = 1.0

logger = logging.getLogger(__name__)


class _Watched:
    """State of one watched server: restart attempts left, and time of the last response."""

    def __init__(self) -> None:
        self.attempts_left = ATTEMPTS
        self.started_s = self.answered_s = time.monotonic()
        self.is_given_up = False


class ZooKeeperGuard:
    """Watches the embedded servers on a separate thread until ``close``.

    ``states`` are the last known states of the servers. If servers cannot be restarted or keep
    ending, and the others are too few for a quorum, ``on_given_up`` is called once on that thread.
    """

    def __init__(
        self,
        ensemble: EmbeddedEnsemble,
        on_given_up: Callable[[KlammError], None],
        hang_s: float = HANG_S,
    ) -> None:
        self._ensemble = ensemble
        self._on_given_up = on_given_up
        self._hang_s = hang_s
        self._watched = {server_id: _Watched() for server_id in ensemble.servers}
        self._asked_s = 0.0
        self.states: Sequence[ServerState] = ensemble.states()
        self._starting: int | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="zookeeper-guard")
        self._thread.start()

    def close(self) -> None:
        """Stop watching, and abort a server start in progress.

        The servers keep running; the caller stops them.
        """
        self._closed.set()
        while self._thread.is_alive():
            if (server_id := self._starting) is not None:
                self._ensemble.servers[server_id].kill()
            self._thread.join(_LOOK_INTERVAL_S)

    def last_known(self) -> list[ZooKeeperServerState]:
        """Return the servers and their states from the last check."""
        return [_state_of(server) for server in self.states]

    def describe(self) -> ZooKeeperServers:
        """Query the servers and return their current states."""
        return {"servers": [_state_of(server) for server in self._ensemble.states()]}

    def act(self, wanted: str, action: str) -> ZooKeeperServerChange:
        """Kill, start, pause or resume the server ``wanted``: its id, "leader" or "follower".

        Raises UsageError, WrongState, ZooKeeperUnavailable.
        """
        ensemble = self._ensemble
        server_id = ensemble.find(wanted)
        before = ensemble.state(server_id)
        ensemble.act(action, server_id)
        return {"id": server_id, "before": before, "state": ensemble.state(server_id)}

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_INTERVAL_S):
            self._kill_hanging_servers()
            for server_id, server in self._ensemble.servers.items():
                watched = self._watched[server_id]
                if not server.has_crashed or watched.is_given_up or self._closed.is_set():
                    continue
                failure = self._restart(server_id, watched)
                if failure is not None and not self._closed.is_set():
                    if self._is_hopeless():
                        self._on_given_up(failure)
                        return
                    logger.error("%s; the other servers continue", failure.message)

    def _kill_hanging_servers(self) -> None:
        now_s = time.monotonic()
        if now_s - self._asked_s < _ASK_INTERVAL_S:
            return
        self.states = self._ensemble.states()
        self._asked_s = now_s = time.monotonic()
        for server_id, where, state in self.states:
            watched = self._watched[server_id]
            if state != NO_ANSWER:
                watched.answered_s = now_s
            elif now_s - watched.answered_s > self._hang_s:
                logger.warning(
                    "ZooKeeper at %s has not responded for %g s: killing it", where, self._hang_s
                )
                watched.answered_s = now_s
                self._ensemble.crash(server_id)

    def _is_hopeless(self) -> bool:
        given_up = sum(watched.is_given_up for watched in self._watched.values())
        return self._ensemble.size - given_up < self._ensemble.majority

    def _restart(self, server_id: int, watched: _Watched) -> KlammError | None:
        """Restart a server.

        Returns None once the server is serving, or the error if all attempts failed.
        """
        server = self._ensemble.servers[server_id]
        where, log = server.connect_string, server.log_path
        if time.monotonic() - watched.started_s > STEADY_S:
            watched.attempts_left = ATTEMPTS
        reason = f"it ended {ATTEMPTS + 1} times, each within {STEADY_S:g} s of its start"
        while watched.attempts_left and not self._closed.is_set():
            watched.attempts_left -= 1
            logger.warning("ZooKeeper at %s has ended: restarting it (log: %s)", where, log)
            self._starting = server_id
            try:
                with self._ensemble.lock:
                    if not server.is_running:
                        server.start()
            except KlammError as error:
                reason = error.message
                self._closed.wait(_RETRY_INTERVAL_S)
                continue
            finally:
                self._starting = None
            watched.started_s = watched.answered_s = time.monotonic()
            logger.info("ZooKeeper at %s is running again: sessions reconnect", where)
            return None
        watched.is_given_up = True
        return ZooKeeperUnavailable(
            f"ZooKeeper at {where} has ended and cannot be restarted: {reason}",
            hint=f"its log is {log}; to continue, run klamm up with the same data directory",
        )


def _state_of(server: ServerState) -> ZooKeeperServerState:
    return ZooKeeperServerState(server.id, server.address, server.state)
