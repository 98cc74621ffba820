"""Formats of the brokers' znodes: registrations, and the counter for generated broker ids.

Mirrors kafka.zk.ZkData.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from klamm.cluster.counting import parse_whole_number
from klamm.cluster.types import Broker, EndPoint
from klamm.zk.znodes.features import VersionRange, features_field, version_ranges
from klamm.zk.znodes.json_values import (
    KAFKA_EXCEPTION,
    NUMBER_FORMAT,
    MalformedZNode,
    as_array,
    as_object,
    field,
    illegal_content,
    parse_int,
    parse_object,
    to_int,
    to_str,
    utf8,
)

REGISTRATION_VERSION: Final = 5
NO_JMX_PORT: Final = -1
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DEFAULT_PROTOCOL_MAP: Final = {name: name for name in SECURITY_PROTOCOLS}
_CONNECTION_STRING: Final = re.compile(
    r"([^\n\r\u0085\u2028\u2029]*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)"
)


def uses_tls(protocol: str) -> bool:
    """Return True if connections with this security protocol are encrypted."""
    return protocol in ("SSL", "SASL_SSL")


def uses_sasl(protocol: str) -> bool:
    """Return True if clients authenticate themselves with SASL with this security protocol."""
    return protocol in ("SASL_PLAINTEXT", "SASL_SSL")


class BrokersZNode:
    """/brokers: parent of the znodes of brokers and topics."""

    path: Final = "/brokers"


class BrokerIdsZNode:
    """/brokers/ids: parent of the broker registrations."""

    path: Final = "/brokers/ids"


class BrokerSequenceIdZNode:
    """/brokers/seqid: counter for generated broker ids; its value is the znode's version."""

    path: Final = "/brokers/seqid"


class BrokerInfo(msgspec.Struct, frozen=True):
    """Content of a broker's registration: the broker, and fields that exist only in the znode."""

    broker: Broker
    version: int = REGISTRATION_VERSION
    jmx_port: int = NO_JMX_PORT
    features: dict[str, VersionRange] = {}


class BrokerIdZNode:
    """/brokers/ids/N: ephemeral registration of a broker."""

    @staticmethod
    def path(broker_id: int) -> str:
        """Return the path of the broker's registration znode."""
        return f"/brokers/ids/{broker_id}"

    @staticmethod
    def id_of(path: str) -> int | None:
        """Return the broker id in the path of a registration znode, or None for other paths."""
        parent, _, name = path.rpartition("/")
        return parse_whole_number(name) if parent == BrokerIdsZNode.path else None

    @staticmethod
    def encode(info: BrokerInfo, timestamp_ms: int) -> bytes:
        """Encode a registration as JSON. The format version ``info.version`` determines the fields.

        If the rack is None, its field is omitted. ``host`` and ``port`` are those of the first
        PLAINTEXT end point, or null and -1 if there is none.
        """
        broker = info.broker
        plaintext = next((e for e in broker.end_points if e.security_protocol == "PLAINTEXT"), None)
        content: dict[str, Any] = {}
        if info.version >= 5:
            content["features"] = {
                name: {"min_version": versions.min, "max_version": versions.max}
                for name, versions in info.features.items()
            }
        if info.version >= 4:
            content["listener_security_protocol_map"] = {
                e.listener_name: e.security_protocol for e in broker.end_points
            }
        content["endpoints"] = [e.connection_string for e in broker.end_points]
        if info.version >= 3 and broker.rack is not None:
            content["rack"] = broker.rack
        content["jmx_port"] = info.jmx_port
        content["port"] = plaintext.port if plaintext else -1
        content["host"] = (plaintext.host or None) if plaintext else None
        content["version"] = info.version
        content["timestamp"] = str(timestamp_ms)
        return msgspec.json.encode(content)

    @staticmethod
    def decode(broker_id: int, data: bytes | None) -> BrokerInfo:
        """Decode a registration. Raises MalformedZNode if Kafka's decoder throws."""
        failure = f"Failed to parse ZooKeeper registration for broker {broker_id}:"
        node = parse_object(data, failure, KAFKA_EXCEPTION)
        version = to_int(field(node, "version"))
        jmx_port = to_int(field(node, "jmx_port"))
        if version < 1:
            raise MalformedZNode(
                f"Unsupported version of broker registration: {utf8(data or b'')}", KAFKA_EXCEPTION
            )
        end_points = _end_points(node, version)
        rack = to_str(node["rack"]) if node.get("rack") is not None else None
        features = version_ranges(features_field(node) or {}, "min_version", "max_version")
        if len({end_point.listener_name for end_point in end_points}) < len(end_points):
            raise illegal_content(
                "There is more than one end point with the same listener name: "
                + ",".join(
                    f"EndPoint({e.host or 'null'},{e.port},ListenerName({e.listener_name}),"
                    f"{e.security_protocol})"
                    for e in end_points
                )
            )
        return BrokerInfo(Broker(broker_id, end_points, rack), version, jmx_port, features)


def _end_points(node: dict[str, Any], version: int) -> tuple[EndPoint, ...]:
    if version == 1:
        return (EndPoint(to_str(field(node, "host")), to_int(field(node, "port"))),)
    protocols: Mapping[str, str] = _DEFAULT_PROTOCOL_MAP
    if "listener_security_protocol_map" in node:
        listeners = as_object(node["listener_security_protocol_map"])
        names = {listener: to_str(value) for listener, value in listeners.items()}
        protocols = {listener: _protocol(name) for listener, name in names.items()}
    texts = [to_str(text) for text in as_array(field(node, "endpoints"))]
    return tuple(_end_point(text, protocols) for text in texts)


def _protocol(text: str) -> str:
    name = text.upper()
    if name not in SECURITY_PROTOCOLS:
        raise illegal_content(
            f"No enum constant org.apache.kafka.common.security.auth.SecurityProtocol.{name}"
        )
    return name


def _end_point(text: str, protocols: Mapping[str, str]) -> EndPoint:
    match = _CONNECTION_STRING.fullmatch(text)
    if match is None:
        raise MalformedZNode(f"Unable to parse {text} to a broker endpoint", KAFKA_EXCEPTION)
    listener = match[1].upper()
    port = _port(match[3])
    if listener not in protocols:
        raise illegal_content(f"No security protocol defined for listener {listener}")
    return EndPoint(match[2], port, listener, protocols[listener])


def _port(text: str) -> int:
    try:
        return parse_int(text)
    except MalformedZNode:
        raise MalformedZNode(f'For input string: "{text}"', NUMBER_FORMAT) from None
