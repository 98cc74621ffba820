"""Functions with which commands connect to a ZooKeeper or to a running cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.cli.client import find_server
from klamm.cli.waiting import waiting
from klamm.cluster.errors import UsageError
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.security import ZooKeeperSecurity, ZooKeeperTls
from klamm.zk.store import Store

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin

ZK_VARIABLES: Final = {
    "digest": "KLAMM_ZK_DIGEST",
    "ca": "KLAMM_ZK_TLS_CA",
    "cert": "KLAMM_ZK_TLS_CERT",
    "key": "KLAMM_ZK_TLS_KEY",
    "key_password": "KLAMM_ZK_TLS_KEY_PASSWORD",
}
"""Environment variables that replace the --zk-* options of ``klamm up``.

Kafka's tools read them, because Kafka's flags do not include these settings.
"""
SESSION_TIMEOUT_MS = 30_000
CONNECTION_TIMEOUT_MS = 10_000
LOST_LIMIT_MS = 10_000
"""How long a command waits for a lost connection to ZooKeeper to be restored.

The connection to a ZooKeeper that stops responding counts as lost after the session timeout.
"""


def open_session(connect_string: str, *, waits_if_lost: bool = False) -> KazooSession:
    """Open a ZooKeeper session, as ``open_store`` does. The caller must close the session.

    ``waits_if_lost``: if the connection is lost, calls wait without a time limit until the session
    is connected again.
    """
    security = security_of(os.environ)
    with waiting(f"ZooKeeper at {connect_string}"):
        return KazooSession(
            connect_string,
            SESSION_TIMEOUT_MS,
            CONNECTION_TIMEOUT_MS,
            security,
            lost_limit_ms=None if waits_if_lost else LOST_LIMIT_MS,
        )


def security_of(environ: Mapping[str, str]) -> ZooKeeperSecurity:
    """Return the ZooKeeper security settings from the KLAMM_ZK_* variables.

    If the variables contain an identity, znodes are created with the ACLs that Kafka's tools set.
    Raises UsageError if the TLS configuration is incomplete.
    """
    given = {name: environ.get(variable) or None for name, variable in ZK_VARIABLES.items()}
    tls = tls_of(given["ca"], given["cert"], given["key"], given["key_password"])
    security = ZooKeeperSecurity(digest=given["digest"], tls=tls)
    return replace(security, sets_acls=security.has_identity)


def tls_of(
    ca: str | Path | None,
    cert: str | Path | None,
    key: str | Path | None,
    key_password: str | None,
) -> ZooKeeperTls | None:
    """Return the TLS settings for these PEM files, or None if no file is given.

    Raises UsageError if a client certificate or key is given without a CA.
    """
    if ca is None:
        if cert is not None or key is not None:
            raise UsageError(
                "a client certificate requires --zk-tls-ca",
                hint="--zk-tls-ca FILE is the CA that signed ZooKeeper's certificate",
            )
        return None
    return ZooKeeperTls(
        ca=Path(ca),
        certificate=None if cert is None else Path(cert),
        key=None if key is None else Path(key),
        key_password=key_password,
    )


def zookeeper_of(zookeeper: str | None, server: str | None, data_dir: Path | None) -> str:
    """Return the connect string of the ZooKeeper to read.

    It is the value of --zookeeper, or else the address in the status of the running klamm that
    --server, --data-dir or the environment selects. Raises UsageError if --zookeeper is combined
    with another option, and EnvironmentProblem if there is neither.
    """
    if zookeeper is not None:
        if server is not None or data_dir is not None:
            raise UsageError("--server and --data-dir cannot be combined with --zookeeper")
        return zookeeper
    return find_server(server, data_dir).status().zookeeper.connect


def open_store(connect_string: str) -> AbstractContextManager[Store]:
    """Open the ZooKeeper store at ``host:port[,host:port][/chroot]``.

    The context manager closes it. The chroot need not exist. Raises UsageError for a malformed
    connect string, and ZooKeeperUnavailable if no server responds. Calls to the store raise
    ZooKeeperUnavailable if the connection is lost.
    """
    return closing(KazooStore(open_session(connect_string)))


@contextmanager
def open_cluster(address: str, data_dir: Path | None = None) -> Iterator[KafkaAdmin]:
    """Yield an admin client for the running klamm at ``address``.

    ``address`` is an HTTP address; for Kafka's tools it is the value of ``--bootstrap-server``. If
    ``data_dir`` is given, the server's token is read from it. Raises UsageError for a malformed
    address. Calls to the client raise ServerUnavailable if no klamm responds.
    """
    from klamm.server.admin_calls import http_admin  # slow to import, few commands need it

    yield http_admin(find_server(address, data_dir).request)
