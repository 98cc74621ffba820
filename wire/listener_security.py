"""Security settings of listeners, and the files that they name: certificates, keys, users.

Mirrors org.apache.kafka.common.security.ssl.{SslFactory,DefaultSslEngineFactory} with
ssl.keystore.type=PEM (KIP-651). It does not import kio, so that `klamm up` checks the files early.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.errors import UsageError
from klamm.wire.config import ListenerConfig
from klamm.zk.security import unusable_files, unusable_key
from klamm.zk.znodes.brokers import uses_sasl, uses_tls

_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_NOT_TLS: Final = ("HTTP_REQUEST", "UNSUPPORTED_PROTOCOL", "WRONG_VERSION_NUMBER")


class ListenerSecurity(NamedTuple):
    """How listeners protect connections and authenticate clients.

    - ``tls``: None if the listeners do not use TLS.
    - ``mechanisms``: the SASL mechanisms that clients may use. Empty if the listeners do not use
      SASL.
    - ``plain_users``: passwords for the mechanism PLAIN, keyed by user name.
    """

    tls: ssl.SSLContext | None = None
    mechanisms: tuple[str, ...] = ()
    plain_users: Mapping[str, str] = {}


UNSECURED: Final = ListenerSecurity()
"""Listeners with the security protocol PLAINTEXT."""


def listener_security(protocol: str, config: ListenerConfig) -> ListenerSecurity:
    """Return the settings of listeners with a security protocol of Kafka.

    Raises UsageError if a setting or file is missing or cannot be used.
    """
    tls = _tls_context(config) if uses_tls(protocol) else None
    if not uses_sasl(protocol):
        return ListenerSecurity(tls)
    if not config.sasl_enabled_mechanisms:
        raise UsageError("sasl.enabled.mechanisms is empty: No SASL mechanisms are enabled")
    path = config.klamm_sasl_plain_users_location
    users = {} if path is None else read_users(path)
    return ListenerSecurity(tls, tuple(dict.fromkeys(config.sasl_enabled_mechanisms)), users)


def _tls_context(config: ListenerConfig) -> ssl.SSLContext:
    if config.ssl_keystore_location is None:
        raise UsageError(
            "TLS requires the brokers' certificate",
            hint="give --config ssl.keystore.location=FILE, a PEM file with the private key and "
            "the certificate chain",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_keystore(context, config.ssl_keystore_location, config.klamm_ssl_key_password_location)
    if config.ssl_client_auth != "none":
        if config.ssl_truststore_location is None:
            raise UsageError(
                f"ssl.client.auth={config.ssl_client_auth} requires the CA of the clients",
                hint="give --config ssl.truststore.location=FILE, a PEM file",
            )
        try:
            context.load_verify_locations(config.ssl_truststore_location)
        except (OSError, ValueError) as error:
            raise unusable_files(config.ssl_truststore_location, "CA of clients", error) from error
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth]
    return context


def load_keystore(context: ssl.SSLContext, path: str, password_path: str | None) -> None:
    """Give ``context`` the private key and the certificate chain in a PEM file.

    ``password_path``: file with the password of an encrypted key. Raises UsageError.
    """
    # Without a password, an empty one keeps OpenSSL from prompting on the terminal.
    password = "" if password_path is None else _read_secrets(password_path).rstrip("\r\n")
    try:
        context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:
        raise unusable_key(
            path,
            "private key and certificate of the brokers",
            _missing(path) or error,
            key=Path(path),
            setting="klamm.ssl.key.password.location",
        ) from error


def _missing(path: str) -> ValueError | None:
    """Return what a PEM file lacks, which OpenSSL does not tell."""
    try:
        text = Path(path).read_bytes()
    except OSError:
        return None
    for part in (b"PRIVATE KEY", b"CERTIFICATE"):
        if b"%s-----" % part not in text:
            return ValueError(f"it has no {part.decode().lower()} in PEM format")
    return None


def read_users(path: str) -> dict[str, str]:
    """Read a file of lines ``user:password``. Error messages do not contain its text."""
    users: dict[str, str] = {}
    for number, line in enumerate(_read_secrets(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, _, password = line.partition(":")
        if not user or not password:
            raise UsageError(f"{path}, line {number}: not USER:PASSWORD")
        if user in users:
            raise UsageError(f"{path}, line {number}: this user has an earlier line")
        users[user] = password
    return users


def _read_secrets(path: str) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{path} cannot be read: {reason}") from None


class TlsHandshakeFailed(Exception):
    """A client did not complete the TLS handshake. The text is the reason."""


def reason_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason for an error, in words."""
    return (error.reason or str(error)).replace("_", " ").lower()


def handshake_failed(error: Exception) -> TlsHandshakeFailed:
    """Return the error to raise for an error of asyncio in a TLS handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the client's certificate is not valid: {error.verify_message}"
    elif isinstance(error, ssl.SSLError):
        text = reason_of(error)
        if error.reason in _NOT_TLS:
            text = "the client does not speak TLS"
    else:
        text = "it took too long"
    return TlsHandshakeFailed(text)
