"""Clusters of brokers in this process on a real ZooKeeper."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from tests.waiting import wait_until


@contextlib.contextmanager
def real_cluster(
    spec: ClusterSpec, connect_string: str, journal: MemoryJournal | None = None
) -> Iterator[RealCluster]:
    """All brokers of a cluster run; the first, which must be a candidate, is the controller."""
    journal = MemoryJournal() if journal is None else journal
    with RealCluster(spec, connect_string, journal) as cluster:
        for broker_id in spec.broker_ids:
            cluster.start(broker_id)
            wait_until(lambda: cluster.active_controller is not None)
        yield cluster
