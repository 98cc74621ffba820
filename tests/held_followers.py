"""Followers that are kept from catching up, by faults of the network that users have, too."""

from __future__ import annotations

from klamm.world.cluster import Cluster
from klamm.world.network import LinkFault, Traffic, between


def hold(cluster: Cluster, *broker_ids: int) -> None:
    """Clog what these brokers and all others replicate from each other."""
    cluster.transport.faults = (*cluster.transport.faults, *_clogs(cluster, broker_ids))


def release(cluster: Cluster, *broker_ids: int) -> None:
    """Deliver what ``hold`` clogged."""
    clogs = _clogs(cluster, broker_ids)
    cluster.transport.faults = tuple(one for one in cluster.transport.faults if one not in clogs)


def _clogs(cluster: Cluster, broker_ids: tuple[int, ...]) -> list[LinkFault]:
    everyone = cluster.spec.broker_ids
    return [
        LinkFault(
            links=between(([held], [id_ for id_ in everyone if id_ != held])),
            only=Traffic.RECORDS,
            is_clogged=True,
            text=f"held: {held}",
        )
        for held in broker_ids
    ]
