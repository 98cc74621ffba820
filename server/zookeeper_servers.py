"""Operator actions on the embedded ZooKeeper servers: kill, start, pause, resume.

A killed or paused server stays so until it is started or resumed. The guard restarts only servers
that end for other reasons.
"""

from __future__ import annotations

from typing import Any

from server.zookeeper_guard import ZooKeeperGuard
from zk.ensemble import SINGLE_SERVER, EmbeddedEnsemble, ServerState


class ZooKeeperServers:
    """Acts on servers. Thread-safe."""

    def __init__(self, ensemble: EmbeddedEnsemble, guard: ZooKeeperGuard) -> None:
        self._ensemble = ensemble
        self._guard = guard

    def last_known(self) -> list[dict[str, Any]]:
        """Return the servers and their states from the guard's last check."""
        return [_described(server) for server in self._guard.states]

    def describe(self) -> dict[str, Any]:
        """Query the servers and return their states."""
        return {"servers": [_described(server) for server in self._ensemble.states()]}

    def act(self, wanted: str, action: str) -> dict[str, Any]:
        """Act on a server: its id, ``leader`` or ``follower``. Raises UsageError,
        WrongState, ZooKeeperUnavailable."""
        ensemble = self._ensemble
        server_id = ensemble.find(wanted)
        before = ensemble.state(server_id)
        SINGLE_SERVER[action](ensemble, server_id)
        return {"id": server_id, "before": before, "state": ensemble.state(server_id)}


def _described(server: ServerState) -> dict[str, Any]:
    return {"id": server.id, "address": server.address, "state": server.state}
