"""ZooKeeper sessions for the brokers of a real cluster: one each, or shared in a large cluster.

A controller candidate always has a session of its own: its death must remove both ephemerals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from runtime.cluster_spec import ClusterSpec
from zk.kazoo_session import KazooSession

UNPOOLED_AT_MOST = 40
BROKERS_PER_SESSION = 25


class SessionPool:
    """Opens sessions on demand; those that are shared live until ``close``.

    ``newest_zxid`` gives the newest zxid that the cluster has seen: no session begins on a server
    that is behind it.
    """

    def __init__(
        self, connect_string: str, spec: ClusterSpec, newest_zxid: Callable[[], int]
    ) -> None:
        self._connect_string = connect_string
        self._spec = spec
        self._newest_zxid = newest_zxid
        self._shared: dict[int, KazooSession] = {}

    def session_of(self, broker_id: int) -> tuple[KazooSession, bool]:
        """A session for this broker, and whether it is shared.

        Raises ZooKeeperUnavailable.
        """
        spec = self._spec
        if len(spec.broker_ids) <= UNPOOLED_AT_MOST or spec.is_candidate(broker_id):
            return self._open(), False
        number = broker_id // BROKERS_PER_SESSION
        if number not in self._shared:
            self._shared[number] = self._open()
        return self._shared[number], True

    def close(self) -> None:
        """Close the shared sessions."""
        with contextlib.ExitStack() as stack:
            for session in self._shared.values():
                stack.callback(session.close)
        self._shared.clear()

    def _open(self) -> KazooSession:
        return KazooSession(
            self._connect_string,
            self._spec.session_timeout_ms,
            security=self._spec.zookeeper_security,
            zxid_seen=self._newest_zxid(),
        )
