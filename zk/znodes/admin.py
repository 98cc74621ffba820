"""Formats of the znodes under /admin, through which tools send requests to the controller.

The file also has the paths of znodes that klamm creates or sets ACLs on, but never reads:
consumers, ACLs and delegation tokens. Mirrors kafka.zk.ZkData.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from klamm.cluster.jvm.java_strings import java_trim
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
"""Target replicas, keyed by partition; None if the znode's entry has no list of broker ids."""


class AdminZNode:
    """/admin: parent of the requests that tools send to the controller."""

    path: Final = "/admin"


class DeleteTopicsZNode:
    """/admin/delete_topics: parent of the requests to delete topics."""

    path: Final = "/admin/delete_topics"


class DeleteTopicsTopicZNode:
    """/admin/delete_topics/TOPIC: a request to delete the topic, with null data."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the path of the request to delete ``topic``."""
        return f"/admin/delete_topics/{topic}"


class PreferredReplicaElectionZNode:
    """/admin/preferred_replica_election: partitions whose preferred leader is to be elected."""

    path: Final = "/admin/preferred_replica_election"
    encode = staticmethod(encode_partitions)
    decode = staticmethod(decode_partitions)


class ReassignPartitionsZNode:
    """/admin/reassign_partitions: target replicas of the partitions to reassign.

    Kafka decodes this znode, unlike others, with Jackson's data binding: strings and fractions are
    converted to integers, and unknown fields are rejected. Only replicas are not converted: Jackson
    does not see that a list of Scala's Int contains integers.
    """

    path: Final = "/admin/reassign_partitions"

    @staticmethod
    def encode(reassignment: Mapping[TopicPartition, Sequence[int] | None]) -> bytes:
        """Encode target replicas as JSON (format version 1), with partitions in the given order."""
        items = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
            for tp, replicas in reassignment.items()
        ]
        return msgspec.json.encode({"version": 1, "partitions": items})

    @staticmethod
    def decode(data: bytes | None) -> ReassignmentTargets:
        """Decode the target replicas, keyed by partition; None for an entry without broker ids.

        Such an entry has no list of replicas, or a list with other values, e.g. strings.

        Raises UnparsableJson if Kafka would log a warning and treat the znode as empty, and
        MalformedZNode if Kafka's decoder throws.
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
            raise MalformedZNode("the field partitions is missing or null", NULL_POINTER)
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
        text = java_trim(value)
        if text in ("", "null"):
            return 0
        try:
            return parse_int(text)
        except MalformedZNode as error:
            raise UnparsableJson(error.reason) from None
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and INT_MIN <= value <= INT_MAX
    ):
        return int(value)
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


def _is_int(value: object) -> bool:
    return type(value) is int and INT_MIN <= value <= INT_MAX


def _reassignment(entry: _Entry | None) -> tuple[TopicPartition, tuple[int, ...] | None]:
    if entry is None:
        raise MalformedZNode("the list of partitions contains null", NULL_POINTER)
    topic, partition, replicas = entry
    if replicas is not None and not all(map(_is_int, replicas)):
        replicas = None
    # A missing topic is null in Kafka; here "", which is not a valid topic name either.
    tp = TopicPartition("" if topic is None else topic, partition)
    return tp, None if replicas is None else tuple(replicas)


class ConsumerPathZNode:
    """/consumers: parent of the znodes of the old, ZooKeeper-based consumers."""

    path: Final = "/consumers"


class DelegationTokenAuthZNode:
    """/delegation_token: parent of all znodes for delegation tokens."""

    path: Final = "/delegation_token"


class DelegationTokensZNode:
    """/delegation_token/tokens: parent of the delegation tokens."""

    path: Final = "/delegation_token/tokens"


class ExtendedAclZNode:
    """/kafka-acl-extended: Kafka ACLs for resource name prefixes."""

    path: Final = "/kafka-acl-extended"


class AclZNode:
    """/kafka-acl: Kafka ACLs for literal resource names."""

    path: Final = "/kafka-acl"
