"""TLS on listeners: certificates in PEM files, client authentication, failed handshakes.

Mirrors org.apache.kafka.common.security.ssl.{SslFactory,DefaultSslEngineFactory} with
ssl.keystore.type=PEM (KIP-651). It imports no other part of wire/, so that `klamm up` checks the
files early without the import of kio.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from klamm.cluster.errors import UsageError
from klamm.wire.config import ListenerConfig
from klamm.zk.security import unusable_files

TLS_PROTOCOLS: Final = ("SSL", "SASL_SSL")
"""The security protocols that use TLS."""
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_NOT_TLS: Final = ("HTTP_REQUEST", "UNSUPPORTED_PROTOCOL", "WRONG_VERSION_NUMBER")


def tls_context(config: ListenerConfig) -> ssl.SSLContext:
    """Return the SSL context of a listener.

    Raises UsageError if a file is missing or cannot be used.
    """
    if config.ssl_keystore_location is None:
        raise UsageError(
            "TLS requires the brokers' certificate",
            hint="give --config ssl.keystore.location=FILE, a PEM file with the private key and "
            "the certificate chain",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without a password, an empty one keeps OpenSSL from prompting on the terminal.
    password = ""
    if config.klamm_ssl_key_password_location is not None:
        password = read_secrets(config.klamm_ssl_key_password_location).rstrip("\r\n")
    try:
        context.load_cert_chain(config.ssl_keystore_location, password=password)
    except (OSError, ValueError) as error:
        what = "private key and certificate of the brokers"
        raise unusable_files(config.ssl_keystore_location, what, error) from error
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


def read_secrets(path: str) -> str:
    """Return the text of a file with secrets. Raises UsageError, without its text."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{path} cannot be read: {reason}") from None


class TlsHandshakeFailed(Exception):
    """A client did not complete the TLS handshake. The text is the reason."""


def handshake_failed(error: Exception) -> TlsHandshakeFailed:
    """Return the error to raise for an error of asyncio in a TLS handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the client's certificate is not valid: {error.verify_message}"
    elif isinstance(error, ssl.SSLError):
        text = (error.reason or str(error)).replace("_", " ").lower()
        if error.reason in _NOT_TLS:
            text = "the client does not speak TLS"
    else:
        text = "it took too long"
    return TlsHandshakeFailed(text)
