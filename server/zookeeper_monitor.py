"""Monitors whether ZooKeeper is reachable, and whether it still has the cluster's data.

Uses the cluster's own session, so it works for embedded servers (which server/zookeeper_guard.py
restarts) and for external servers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from klamm.cluster.errors import KlammError, StoreError, ZooKeeperUnavailable
from klamm.world.real.cluster import RealCluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_pipeline import within
from klamm.zk.kazoo_store import newest_zxid
from klamm.zk.store import SessionState
from klamm.zk.znodes import MalformedZNode

LOST_AFTER_S: Final = 0.5
"""A disconnection is reported after this time.

Moving the session to another server of an ensemble takes less time.
"""
REFUSALS_BEFORE_PROBE: Final = 3
_LOOK_INTERVAL_S: Final = 0.1
_PROBE_INTERVAL_S: Final = 1.0
_ANSWER_TIMEOUT_S: Final = 3.0
_WHAT_TO_DO: Final = (
    "it was emptied, or restored from an older backup: restore the newer data and run klamm up "
    "again, or start over with another --data-dir or chroot"
)

logger = logging.getLogger(__name__)


class ZooKeeperMonitor:
    """Logs when ZooKeeper becomes unreachable and when it is reachable again.

    Runs on a separate thread until ``close``. If ZooKeeper comes back without the cluster's data,
    ``on_data_lost`` is called once, on that thread, to end the cluster; otherwise its brokers would
    register in what looks like a new cluster.
    """

    def __init__(self, cluster: RealCluster, on_data_lost: Callable[[KlammError], None]) -> None:
        self._cluster = cluster
        self._where = cluster.connect_string
        self._on_data_lost = on_data_lost
        self._lost_s: float | None = None
        self._is_said = False
        self._next_probe_s = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="zookeeper-monitor")
        self._thread.start()

    def close(self) -> None:
        """Stop monitoring and wait for the thread to end."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_INTERVAL_S):
            failure = self._look()
            if failure is not None and not self._closed.is_set():
                self._on_data_lost(failure)
                return

    def _look(self) -> KlammError | None:
        """Check the session once. Returns the error that must end the cluster, or None."""
        now_s, state = time.monotonic(), self._cluster.session_state
        if state is SessionState.CONNECTED and self._lost_s is None:
            return None
        if self._lost_s is None:
            self._lost_s = now_s
        if state is SessionState.DISCONNECTED:
            if not self._is_said and now_s - self._lost_s >= LOST_AFTER_S:
                self._is_said = True
                logger.warning(
                    "ZooKeeper at %s does not respond: the cluster waits for it", self._where
                )
            return self._probe(now_s)
        try:
            failure = self._check_cluster_id()
        except MalformedZNode:
            failure = None  # the data is there, but was edited
        except (ZooKeeperUnavailable, StoreError):
            return None  # lost again
        if failure is None and self._is_said:
            away_s = time.monotonic() - self._lost_s
            logger.info("ZooKeeper at %s is back after %.1f s", self._where, away_s)
        self._lost_s, self._is_said = None, False
        return failure

    def _check_cluster_id(self) -> KlammError | None:
        """Return an error if ZooKeeper has no cluster id or a different id, else None.

        Raises ZooKeeperUnavailable, StoreError.
        """
        client = KafkaZkClient(self._cluster.own_session.store(within(_ANSWER_TIMEOUT_S)))
        found, wanted = client.get_cluster_id(), self._cluster.spec.cluster_id
        if found == wanted:
            return None
        other = "no cluster" if found is None else f"cluster {found}"
        return ZooKeeperUnavailable(
            f"ZooKeeper at {self._where} came back without its data: it has {other}, not {wanted}",
            hint=_WHAT_TO_DO,
        )

    def _probe(self, now_s: float) -> KlammError | None:
        """Return an error if a server closes every connection because it has lost data, else None.

        ZooKeeper closes a connection, without giving a reason, if the client has seen a zxid that
        is newer than the server's. A new session gets a zxid after all committed transactions: if
        even that zxid is older than the zxid that the cluster has seen, data was lost. If the new
        session is refused too, e.g. because the ensemble has no quorum, the result is None.
        """
        if self._cluster.own_session.refusals < REFUSALS_BEFORE_PROBE or now_s < self._next_probe_s:
            return None
        seen = self._cluster.newest_zxid
        try:
            security = self._cluster.spec.zookeeper_security
            found = newest_zxid(self._where, round(_ANSWER_TIMEOUT_S * 1000), security)
        except (ZooKeeperUnavailable, StoreError):
            return None
        finally:
            self._next_probe_s = time.monotonic() + _PROBE_INTERVAL_S
        if found >= seen:
            return None
        return ZooKeeperUnavailable(
            f"ZooKeeper at {self._where} has lost data: its last zxid is 0x{found:x}, and this "
            f"cluster has seen 0x{seen:x}",
            hint=_WHAT_TO_DO,
        )
