"""Authentication of a session to ZooKeeper, and whether it sets ACLs on the znodes it creates.

Mirrors Kafka's zookeeper.set.acl and zookeeper.ssl.* (kafka.server.KafkaConfig), with PEM files
instead of Java's key stores, and ZooKeeper's digest scheme instead of SASL.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from klamm.cluster.errors import UsageError, ZooKeeperUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperTls:
    """TLS to ZooKeeper: the server's certificate must be signed by ``ca`` and name its host.

    ``certificate`` and ``key``: of the client, for servers that require them. PEM files.
    """

    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError(
                "a client certificate needs its key, and a key its certificate",
                hint="give both --zk-tls-cert and --zk-tls-key",
            )

    def context(self) -> ssl.SSLContext:
        """Load the files into an SSL context. Raises UsageError with the name of a bad file."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ValueError) as error:
            raise _unusable(self.ca, "CA certificates", error) from error
        if self.certificate is not None:
            # Without a password, an empty one keeps OpenSSL from prompting on the terminal.
            try:
                context.load_cert_chain(self.certificate, self.key, self.key_password or "")
            except (OSError, ValueError) as error:
                files = f"{self.certificate} and {self.key}"
                raise _unusable(files, "a client certificate and its key", error) from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """Authentication to ZooKeeper, and the ACLs of new znodes.

    ``digest``: USER:PASSWORD of ZooKeeper's digest scheme. ``sets_acls``: create znodes with
    Kafka's ACLs instead of open ones, which requires a digest or a client certificate. Raises
    UsageError for invalid combinations.
    """

    digest: str | None = field(default=None, repr=False)
    tls: ZooKeeperTls | None = None
    sets_acls: bool = False

    def __post_init__(self) -> None:
        if self.digest is not None and not all(self.digest.partition(":")):
            raise UsageError(
                "--zk-digest (KLAMM_ZK_DIGEST) is not USER:PASSWORD",
                hint="write a user name, a colon and the password",
            )
        if self.sets_acls and not self.has_identity:
            raise UsageError(
                "zookeeper.set.acl is true, but klamm has no identity for the ACLs",
                hint="give --zk-digest USER:PASSWORD, or --zk-tls-cert and --zk-tls-key",
            )

    @property
    def has_identity(self) -> bool:
        """True if the session authenticates with a digest or a certificate."""
        return self.digest is not None or (self.tls is not None and self.tls.key is not None)


_NOT_TLS: Final = ("UNEXPECTED_EOF_WHILE_READING", "WRONG_VERSION_NUMBER")
UNSECURED = ZooKeeperSecurity()
"""No authentication, no TLS, open ACLs: Kafka's default."""


def tls_failure(hosts: str, error: OSError) -> ZooKeeperUnavailable:
    """Return the error for servers that accept connections but fail the TLS handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ZooKeeperUnavailable(
            f"the certificate of the ZooKeeper at {hosts} is not valid: {error.verify_message}",
            hint="--zk-tls-ca names the CA that signed it; the certificate must name the host",
        )
    if isinstance(error, ssl.SSLError) and error.reason not in _NOT_TLS:
        return ZooKeeperUnavailable(
            f"no TLS connection to the ZooKeeper at {hosts}: {error.reason or error}"
        )
    return ZooKeeperUnavailable(
        f"the server at {hosts} does not answer in TLS",
        hint="name the secureClientPort of ZooKeeper, or leave out the TLS options (--zk-tls-*, "
        "KLAMM_ZK_TLS_*)",
    )


def _unusable(files: object, what: str, error: Exception) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(
        f"{files}: not usable as {what}: {reason}", hint="klamm reads PEM files, not key stores"
    )
