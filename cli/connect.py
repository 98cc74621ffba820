"""Connections that commands open, for as long as a command runs: to a ZooKeeper, to a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from admin.cluster_topics import ClusterAdmin
from cluster.errors import UsageError
from zk.kazoo_session import KazooSession
from zk.kazoo_store import KazooStore
from zk.store import Store

SESSION_TIMEOUT_MS = 30_000
CONNECTION_TIMEOUT_MS = 10_000


@contextmanager
def open_store(connect_string: str) -> Iterator[Store]:
    """A session on ``host:port[,host:port][/chroot]``, which need not exist.

    Raises UsageError for a malformed connect string, ZooKeeperUnavailable if nothing answers.
    """
    store = KazooStore(KazooSession(connect_string, SESSION_TIMEOUT_MS, CONNECTION_TIMEOUT_MS))
    try:
        yield store
    finally:
        store.close()


def open_cluster(address: str) -> AbstractContextManager[ClusterAdmin]:
    """A running cluster of klamm's. Raises UsageError: clusters are not served over HTTP."""
    raise UsageError(
        f"--bootstrap-server {address}: no cluster is served at an address",
        hint="use --zookeeper host:port/chroot",
    )
