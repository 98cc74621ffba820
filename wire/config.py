"""Settings of listeners and of connections to them, under the names of Kafka's configs.

Mirrors kafka.server.KafkaConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from klamm.cluster.configs import broker_fields

MAX_CONNECTIONS: Final = 1_000
"""Maximum number of connections to one broker, even if max.connections is larger."""


class ListenerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one broker's listener, and its settings of TLS and SASL."""

    connections_max_idle_ms: int
    connection_failed_authentication_delay_ms: int
    klamm_sasl_plain_users_location: str | None
    klamm_ssl_key_password_location: str | None
    max_connections: int
    max_connections_per_ip: int
    sasl_enabled_mechanisms: list[str]
    socket_request_max_bytes: int
    ssl_client_auth: str
    ssl_keystore_location: str | None
    ssl_truststore_location: str | None


class InterBrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of TLS and SASL with which a controller connects to the brokers' listeners."""

    klamm_sasl_inter_broker_user_location: str | None
    klamm_ssl_key_password_location: str | None
    sasl_mechanism_inter_broker_protocol: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_keystore_location: str | None
    ssl_truststore_location: str | None


def listener_config(properties: Mapping[str, str]) -> ListenerConfig:
    """Return the ListenerConfig for Kafka properties. Raises InvalidConfig."""
    config = ListenerConfig(**broker_fields(ListenerConfig.__struct_fields__, properties))
    return msgspec.structs.replace(
        config, max_connections=min(config.max_connections, MAX_CONNECTIONS)
    )


def inter_broker_config(properties: Mapping[str, str]) -> InterBrokerConfig:
    """Return the InterBrokerConfig for Kafka properties. Raises InvalidConfig."""
    return InterBrokerConfig(**broker_fields(InterBrokerConfig.__struct_fields__, properties))
