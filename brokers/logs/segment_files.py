"""Names of log folders and segment files. This module accesses no files.

Mirrors methods of the companion object kafka.log.Log (filenamePrefixFromOffset, logDirName,
logDeleteDirName, logFutureDirName, parseTopicPartitionName).
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
    """The parts of the name of a log's folder. ``suffix`` is "", "-delete" or "-future"."""

    partition: TopicPartition
    suffix: str


class SegmentFile(NamedTuple):
    """The parts of the name of a segment file."""

    base_offset: int
    suffix: str


def file_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment file, for example ``00000000000000368769.log``."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def parse_file_name(name: str) -> SegmentFile | None:
    """Parse the name of a segment file. Return None if ``name`` is not such a name."""
    match = _SEGMENT_FILE.fullmatch(name)
    return SegmentFile(int(match[1]), match[2]) if match else None


def log_dir_name(partition: TopicPartition) -> str:
    """Return the name of a current log's folder: ``TOPIC-PARTITION``."""
    return str(partition)


def log_delete_dir_name(partition: TopicPartition, unique_id: str) -> str:
    """Return the name of a deleted log's folder: ``TOPIC-PARTITION.UNIQUE_ID-delete``.

    If the name would have more than 255 characters, the topic is shortened. ``unique_id`` consists
    of 32 hexadecimal digits. It is an argument to make simulations reproducible.
    """
    suffix = f"-{partition.partition}.{unique_id}{DELETE_DIR_SUFFIX}"
    return partition.topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix


def log_future_dir_name(partition: TopicPartition, unique_id: str) -> str:
    """Return the name of a future log's folder: ``TOPIC-PARTITION.UNIQUE_ID-future``.

    ``unique_id`` consists of 32 hexadecimal digits.
    """
    return f"{log_dir_name(partition)}.{unique_id}{FUTURE_DIR_SUFFIX}"


def parse_log_dir_name(name: str) -> LogDirName:
    """Parse the name of a log's folder. Raises LogStorageError if ``name`` is not such a name."""
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
