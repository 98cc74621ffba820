"""Why no controller is elected, in words for operators.

For errors of requests that need a controller; `klamm status` shows the same facts.
"""

from __future__ import annotations

from runtime.real.cluster import RealCluster
from zk.store import SessionState


def lost_zookeeper(cluster: RealCluster) -> str | None:
    """Return the hint for a request that got no answer because ZooKeeper is lost; else None."""
    if cluster.session_state is not SessionState.DISCONNECTED:
        return None
    return f"ZooKeeper at {cluster.connect_string} does not answer"


def why_no_controller(cluster: RealCluster) -> str:
    """Return the hint for a request that found no controller."""
    candidacy = cluster.candidacy
    if candidacy.hold is not None:
        return f"no controller is elected while {candidacy.hold}"
    if candidacy.failed_failovers:
        return f"{candidacy.failed_failovers} failovers in a row failed: {candidacy.failure}"
    return lost_zookeeper(cluster) or (
        "no broker is the controller; klamm status shows which brokers run"
    )
