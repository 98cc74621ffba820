"""Znodes under /admin, with requests of tools to the controller. Mirrors kafka.zk.ZkData.

Also znodes that klamm does not use except for their paths: consumers, ACLs, delegation tokens.
Pure: paths, encode, decode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from klamm.cluster.types import TopicPartition
from klamm.zk.znodes.json_values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    NULL_POINTER,
    MalformedZNode,
    UnparsableJson,
    as_text,
    parse_bytes,
    parse_int,
)
from klamm.zk.znodes.notifications import decode_partitions, encode_partitions

ReassignmentTargets = dict[TopicPartition, tuple[int, ...] | None]
"""Target replicas by partition; None: the entry has no list of replicas."""


class AdminZNode:
    """/admin"""

    path: Final = "/admin"


class DeleteTopicsZNode:
    """/admin/delete_topics"""

    path: Final = "/admin/delete_topics"


class DeleteTopicsTopicZNode:
    """/admin/delete_topics/TOPIC: holds null."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the path of the request to delete ``topic``."""
        return f"/admin/delete_topics/{topic}"


class PreferredReplicaElectionZNode:
    """/admin/preferred_replica_election: partitions with a requested preferred election."""

    path: Final = "/admin/preferred_replica_election"
    encode = staticmethod(encode_partitions)
    decode = staticmethod(decode_partitions)


class ReassignPartitionsZNode:
    """/admin/reassign_partitions: target replicas of partitions.

    Kafka reads this znode with Jackson's data binding, unlike the others: numbers are coerced, and
    unknown fields are rejected.
    """

    path: Final = "/admin/reassign_partitions"

    @staticmethod
    def encode(reassignment: Mapping[TopicPartition, Sequence[int] | None]) -> bytes:
        """Encode as JSON version 1, with partitions in the given order."""
        items = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
            for tp, replicas in reassignment.items()
        ]
        return msgspec.json.encode({"version": 1, "partitions": items})

    @staticmethod
    def decode(data: bytes | None) -> ReassignmentTargets:
        """Decode the targets by partition; None for an entry without replicas.

        Raises UnparsableJson where Kafka logs a warning and takes the znode for empty, and
        MalformedZNode where Kafka throws.
        """
        node = parse_bytes(data)
        if node is None:
            raise MalformedZNode("null in /admin/reassign_partitions", NULL_POINTER)
        fields = _bind_object(node, ("version", "partitions"))
        _bind_int(fields.get("version", 0))
        partitions = fields.get("partitions")
        if partitions is not None and not isinstance(partitions, list):
            raise UnparsableJson(f"partitions is not a list: {as_text(partitions)}")
        entries = [_bind_entry(item) for item in partitions or ()]
        if partitions is None:
            raise MalformedZNode("no partitions in /admin/reassign_partitions", NULL_POINTER)
        return dict(_reassignment(entry) for entry in entries)


_Entry = tuple[str | None, int, list[Any] | None]


def _bind_object(node: object, known: tuple[str, ...]) -> dict[str, Any]:
    if node is MISSING or not isinstance(node, dict):
        raise UnparsableJson(f"not a JSON object: {as_text(node)}")
    for name in node:
        if name not in known:
            raise UnparsableJson(f"unrecognized field {name}")
    return node


def _bind_int(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        text = value.strip()
        if text in ("", "null"):
            return 0
        try:
            return parse_int(text)
        except MalformedZNode as error:
            raise UnparsableJson(error.reason) from None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = int(value)
        if INT_MIN <= number <= INT_MAX:
            return number
    raise UnparsableJson(f"not an int: {as_text(value)}")


def _bind_entry(item: object) -> _Entry | None:
    if item is None:
        return None
    node = _bind_object(item, ("topic", "partition", "replicas"))
    topic = node.get("topic")
    if isinstance(topic, (dict, list)):
        raise UnparsableJson(f"topic is not a string: {as_text(topic)}")
    replicas = node.get("replicas")
    if replicas is not None and not isinstance(replicas, list):
        raise UnparsableJson(f"replicas is not a list: {as_text(replicas)}")
    name = topic if topic is None or isinstance(topic, str) else as_text(topic)
    return name, _bind_int(node.get("partition")), replicas


def _reassignment(entry: _Entry | None) -> tuple[TopicPartition, tuple[int, ...] | None]:
    if entry is None:
        raise MalformedZNode("null among the partitions", NULL_POINTER)
    topic, partition, replicas = entry
    for replica in replicas or ():
        if type(replica) is not int or not INT_MIN <= replica <= INT_MAX:
            raise MalformedZNode(
                f"not a broker id: {as_text(replica)}", "java.lang.ClassCastException"
            )
    # A missing topic is null in Kafka; here "", which is not a valid topic name either.
    tp = TopicPartition("" if topic is None else topic, partition)
    return tp, None if replicas is None else tuple(replicas)


class ConsumerPathZNode:
    """/consumers: the root of the old consumers."""

    path: Final = "/consumers"


class DelegationTokenAuthZNode:
    """/delegation_token"""

    path: Final = "/delegation_token"


class DelegationTokensZNode:
    """/delegation_token/tokens"""

    path: Final = "/delegation_token/tokens"


class ExtendedAclZNode:
    """/kafka-acl-extended"""

    path: Final = "/kafka-acl-extended"


class AclZNode:
    """/kafka-acl: ACLs of literal names."""

    path: Final = "/kafka-acl"
