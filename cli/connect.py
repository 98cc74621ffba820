"""Connections of commands to a ZooKeeper or to a running cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.cli.client import find_server
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
"""Environment variables of ``klamm up``'s --zk-* options, for commands with Kafka's flags."""
SESSION_TIMEOUT_MS = 30_000
CONNECTION_TIMEOUT_MS = 10_000
LOST_LIMIT_MS = 10_000
"""How long a command waits after it has lost the connection to ZooKeeper. The connection to a
ZooKeeper that stops responding counts as lost after the session timeout."""


def open_session(connect_string: str, *, waits_if_lost: bool = False) -> KazooSession:
    """Like ``open_store``, but return the session, which the caller closes.

    ``waits_if_lost``: wait without a limit if the connection is lost.
    """
    return KazooSession(
        connect_string,
        SESSION_TIMEOUT_MS,
        CONNECTION_TIMEOUT_MS,
        security_of(os.environ),
        lost_limit_ms=None if waits_if_lost else LOST_LIMIT_MS,
    )


def security_of(environ: Mapping[str, str]) -> ZooKeeperSecurity:
    """Return the ZooKeeper security settings of the KLAMM_ZK_* variables.

    If they contain an identity, znodes are created with ACLs, as by Kafka's tools. Raises
    UsageError for an incomplete TLS configuration.
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
    """Return the TLS settings for these PEM files; None if no file is given.

    Raises UsageError for a client certificate without a CA.
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


@contextmanager
def open_store(connect_string: str) -> Iterator[Store]:
    """Open a store at ``host:port[,host:port][/chroot]``, and close it after the block.

    The chroot need not exist. Raises UsageError for a malformed connect string,
    ZooKeeperUnavailable if no server responds. Calls of the store raise ZooKeeperUnavailable if
    the connection is lost.
    """
    store = KazooStore(open_session(connect_string))
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_cluster(address: str) -> Iterator[KafkaAdmin]:
    """Yield an admin client of the running klamm at ``--bootstrap-server``, its HTTP address.

    Raises UsageError for a malformed address. Calls of the client raise ServerUnavailable if no
    klamm responds.
    """
    from klamm.server.admin_calls import http_admin  # slow to import, few commands need it

    yield http_admin(find_server(address, None).request)
