"""Formats of the znodes by which brokers notify the controller of ISR changes and disk failures.

The controller deletes notifications after reading them. Mirrors kafka.zk.ZkData.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from klamm.cluster.types import TopicPartition
from klamm.zk.znodes.json_values import (
    UnparsableJson,
    as_array,
    as_object,
    field,
    parse_bytes,
    to_int,
    to_str,
)

LOG_DIR_FAILURE_EVENT: Final = 1


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode partitions as JSON (format version 1), in the given order."""
    items = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return msgspec.json.encode({"version": 1, "partitions": items})


def decode_partitions(data: bytes | None) -> list[TopicPartition]:
    """Decode partitions without duplicates. The list is empty if ``data`` is not JSON.

    Raises MalformedZNode if Kafka's decoder throws.
    """
    try:
        items = as_array(field(as_object(parse_bytes(data)), "partitions"))
    except UnparsableJson:
        return []
    return list(dict.fromkeys(_partition(item) for item in items))


def _partition(item: object) -> TopicPartition:
    node = as_object(item)
    return TopicPartition(to_str(field(node, "topic")), to_int(field(node, "partition")))


class IsrChangeNotificationZNode:
    """/isr_change_notification: parent of the ISR change notifications."""

    path: Final = "/isr_change_notification"


class IsrChangeNotificationSequenceZNode:
    """/isr_change_notification/isr_change_N: partitions whose leader changed the ISR."""

    sequence_number_prefix: Final = "isr_change_"

    @staticmethod
    def path(sequence_number: str = "") -> str:
        """Return the path of a notification.

        Without ``sequence_number``, return the path with which to create a sequential znode.
        """
        return f"/isr_change_notification/isr_change_{sequence_number}"

    encode = staticmethod(encode_partitions)
    decode = staticmethod(decode_partitions)


class LogDirEventNotificationZNode:
    """/log_dir_event_notification: parent of the notifications of failed log directories."""

    path: Final = "/log_dir_event_notification"


class LogDirEventNotificationSequenceZNode:
    """/log_dir_event_notification/log_dir_event_N: id of a broker whose log directory failed."""

    sequence_number_prefix: Final = "log_dir_event_"

    @staticmethod
    def path(sequence_number: str = "") -> str:
        """Return the path of a notification.

        Without ``sequence_number``, return the path with which to create a sequential znode.
        """
        return f"/log_dir_event_notification/log_dir_event_{sequence_number}"

    @staticmethod
    def encode(broker_id: int) -> bytes:
        """Encode a notification of a failed log directory as JSON (format version 1)."""
        return msgspec.json.encode(
            {"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE_EVENT}
        )

    @staticmethod
    def decode(data: bytes | None) -> int | None:
        """Decode the broker id. Return None if ``data`` is not JSON.

        Raises MalformedZNode if Kafka's decoder throws."""
        try:
            return to_int(field(as_object(parse_bytes(data)), "broker"))
        except UnparsableJson:
            return None
