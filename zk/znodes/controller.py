"""Znodes of the controller and of the cluster as a whole. Pure; mirrors kafka.zk.ZkData."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

from klamm.zk.znodes.features import VersionRange, features_field, version_ranges
from klamm.zk.znodes.json_values import (
    ILLEGAL_ARGUMENT,
    KAFKA_EXCEPTION,
    NULL_POINTER,
    MalformedZNode,
    UnparsableJson,
    as_object,
    field,
    illegal_argument,
    parse_bytes,
    parse_int,
    parse_long,
    parse_object,
    to_int,
    to_str,
    utf8,
)


class ControllerZNode:
    """/controller: id of the active controller; ephemeral."""

    path: Final = "/controller"

    @staticmethod
    def encode(broker_id: int, timestamp_ms: int) -> bytes:
        """Encode to the bytes that Kafka 2.8.2 writes; the timestamp is a JSON string."""
        return msgspec.json.encode(
            {"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)}
        )

    @staticmethod
    def decode(data: bytes | None) -> int | None:
        """Decode the controller's broker id; None if not JSON. Raises MalformedZNode."""
        try:
            return to_int(field(as_object(parse_bytes(data)), "brokerid"))
        except UnparsableJson:
            return None


class ControllerEpochZNode:
    """/controller_epoch: a decimal number; its znode version fences the controller's writes."""

    path: Final = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        """Encode the epoch in decimal."""
        return b"%d" % epoch

    @staticmethod
    def decode(data: bytes | None) -> int:
        """Decode the epoch. Raises MalformedZNode where Integer.parseInt would throw."""
        if data is None:
            raise MalformedZNode("null controller epoch", NULL_POINTER)
        return parse_int(utf8(data))


class ClusterZNode:
    """/cluster"""

    path: Final = "/cluster"


class ClusterIdZNode:
    """/cluster/id"""

    path: Final = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        """Encode as JSON; the version is the string "1" here."""
        return msgspec.json.encode({"version": "1", "id": cluster_id})

    @staticmethod
    def decode(data: bytes | None) -> str:
        """Decode the cluster id. Raises MalformedZNode."""
        node = parse_object(data, "Failed to parse the cluster id json", KAFKA_EXCEPTION)
        return to_str(field(node, "id"))


class ProducerIdBlock(NamedTuple):
    """Block of producer ids allocated by a broker; both ends are inclusive."""

    broker_id: int
    block_start: int
    block_end: int


class ProducerIdBlockZNode:
    """/latest_producer_id_block: null until the first block is allocated."""

    path: Final = "/latest_producer_id_block"

    @staticmethod
    def encode(block: ProducerIdBlock) -> bytes:
        """Encode as JSON; both ends are strings."""
        return msgspec.json.encode(
            {
                "version": 1,
                "broker": block.broker_id,
                "block_start": str(block.block_start),
                "block_end": str(block.block_end),
            }
        )

    @staticmethod
    def decode(data: bytes) -> ProducerIdBlock:
        """Decode the last allocated block. Raises MalformedZNode."""
        node = parse_object(data, "Failed to parse the producerId block json", KAFKA_EXCEPTION)
        return ProducerIdBlock(
            to_int(field(node, "broker")),
            parse_long(to_str(field(node, "block_start"))),
            parse_long(to_str(field(node, "block_end"))),
        )


class FeatureZNodeStatus(IntEnum):
    """Whether feature versioning (KIP-584) is enabled."""

    DISABLED = 0
    ENABLED = 1


class FeatureZNode(msgspec.Struct, frozen=True):
    """/feature: the finalized features of the cluster."""

    status: FeatureZNodeStatus
    features: dict[str, VersionRange]

    path = "/feature"

    def encode(self) -> bytes:
        """Encode as JSON version 1."""
        features = {
            name: {"min_version_level": levels.min, "max_version_level": levels.max}
            for name, levels in self.features.items()
        }
        return msgspec.json.encode({"features": features, "version": 1, "status": int(self.status)})

    @staticmethod
    def decode(data: bytes | None) -> FeatureZNode:
        """Decode features and status. Raises MalformedZNode, also for unparsable JSON."""
        node = parse_object(data, "Failed to parse feature information:", ILLEGAL_ARGUMENT)
        text = utf8(data or b"")
        version = to_int(field(node, "version"))
        if version < 1:
            raise illegal_argument(f"Unsupported version: {version} of feature information: {text}")
        features = features_field(node)
        if features is None:
            raise illegal_argument(f"Features map can not be absent in: {text}")
        status = _status(node, text)
        return FeatureZNode(status, _finalized(features))


def _status(node: dict[str, Any], text: str) -> FeatureZNodeStatus:
    if node.get("status") is None:
        raise illegal_argument(f"Status can not be absent in feature information: {text}")
    status = to_int(node["status"])
    if status not in (0, 1):
        raise illegal_argument(
            f"Malformed status: Some({status}) found in feature information: {text}"
        )
    return FeatureZNodeStatus(status)


def _finalized(features: Mapping[str, Mapping[str, int]]) -> dict[str, VersionRange]:
    try:
        return version_ranges(features, "min_version_level", "max_version_level")
    except MalformedZNode as error:
        shown = ", ".join(
            f"{name}={{{', '.join(f'{label}={level}' for label, level in levels.items())}}}"
            for name, levels in features.items()
        )
        raise illegal_argument(
            f"Unable to convert to finalized features from map: {{{shown}}}"
        ) from error
