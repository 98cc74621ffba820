"""Connections that commands open, for as long as a command runs: to a ZooKeeper, to a cluster."""

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
"""How long a command waits for a ZooKeeper that was lost midway. A silent one counts as lost when
the session timeout has passed."""


def open_session(connect_string: str, *, waits_if_lost: bool = False) -> KazooSession:
    """What ``open_store`` opens, for who closes it himself; raises what that raises.

    ``waits_if_lost``: wait without a limit for a ZooKeeper that is lost midway.
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

    With an identity, znodes are created with ACLs, as Kafka's tools do. Raises UsageError.
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
    """Return TLS settings for these PEM files; None without any. Raises UsageError."""
    if ca is None:
        if cert is not None or key is not None:
            raise UsageError(
                "a client certificate without --zk-tls-ca",
                hint="name the CA that signed ZooKeeper's certificate",
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
    """A session on ``host:port[,host:port][/chroot]``, which need not exist.

    Raises UsageError for a malformed connect string, ZooKeeperUnavailable if nothing answers; so
    do calls of the store if ZooKeeper is lost midway.
    """
    store = KazooStore(open_session(connect_string))
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_cluster(address: str) -> Iterator[KafkaAdmin]:
    """The Admin of the running klamm at ``--bootstrap-server``, whose address is its HTTP one.

    Raises UsageError for a malformed address; its calls raise ServerUnavailable if none answers.
    """
    from klamm.server.admin_calls import http_admin  # most commands do without the calls

    yield http_admin(find_server(address, None).request)
