"""Names of log directories and segment files. Text only: no file is accessed.

Mirrors the object kafka.log.Log (filenamePrefixFromOffset, logDirName, logDeleteDirName,
logFutureDirName, parseTopicPartitionName).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from klamm.brokers.logs.errors import LogStorageError
from klamm.cluster.types import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
DELETED_SUFFIX: Final = ".deleted"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
DELETE_DIR_SUFFIX: Final = "-delete"
FUTURE_DIR_SUFFIX: Final = "-future"

_OFFSET_DIGITS: Final = 20
_NAME_LENGTH_MAX: Final = 255
_MARKED: Final = re.compile(r"(\S+-\S+)\.\S+(-delete|-future)")
_SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex)")


class LogDirName(NamedTuple):
    """A parsed name of a log's directory. ``suffix``: "", "-delete" or "-future"."""

    partition: TopicPartition
    suffix: str


class SegmentFile(NamedTuple):
    """A parsed name of a segment file."""

    base_offset: int
    suffix: str


def file_name(base_offset: int, suffix: str) -> str:
    """Return ``00000000000000368769.log``: the base offset in 20 digits, and the suffix."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def parse_file_name(name: str) -> SegmentFile | None:
    """Parse a file name; None if it is not a segment file."""
    match = _SEGMENT_FILE.fullmatch(name)
    return SegmentFile(int(match[1]), match[2]) if match else None


def log_dir_name(partition: TopicPartition) -> str:
    """Return ``TOPIC-PARTITION``."""
    return str(partition)


def log_delete_dir_name(partition: TopicPartition, unique_id: str) -> str:
    """Return ``TOPIC-PARTITION.UNIQUE_ID-delete``, the topic shortened to fit 255 characters.

    ``unique_id``: 32 hexadecimal digits, an argument so that simulations are repeatable.
    """
    suffix = f"-{partition.partition}.{unique_id}{DELETE_DIR_SUFFIX}"
    return partition.topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix


def log_future_dir_name(partition: TopicPartition, unique_id: str) -> str:
    """Return ``TOPIC-PARTITION.UNIQUE_ID-future``; ``unique_id``: 32 hexadecimal digits."""
    return f"{log_dir_name(partition)}.{unique_id}{FUTURE_DIR_SUFFIX}"


def parse_log_dir_name(name: str) -> LogDirName:
    """Parse the name of a folder in a log directory. Raises LogStorageError if it is not a log."""
    marked = _MARKED.fullmatch(name)
    suffix = marked[2] if marked else ""
    is_unmarked = not marked and not name.endswith((DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX))
    topic, _, partition = (marked[1] if marked else name).rpartition("-")
    if not (marked or is_unmarked) or not topic or not partition.isdecimal():
        raise LogStorageError(
            f"Found directory {name} which is not in the form of topic-partition or "
            "topic-partition.uniqueId-delete (if marked for deletion).",
            hint="a log directory (and its children) should only contain topic data",
        )
    return LogDirName(TopicPartition(topic, int(partition)), suffix)
