"""Formats of the znodes under /brokers/topics: assignments and partition states.

Encoding and decoding of the state znode are optimized: a failover reads the state of every
partition, and a broker failure rewrites the state of every partition on the broker. Mirrors
kafka.zk.ZkData.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from klamm.cluster.counting import parse_whole_number
from klamm.cluster.jvm.java_base64 import decode_url_base64
from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.zk.znodes.json_values import (
    INT_MAX,
    INT_MIN,
    UnparsableJson,
    as_object,
    field,
    illegal_content,
    parse_bytes,
    parse_int,
    to_int,
    to_ints,
    to_str,
)

_JavaInt = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
_TOPIC_ID_BYTES: Final = 16
_TOPIC_ID_MAX_LENGTH: Final = 24


class TopicsZNode:
    """/brokers/topics: parent of the topic znodes."""

    path: Final = "/brokers/topics"


class TopicZNode:
    """/brokers/topics/TOPIC: topic id and replica assignment of the topic."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the path of the topic znode."""
        return f"/brokers/topics/{topic}"

    @staticmethod
    def encode(
        topic_id: str | None, assignment: Mapping[TopicPartition, ReplicaAssignment]
    ) -> bytes:
        """Encode a topic as JSON (format version 3), with partitions in numeric order.

        If ``topic_id`` is None, the field is omitted.
        """
        partitions, adding, removing = {}, {}, {}
        for tp in sorted(assignment):
            replicas = assignment[tp]
            key = str(tp.partition)
            partitions[key] = replicas.replicas
            if replicas.adding_replicas:
                adding[key] = replicas.adding_replicas
            if replicas.removing_replicas:
                removing[key] = replicas.removing_replicas
        content: dict[str, Any] = {"partitions": partitions}
        if topic_id is not None:
            content["topic_id"] = topic_id
        content["adding_replicas"] = adding
        content["removing_replicas"] = removing
        content["version"] = 3
        return msgspec.json.encode(content)

    @staticmethod
    def decode(topic: str, data: bytes | None) -> TopicIdReplicaAssignment:
        """Decode the topic id and the replica assignment. The field ``version`` is ignored.

        As in Kafka, the assignment is empty if ``data`` is not JSON. Raises MalformedZNode if
        Kafka's decoder throws.
        """
        try:
            node = as_object(parse_bytes(data))
        except UnparsableJson:
            return TopicIdReplicaAssignment(topic, None, {})
        topic_id = _topic_id(to_str(node["topic_id"])) if "topic_id" in node else None
        adding, removing, partitions = (
            as_object(node[name]) if name in node else {}
            for name in ("adding_replicas", "removing_replicas", "partitions")
        )
        assignment = {
            TopicPartition(topic, parse_int(key)): ReplicaAssignment(
                to_ints(replicas),
                to_ints(adding[key]) if key in adding else (),
                to_ints(removing[key]) if key in removing else (),
            )
            for key, replicas in partitions.items()
        }
        return TopicIdReplicaAssignment(topic, topic_id, assignment)


def _topic_id(text: str) -> str:
    """Parse a topic id, and return it in Kafka's canonical form (Uuid.fromString and toString)."""
    if len(text) > _TOPIC_ID_MAX_LENGTH:
        raise illegal_content(
            f"Input string with prefix `{text[:_TOPIC_ID_MAX_LENGTH]}` is too long "
            "to be decoded as a base64 UUID"
        )
    raw = decode_url_base64(text)
    if raw is None:
        raise illegal_content(f"Illegal base64 in topic id `{text}`")
    if len(raw) != _TOPIC_ID_BYTES:
        raise illegal_content(
            f"Input string `{text}` decoded as {len(raw)} bytes, which is not equal to the "
            f"expected {_TOPIC_ID_BYTES} bytes of a base64-encoded UUID"
        )
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class TopicPartitionsZNode:
    """/brokers/topics/TOPIC/partitions: parent of the topic's partition znodes."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the parent path of the topic's partition znodes."""
        return f"/brokers/topics/{topic}/partitions"


class TopicPartitionZNode:
    """/brokers/topics/TOPIC/partitions/N: parent of the partition's state znode."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Return the path of the partition znode, which is the parent of the state znode."""
        return f"/brokers/topics/{partition[0]}/partitions/{partition[1]}"


class _State(msgspec.Struct, gc=False):
    leader: _JavaInt
    leader_epoch: _JavaInt
    isr: tuple[_JavaInt, ...]
    controller_epoch: _JavaInt


_decode_state: Final = msgspec.json.Decoder(_State).decode


@lru_cache(maxsize=65536)
def _isr_text(isr: tuple[int, ...]) -> str:
    return ",".join(map(str, isr))


class TopicPartitionStateZNode:
    """/brokers/topics/TOPIC/partitions/N/state: leader, ISR and epochs of the partition."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Return the path of the partition's state znode."""
        return f"/brokers/topics/{partition[0]}/partitions/{partition[1]}/state"

    @staticmethod
    def partition_of(path: str) -> TopicPartition | None:
        """Return the partition in the path of a state znode, or None for other paths."""
        match path.split("/"):
            case ["", "brokers", "topics", topic, "partitions", number, "state"]:
                partition = parse_whole_number(number)
                return None if partition is None else TopicPartition(topic, partition)
        return None

    @staticmethod
    def encode(state: LeaderAndIsr, controller_epoch: int) -> bytes:
        """Encode a partition state, except for its zkVersion, to the same bytes as Kafka 2.8.2."""
        return (
            f'{{"controller_epoch":{controller_epoch},"leader":{state.leader},"version":1,'
            f'"leader_epoch":{state.leader_epoch},"isr":[{_isr_text(state.isr)}]}}'
        ).encode()

    @staticmethod
    def decode(data: bytes | None, zk_version: int) -> LeaderIsrAndControllerEpoch | None:
        """Decode the partition state. As in Kafka, return None if ``data`` is not JSON.

        ``zk_version`` is the znode's data version. Raises MalformedZNode if Kafka's decoder throws.
        """
        try:
            state = _decode_state(data)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            return _decode_state_slowly(data, zk_version)
        return LeaderIsrAndControllerEpoch(
            LeaderAndIsr(state.leader, state.leader_epoch, state.isr, zk_version),
            state.controller_epoch,
        )


def _decode_state_slowly(data: bytes | None, zk_version: int) -> LeaderIsrAndControllerEpoch | None:
    """Decode a state that the fast but stricter decoder has rejected.

    Fields are checked in the same order as in Kafka, so that errors are the same.
    """
    try:
        node = as_object(parse_bytes(data))
    except UnparsableJson:
        return None
    leader = to_int(field(node, "leader"))
    leader_epoch = to_int(field(node, "leader_epoch"))
    isr = to_ints(field(node, "isr"))
    controller_epoch = to_int(field(node, "controller_epoch"))
    return LeaderIsrAndControllerEpoch(
        LeaderAndIsr(leader, leader_epoch, isr, zk_version), controller_epoch
    )
