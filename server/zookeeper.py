"""Access to the cluster's ZooKeeper session for requests that must not wait until it reconnects.

Also explains to operators why no controller is elected.
"""

from __future__ import annotations

from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.world.real.cluster import RealCluster
from klamm.zk.store import SessionState, Store


def connected_store(cluster: RealCluster) -> Store:
    """Return the cluster's ZooKeeper store, or raise ZooKeeperUnavailable if it is disconnected."""
    lost = lost_zookeeper(cluster)
    if lost is not None:
        raise ZooKeeperUnavailable(lost, hint="klamm continues when ZooKeeper is back")
    return cluster.store


def lost_zookeeper(cluster: RealCluster) -> str | None:
    """Return a message if the connection to ZooKeeper is lost, else None."""
    if cluster.session_state is not SessionState.DISCONNECTED:
        return None
    return f"ZooKeeper at {cluster.connect_string} does not respond"


def why_no_controller(cluster: RealCluster) -> str:
    """Return the hint that explains why the cluster has no controller."""
    candidacy = cluster.candidacy
    if candidacy.hold is not None:
        return f"no controller is elected while {candidacy.hold}"
    if candidacy.failed_failovers:
        return f"the last {candidacy.failed_failovers} failovers failed: {candidacy.failure}"
    return lost_zookeeper(cluster) or (
        "no broker is the controller; klamm status shows which brokers are running"
    )
