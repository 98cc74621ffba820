"""How a controller protects its connections to brokers, and authenticates to them.

The client's side of listener_security.py: the same files, with Kafka's names of configs. Mirrors
org.apache.kafka.common.network.ChannelBuilders for inter-broker connections, and
org.apache.kafka.common.security.ssl.SslFactory, which checks the broker's own certificate. It does
not import kio, so that the files are checked early.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.wire.config import InterBrokerConfig
from klamm.wire.listener_security import load_keystore, read_users, reason_of
from klamm.zk.security import unusable_files
from klamm.zk.znodes.brokers import uses_sasl, uses_tls

PLAINTEXT: Final = "PLAINTEXT"
_CERTIFICATE_HINT: Final = (
    "ssl.truststore.location names the CA that signed it; the certificate must name the host, "
    "unless ssl.endpoint.identification.algorithm is empty"
)


class BrokerLogin(NamedTuple):
    """How a controller authenticates to brokers with SASL. ``path``: where that is configured."""

    mechanism: str
    user: str
    password: str
    path: str


class BrokerSecurity(NamedTuple):
    """Security of a controller's connections to brokers.

    - ``protocol``: the security protocol that the brokers' listeners must have.
    - ``tls``: None if the protocol does not use TLS.
    - ``login``: None if the protocol does not use SASL.
    """

    protocol: str = PLAINTEXT
    tls: ssl.SSLContext | None = None
    login: BrokerLogin | None = None


UNSECURED: Final = BrokerSecurity()


def broker_security(protocol: str, config: InterBrokerConfig) -> BrokerSecurity:
    """Return the settings of connections to listeners with a security protocol of Kafka.

    Raises UsageError if a setting or file is missing or cannot be used.
    """
    tls = _tls_context(config) if uses_tls(protocol) else None
    login = _login(config) if uses_sasl(protocol) else None
    return BrokerSecurity(protocol, tls, login)


def _tls_context(config: InterBrokerConfig) -> ssl.SSLContext:
    """Return the context of a client that has the brokers' certificate, as Kafka's brokers do."""
    try:
        context = ssl.create_default_context(cafile=config.ssl_truststore_location)
    except (OSError, ValueError) as error:
        path = config.ssl_truststore_location
        raise unusable_files(path, "CA certificates of the brokers", error) from error
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    keystore = config.ssl_keystore_location
    if keystore is not None:
        load_keystore(context, keystore, config.klamm_ssl_key_password_location)
    return context


def _login(config: InterBrokerConfig) -> BrokerLogin:
    mechanism = config.sasl_mechanism_inter_broker_protocol
    path = config.klamm_sasl_inter_broker_user_location
    if mechanism is None or path is None:
        raise UsageError(
            "SASL requires the mechanism and the user with which the controller logs in at the "
            "brokers",
            hint="give --config sasl.mechanism.inter.broker.protocol=PLAIN (or SCRAM-SHA-256, "
            "SCRAM-SHA-512) and --config klamm.sasl.inter.broker.user.location=FILE, a file with "
            "the line USER:PASSWORD",
        )
    users = read_users(path)
    if len(users) != 1:
        raise UsageError(f"{path} has {len(users)} users: expected one line USER:PASSWORD")
    [(user, password)] = users.items()
    return BrokerLogin(mechanism, user, password, path)


def broker_tls_failure(error: ssl.SSLError) -> EnvironmentProblem:
    """Return the error to raise if TLS with a broker fails. The text does not name the broker."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return EnvironmentProblem(
            f"its certificate is not valid: {error.verify_message}", hint=_CERTIFICATE_HINT
        )
    text = reason_of(error)
    return EnvironmentProblem(
        f"TLS failed: {text}",
        hint="the broker refused klamm's certificate, ssl.keystore.location; see the broker's log"
        if "alert" in text
        else None,
    )


def check_own_certificate(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Check that a broker with the same files would accept a listener's certificate.

    ``host``: where the brokers find the listener. Raises UsageError. Mirrors
    SslFactory.SslEngineValidator.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        while not all([_is_complete(end.do_handshake) for end in ends]):
            pass
    except ssl.SSLCertVerificationError as error:
        raise UsageError(
            f"the certificate in ssl.keystore.location is not valid for this controller at {host}: "
            f"{error.verify_message}",
            hint=_CERTIFICATE_HINT,
        ) from error
    except ssl.SSLError as error:
        raise UsageError(
            f"TLS with the files of ssl.keystore.location and ssl.truststore.location fails: "
            f"{reason_of(error)}"
        ) from error


def _is_complete(handshake: Callable[[], None]) -> bool:
    try:
        handshake()
    except ssl.SSLWantReadError:
        return False
    return True
