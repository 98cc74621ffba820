"""Connections that commands open, for as long as a command runs: to a ZooKeeper, to a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cli.client import ServerClient, find_server
from zk.kazoo_session import KazooSession
from zk.kazoo_store import KazooStore
from zk.store import Store

SESSION_TIMEOUT_MS = 30_000
CONNECTION_TIMEOUT_MS = 10_000


def open_session(connect_string: str) -> KazooSession:
    """What ``open_store`` opens, for who closes it himself; raises what that raises."""
    return KazooSession(connect_string, SESSION_TIMEOUT_MS, CONNECTION_TIMEOUT_MS)


@contextmanager
def open_store(connect_string: str) -> Iterator[Store]:
    """A session on ``host:port[,host:port][/chroot]``, which need not exist.

    Raises UsageError for a malformed connect string, ZooKeeperUnavailable if nothing answers.
    """
    store = KazooStore(open_session(connect_string))
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_cluster(address: str) -> Iterator[ServerClient]:
    """The running klamm at ``--bootstrap-server``, whose address is its HTTP one.

    Raises UsageError for a malformed address; its calls raise ServerUnavailable if none answers.
    """
    yield find_server(address, None)
