"""The server's own session with ZooKeeper, for requests that must not wait for a lost one."""

from __future__ import annotations

from cluster.errors import ZooKeeperUnavailable
from runtime.real.cluster import RealCluster
from zk.store import SessionState, Store


def connected_store(cluster: RealCluster) -> Store:
    """The cluster's session. Raises ZooKeeperUnavailable while it has lost its connection."""
    if cluster.session_state is SessionState.DISCONNECTED:
        raise ZooKeeperUnavailable(
            f"ZooKeeper at {cluster.connect_string} does not answer",
            hint="klamm continues when it is back",
        )
    return cluster.store
