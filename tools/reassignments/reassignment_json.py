"""Parses and formats the JSON of kafka-reassign-partitions: reassignments and topic lists.

The functions read no files. Mirrors ReassignPartitionsCommand.parse*Args,
parsePartitionReassignmentData, parseTopicsData and formatAsReassignmentJson.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from klamm.cluster.errors import AdminCommandFailed, AdminOperationError
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_strings import java_split
from klamm.cluster.jvm.scala_sets import duplicates, int_hash, topic_partition_hash
from klamm.cluster.types import TopicPartition, TopicPartitionReplica
from klamm.tools.tool_json import decoding, parse_json
from klamm.zk.znodes.json_values import (
    as_array,
    as_object,
    field,
    parse_int,
    to_int,
    to_ints,
    to_str,
)

ANY_LOG_DIR: Final = "any"
_VERSION: Final = 1

Replicas = tuple[int, ...]


class ReassignmentData(NamedTuple):
    """A parsed reassignment file.

    ``partitions`` lists the partitions, each with its target replicas; a partition may occur twice.
    ``log_dirs`` has the target log directories.
    """

    partitions: list[tuple[TopicPartition, Replicas]]
    log_dirs: dict[TopicPartitionReplica, str]


@decoding()
def parse_reassignment(text: str) -> ReassignmentData:
    """Parse a reassignment file without checking for duplicates or empty lists.

    Raises UncaughtException.
    """
    read = ReassignmentData([], {})
    for item in _items(parse_json(text), "partitions"):
        _read_partition(as_object(item), read)
    return read


@decoding()
def parse_execute_arguments(
    text: str,
) -> tuple[dict[TopicPartition, Replicas], dict[TopicPartitionReplica, str]]:
    """Parse and check a reassignment for ``--execute``.

    Returns the target replicas keyed by partition, and the log directories keyed by replica. Raises
    UncaughtException for the first of these: an error of ``parse_reassignment``, an empty plan, an
    empty replica list, a duplicate partition, a duplicate replica.
    """
    partitions, log_dirs = parse_reassignment(text)
    if not partitions:
        raise AdminCommandFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in partitions):
        raise AdminCommandFailed("Partition replica list cannot be empty")
    repeated = duplicates([tp for tp, _ in partitions], topic_partition_hash)
    if repeated:
        raise AdminCommandFailed(
            "Partition reassignment contains duplicate topic partitions: "
            + ",".join(map(str, repeated))
        )
    wrong = [(tp, duplicates(replicas, int_hash)) for tp, replicas in partitions]
    shown = [
        f"{tp} contains multiple entries for {','.join(map(str, ids))}" for tp, ids in wrong if ids
    ]
    if shown:
        raise AdminCommandFailed(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(shown)}"
        )
    return dict(partitions), log_dirs


@decoding()
def parse_generate_arguments(text: str, broker_list: str) -> tuple[list[int], list[str]]:
    """Parse the broker list and the topics file for ``--generate``, in this order.

    Raises UncaughtException.
    """
    brokers = [parse_int(word) for word in java_split(broker_list, ",")]
    _refuse_duplicates(brokers, int_hash, "Broker list")
    topics = _parse_topics(text)
    _refuse_duplicates(topics, string_hash, "List of topics to reassign")
    return brokers, topics


def format_reassignment(
    partitions: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[TopicPartitionReplica, str],
) -> str:
    """Format a reassignment as the tool prints it: compact, sorted JSON."""
    return msgspec.json.encode(reassignment_values(partitions, log_dirs)).decode()


def reassignment_values(
    partitions: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[TopicPartitionReplica, str],
) -> dict[str, Any]:
    """Return a reassignment as the values of the tool's JSON, sorted by partition.

    The log directory of a replica that is not in ``log_dirs`` is "any".
    """
    items = [
        {
            **tp._asdict(),
            "replicas": partitions[tp],
            "log_dirs": [
                log_dirs.get(TopicPartitionReplica(*tp, replica), ANY_LOG_DIR)
                for replica in partitions[tp]
            ],
        }
        for tp in sorted(partitions)
    ]
    return {"version": _VERSION, "partitions": items}


def _items(node: Any, name: str) -> list[Any]:
    fields = as_object(node)
    version = to_int(fields["version"]) if "version" in fields else _VERSION
    if version != _VERSION:
        raise AdminOperationError(f"Not supported version field value {version}")
    return as_array(fields[name]) if name in fields else []


def _read_partition(fields: dict[str, Any], read: ReassignmentData) -> None:
    topic = to_str(field(fields, "topic"))
    partition = TopicPartition(topic, to_int(field(fields, "partition")))
    replicas = to_ints(field(fields, "replicas"))
    if "log_dirs" in fields:
        log_dirs = [to_str(item) for item in as_array(fields["log_dirs"])]
    else:
        log_dirs = [ANY_LOG_DIR] * len(replicas)
    if len(replicas) != len(log_dirs):
        raise AdminCommandFailed(
            f"Size of replicas list List({', '.join(map(str, replicas))}) is different from size "
            f"of log dirs list List({', '.join(log_dirs)}) for partition {partition}"
        )
    read.partitions.append((partition, replicas))
    read.log_dirs.update(
        {
            TopicPartitionReplica(*partition, replica): log_dir
            for replica, log_dir in zip(replicas, log_dirs, strict=True)
            if log_dir != ANY_LOG_DIR
        }
    )


def _parse_topics(text: str) -> list[str]:
    node = parse_json(text, "The input string is not a valid JSON")
    return [to_str(field(as_object(item), "topic")) for item in _items(node, "topics")]


def _refuse_duplicates(items: list[Any], hash_of: Callable[[Any], int], what: str) -> None:
    repeated = duplicates(items, hash_of)
    if repeated:
        raise AdminCommandFailed(
            f"{what} contains duplicate entries: {','.join(map(str, repeated))}"
        )
