"""Settings of producers and consumers, with Kafka's names and defaults. Times are in ms.

Mirrors ProducerConfig and ConsumerConfig of org.apache.kafka.clients.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from klamm.brokers.logs.record_batch import COMPRESSIONS
from klamm.cluster.data_requests import Acks
from klamm.cluster.errors import InvalidConfig

OffsetReset = Literal["earliest", "latest", "none"]


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that producers and consumers have in common."""

    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000


class ProducerConfig(ClientConfig, frozen=True, kw_only=True):
    """A producer's settings.

    There is no linger.ms: a batch is sent as soon as the leader can accept another request. Raises
    InvalidConfig for combinations that Kafka rejects.
    """

    acks: Acks = 1
    retries: int = 2**31 - 1
    delivery_timeout_ms: int = 120_000
    max_in_flight_requests_per_connection: int = 5
    enable_idempotence: bool = False
    compression_type: str = "none"

    def __post_init__(self) -> None:
        if self.delivery_timeout_ms < self.request_timeout_ms:
            raise InvalidConfig(
                "delivery.timeout.ms should be equal to or larger than "
                "linger.ms + request.timeout.ms"
            )
        if self.max_in_flight_requests_per_connection < 1:
            raise InvalidConfig(
                f"Invalid value {self.max_in_flight_requests_per_connection} for configuration "
                "max.in.flight.requests.per.connection: Value must be at least 1"
            )
        if self.compression_type not in COMPRESSIONS:
            raise InvalidConfig(
                f"Unknown compression name: {self.compression_type}",
                hint=f"use one of {', '.join(COMPRESSIONS)}",
            )
        if not self.enable_idempotence:
            return
        if self.acks != -1:
            raise InvalidConfig(
                "Must set acks to all in order to use the idempotent producer. "
                "Otherwise we cannot guarantee idempotence."
            )
        if self.retries == 0:
            raise InvalidConfig("Must set retries to non-zero when using the idempotent producer.")
        if self.max_in_flight_requests_per_connection > 5:
            raise InvalidConfig(
                "Must set max.in.flight.requests.per.connection to at most 5 to use the "
                "idempotent producer."
            )


class ConsumerConfig(ClientConfig, frozen=True, kw_only=True):
    """A consumer's settings. There is no group.id, because partitions are assigned manually."""

    auto_offset_reset: OffsetReset = "latest"
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
