"""Security settings of a ZooKeeper session: TLS, authentication, and ACLs of new znodes.

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
    """TLS settings for connections to ZooKeeper, as paths of PEM files.

    The server's certificate must be signed by ``ca`` and must name the server's host.
    ``certificate`` and ``key`` identify the client to servers that require a client certificate.
    """

    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError(
                "a client certificate requires its key, and vice versa",
                hint="give both --zk-tls-cert and --zk-tls-key",
            )

    def context(self) -> ssl.SSLContext:
        """Return an SSL context with these files. Raises UsageError if a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ValueError) as error:
            raise unusable_files(self.ca, "CA certificates", error) from error
        if self.certificate is not None and self.key is not None:
            # Without a password, an empty one keeps OpenSSL from prompting on the terminal.
            try:
                context.load_cert_chain(self.certificate, self.key, self.key_password or "")
            except (OSError, ValueError) as error:
                raise unusable_key(
                    f"{self.certificate} and {self.key}",
                    "a client certificate and its key",
                    error,
                    key=self.key,
                    setting="KLAMM_ZK_TLS_KEY_PASSWORD",
                ) from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """How klamm authenticates to ZooKeeper, and which ACLs new znodes get.

    ``digest`` is USER:PASSWORD for ZooKeeper's digest scheme. If ``sets_acls`` is True, znodes are
    created with Kafka's ACLs instead of open ACLs, which requires a digest or a client certificate.
    Raises UsageError for invalid combinations.
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
                "zookeeper.set.acl is true, but no credentials for the ACLs are configured",
                hint="give --zk-digest USER:PASSWORD, or --zk-tls-cert and --zk-tls-key",
            )

    @property
    def has_identity(self) -> bool:
        """True if the session authenticates with a digest or a client certificate."""
        return self.digest is not None or (self.tls is not None and self.tls.key is not None)


_NOT_TLS: Final = ("UNEXPECTED_EOF_WHILE_READING", "WRONG_VERSION_NUMBER")
UNSECURED = ZooKeeperSecurity()
"""Kafka's default: no authentication, no TLS, and open ACLs."""


def zookeeper_tls_failure(hosts: str, error: OSError) -> ZooKeeperUnavailable:
    """Return the error to raise if servers accept connections but the TLS handshake fails."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ZooKeeperUnavailable(
            f"the ZooKeeper server at {hosts} has an invalid certificate: {error.verify_message}",
            hint="--zk-tls-ca names the CA that signed it; the certificate must name the host",
        )
    if isinstance(error, ssl.SSLError) and error.reason not in _NOT_TLS:
        return ZooKeeperUnavailable(
            f"TLS handshake with ZooKeeper at {hosts} failed: {error.reason or error}"
        )
    return ZooKeeperUnavailable(
        f"the server at {hosts} does not speak TLS",
        hint="use the secureClientPort of ZooKeeper, or omit the TLS options (--zk-tls-*, "
        "KLAMM_ZK_TLS_*)",
    )


def unusable_key(
    files: object, what: str, error: Exception, *, key: Path, setting: str
) -> UsageError:
    """Return the error to raise if PEM files with a private key cannot be used as ``what``.

    ``key``: the file with the key, because OpenSSL does not tell that an encrypted key needs
    another password. ``setting``: what gives the password.
    """
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        problem, hint = "the private key is not that of the certificate", None
    elif isinstance(error, ssl.SSLError) and b"ENCRYPTED" in key.read_bytes():
        problem = "the password of its private key is missing or wrong"
        hint = f"give it with {setting}"
    else:
        return unusable_files(files, what, error)
    return UsageError(f"{files} cannot be used as {what}: {problem}", hint=hint)


def unusable_files(files: object, what: str, error: Exception) -> UsageError:
    """Return the error to raise if PEM files cannot be used as ``what``."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(
        f"{files} cannot be used as {what}: {reason}",
        hint="klamm reads PEM files, not key stores",
    )
