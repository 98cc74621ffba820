"""Clients of others that connect with TLS, or with TLS and SASL."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.zookeeper_tls import Certificates

PATIENCE_S = 30


class Login(NamedTuple):
    """How a client authenticates with SASL."""

    mechanism: str
    user: str
    password: str


def trusting(ca: Path, certificates: Certificates | None = None) -> ssl.SSLContext:
    """Return the context of a client that trusts ``ca``, and has a certificate if one is given."""
    context = ssl.create_default_context(cafile=ca)
    if certificates is not None:
        context.load_cert_chain(certificates.client, certificates.client_key)
    return context


def protocol_of(login: Login | None) -> str:
    return "SSL" if login is None else "SASL_SSL"


def security_of(login: Login | None) -> dict[str, str]:
    """Return the security settings of aiokafka and kafka-python, without certificates."""
    at = {"security_protocol": protocol_of(login)}
    if login is not None:
        at |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return at


def with_aiokafka(servers: list[str], ca: Path, login: Login | None = None) -> bytes:
    """Produce a record to the topic t, and return the value of the first record."""

    async def round_trip() -> bytes:
        at = {
            "bootstrap_servers": servers,
            "ssl_context": trusting(ca),
            **security_of(login),
        }
        async with aiokafka.AIOKafkaProducer(**at) as producer:
            await producer.send_and_wait("t", b"record")
        async with aiokafka.AIOKafkaConsumer("t", auto_offset_reset="earliest", **at) as consumer:
            record = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
            return bytes(record.value)

    return asyncio.run(round_trip())


def with_kafka_python(servers: list[str], ca: Path, login: Login | None = None) -> bytes:
    """Produce a record to the topic t, and return the value of the first record."""
    at = {
        "bootstrap_servers": servers,
        "ssl_cafile": str(ca),
        **security_of(login),
    }
    producer = kafka.KafkaProducer(**at)
    producer.send("t", b"record").get(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer("t", auto_offset_reset="earliest", **at)
    record = next(consumer)
    consumer.close()
    return bytes(record.value)


def with_librdkafka(servers: list[str], ca: Path, login: Login | None = None) -> bytes:
    """Produce a record to the topic t, and return the value of the first record."""
    at = librdkafka_config(servers, ca, login)
    producer = confluent_kafka.Producer({**at, "linger.ms": 0})
    producer.produce("t", b"record")
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer({**at, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    record = consumer.poll(PATIENCE_S)
    consumer.close()
    assert record is not None
    return bytes(record.value())


def librdkafka_config(servers: list[str], ca: Path, login: Login | None) -> dict[str, Any]:
    """Return the config of a client of librdkafka."""
    config: dict[str, Any] = {
        "bootstrap.servers": ",".join(servers),
        "security.protocol": protocol_of(login),
        "ssl.ca.location": str(ca),
    }
    if login is not None:
        config |= {
            "sasl.mechanism": login.mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    return config


ROUND_TRIPS = {
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
    "confluent-kafka": with_librdkafka,
}
ROUND_TRIP_PARAMS = [
    pytest.param(round_trip, id=name, marks=pytest.mark.client(name))
    for name, round_trip in ROUND_TRIPS.items()
]
