"""What is done to klamm's own ZooKeeper servers from outside: kill, start, pause, resume.

A server that was killed or paused stays so until it is started or resumed; the guard starts only
those again that end otherwise.
"""

from __future__ import annotations

from typing import Any

from server.zookeeper_guard import ZooKeeperGuard
from zk.ensemble import SINGLE_SERVER, EmbeddedEnsemble, ServerState


class ZooKeeperServers:
    """For any thread."""

    def __init__(self, ensemble: EmbeddedEnsemble, guard: ZooKeeperGuard) -> None:
        self._ensemble = ensemble
        self._guard = guard

    def last_known(self) -> list[dict[str, Any]]:
        """The servers and their states when the guard last asked them."""
        return [_described(server) for server in self._guard.states]

    def describe(self) -> dict[str, Any]:
        """The servers and their states; asks them now."""
        return {"servers": [_described(server) for server in self._ensemble.states()]}

    def act(self, wanted: str, action: str) -> dict[str, Any]:
        """Act on a server: its id, ``leader`` or ``follower``. Raises UsageError,
        ZooKeeperUnavailable."""
        ensemble = self._ensemble
        server_id = ensemble.find(wanted)
        before = ensemble.state(server_id)
        SINGLE_SERVER[action](ensemble, server_id)
        return {"id": server_id, "before": before, "state": ensemble.state(server_id)}


def _described(server: ServerState) -> dict[str, Any]:
    return {"id": server.id, "address": server.address, "state": server.state}
