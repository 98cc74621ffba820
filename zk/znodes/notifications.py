"""Notices that brokers leave for the controller: changed ISRs, failed log directories.

Pure; mirrors kafka.zk.ZkData. The controller deletes every notice that it read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from klamm.cluster.types import TopicPartition
from klamm.zk.znodes.json_values import (
    MalformedZNode,
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
    """A JSON list of partitions, version 1, in the order given."""
    items = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return msgspec.json.encode({"version": 1, "partitions": items})


def decode_partitions(data: bytes | None) -> list[TopicPartition]:
    """The partitions without duplicates; none if ``data`` is not JSON. Raises MalformedZNode."""
    try:
        items = as_array(field(as_object(parse_bytes(data)), "partitions"))
    except UnparsableJson:
        return []
    return list(dict.fromkeys(_partition(item) for item in items))


def _partition(item: object) -> TopicPartition:
    node = as_object(item)
    return TopicPartition(to_str(field(node, "topic")), to_int(field(node, "partition")))


def _after_last(text: str, prefix: str) -> str:
    """What follows the last ``prefix``; without one, Kafka cuts off that many characters but one.

    Raises MalformedZNode if there are not as many.
    """
    begin = text.rfind(prefix) + len(prefix)
    if begin > len(text):
        raise MalformedZNode(
            f"begin {begin}, end {len(text)}, length {len(text)}",
            "java.lang.StringIndexOutOfBoundsException",
        )
    return text[begin:]


class IsrChangeNotificationZNode:
    """/isr_change_notification"""

    path: Final = "/isr_change_notification"


class IsrChangeNotificationSequenceZNode:
    """/isr_change_notification/isr_change_N: partitions whose ISR their leader changed."""

    sequence_number_prefix: Final = "isr_change_"

    @staticmethod
    def path(sequence_number: str = "") -> str:
        """The path of a notice; without a number, the path to create the next one with."""
        return f"/isr_change_notification/isr_change_{sequence_number}"

    encode = staticmethod(encode_partitions)
    decode = staticmethod(decode_partitions)

    @staticmethod
    def sequence_number(path: str) -> str:
        """The number at the end of a path or a child's name."""
        return _after_last(path, "isr_change_")


class LogDirEventNotificationZNode:
    """/log_dir_event_notification"""

    path: Final = "/log_dir_event_notification"


class LogDirEventNotificationSequenceZNode:
    """/log_dir_event_notification/log_dir_event_N: a broker one of whose directories failed."""

    sequence_number_prefix: Final = "log_dir_event_"

    @staticmethod
    def path(sequence_number: str = "") -> str:
        """The path of a notice; without a number, the path to create the next one with."""
        return f"/log_dir_event_notification/log_dir_event_{sequence_number}"

    @staticmethod
    def encode(broker_id: int) -> bytes:
        """JSON version 1; the event is always the failure of a directory."""
        return msgspec.json.encode(
            {"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE_EVENT}
        )

    @staticmethod
    def decode(data: bytes | None) -> int | None:
        """The broker's id; None if ``data`` is not JSON. Raises MalformedZNode."""
        try:
            return to_int(field(as_object(parse_bytes(data)), "broker"))
        except UnparsableJson:
            return None

    @staticmethod
    def sequence_number(path: str) -> str:
        """The number at the end of a path or a child's name."""
        return _after_last(path, "log_dir_event_")
