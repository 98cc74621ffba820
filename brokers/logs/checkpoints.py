"""The small text files of a log directory, in Kafka's formats, and one way to write them.

Reading says what is wrong and where; what to do about it is the caller's. Mirrors
kafka.server.checkpoints.{CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile},
kafka.server.{PartitionMetadataFile, BrokerMetadataCheckpoint} and the clean-shutdown mark of
kafka.log.LogManager.

A checkpoint is lines of text: its version (0), the number of entries, then one entry a line, its
fields divided by white space. An empty file holds no entries. A file is written whole under
NAME.tmp, brought to the disk, and renamed, so that a crash leaves the old file or the new one; a
NAME.tmp that a crash left is overwritten by the next write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from brokers.logs.errors import LogStorageError
from cluster.types import TopicPartition

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION: Final = 0
_NUMBER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_SPACES: Final = re.compile(r"\s+", re.ASCII)
_COLON: Final = re.compile(r":\s+", re.ASCII)
_NO_TOPIC_ID: Final = "A" * 22
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_Entry = TypeVar("_Entry")


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class MetaProperties(NamedTuple):
    """Whose directory it is: the cluster's id and the broker's."""

    cluster_id: str
    broker_id: int


def write_whole(path: Path, text: str) -> None:
    """Make ``path`` hold ``text``, or leave it as it is. Raises LogStorageError."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise LogStorageError(
            f"Error while writing to checkpoint file {path}: {error.strerror}",
            hint="the directory must be writable and not full",
        ) from error


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Offsets by partition, as recovery-point-offset-checkpoint, replication-offset-checkpoint and
    log-start-offset-checkpoint hold them; none if there is no file.

    Raises LogStorageError if it cannot be read, is of another version or has a malformed line.
    """
    return dict(_read(path, _offset_entry))


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Write offsets by partition. Raises LogStorageError."""
    _write(path, [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])


def read_epochs(path: Path) -> tuple[EpochEntry, ...]:
    """A leader-epoch-checkpoint's entries in the order of the file; none if there is no file.

    Raises LogStorageError if it cannot be read, is of another version or has a malformed line.
    """
    return tuple(_read(path, _epoch_entry))


def write_epochs(path: Path, entries: Iterable[EpochEntry]) -> None:
    """Write leader epochs. Raises LogStorageError."""
    _write(path, [f"{entry.epoch} {entry.start_offset}" for entry in entries])


def read_topic_id(path: Path) -> str | None:
    """The topic id (22 characters) that a partition.metadata file holds; None if there is no file.

    Raises LogStorageError if it cannot be read, is of another version or malformed.
    """
    lines = _lines(path)
    if lines is None:
        return None
    version = _value(path, lines, 0)
    if _number(path, version) != _VERSION:
        raise LogStorageError(
            f"Unrecognized version of partition metadata file ({path}): {version}"
        )
    topic_id = _value(path, lines, 1)
    if topic_id == _NO_TOPIC_ID or not _TOPIC_ID.fullmatch(topic_id):
        raise LogStorageError(f"Invalid topic ID in partition metadata file ({path})")
    return topic_id


def write_topic_id(path: Path, topic_id: str) -> None:
    """Write a partition.metadata file, whose last line has no end. Raises LogStorageError."""
    write_whole(path, f"version: {_VERSION}\ntopic_id: {topic_id}")


def read_meta_properties(path: Path) -> MetaProperties | None:
    """Whose directory it is; None if there is no meta.properties.

    Raises LogStorageError if it cannot be read, is of another version or names nobody.
    """
    lines = _lines(path)
    if lines is None:
        return None
    found = (line.partition("=") for line in lines if not line.startswith("#"))
    properties = {key.strip(): value.strip() for key, _, value in found}
    version = properties.get("version", str(_VERSION))
    if version != str(_VERSION):
        raise LogStorageError(f"Unrecognized version of {path}: {version}")
    cluster_id, broker_id = properties.get("cluster.id"), properties.get("broker.id", "")
    if not cluster_id or not _NUMBER.fullmatch(broker_id):
        raise LogStorageError(
            f"{path} names no cluster or no broker: cluster.id={cluster_id}, broker.id={broker_id}"
        )
    return MetaProperties(cluster_id, int(broker_id))


def write_meta_properties(path: Path, meta: MetaProperties) -> None:
    """Write a meta.properties file. Raises LogStorageError."""
    write_whole(
        path,
        f"cluster.id={meta.cluster_id}\nversion={_VERSION}\nbroker.id={meta.broker_id}\n",
    )


def _offset_entry(path: Path, line: str) -> tuple[TopicPartition, int]:
    fields = _SPACES.split(line.rstrip())
    if len(fields) != 3:
        raise _malformed(path, line)
    topic, partition, offset = fields
    return TopicPartition(topic, _number(path, partition, line)), _number(path, offset, line)


def _epoch_entry(path: Path, line: str) -> EpochEntry:
    fields = _SPACES.split(line.rstrip())
    if len(fields) != 2:
        raise _malformed(path, line)
    entry = EpochEntry(*(_number(path, field, line) for field in fields))
    if min(entry) < 0:
        raise _malformed(path, line)
    return entry


def _write(path: Path, lines: list[str]) -> None:
    write_whole(path, "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines)))


def _read(path: Path, parse: Callable[[Path, str], _Entry]) -> list[_Entry]:
    lines = _lines(path)
    if not lines:
        return []
    version = _number(path, lines[0])
    if version != _VERSION:
        raise LogStorageError(
            f"Unrecognized version of the checkpoint file ({path}): {version}",
            hint=f"klamm, as Kafka 2.8, knows version {_VERSION} only",
        )
    if len(lines) == 1:
        return []
    expected = _number(path, lines[1])
    entries = [parse(path, line) for line in lines[2:]]
    if len(entries) != expected:
        raise LogStorageError(
            f"Expected {expected} entries in checkpoint file ({path}), "
            f"but found only {len(entries)}"
        )
    return entries


def _lines(path: Path) -> list[str] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise LogStorageError(f"Error while reading checkpoint file {path}: {reason}") from error
    return text.removesuffix("\n").split("\n") if text else []


def _value(path: Path, lines: list[str], index: int) -> str:
    """What follows the colon in one line of a partition.metadata file."""
    line = lines[index] if index < len(lines) else ""
    fields = _COLON.split(line)
    if len(fields) != 2:
        raise _malformed(path, line)
    return fields[1]


def _number(path: Path, text: str, line: str | None = None) -> int:
    if not _NUMBER.fullmatch(text):
        raise _malformed(path, text if line is None else line)
    return int(text)


def _malformed(path: Path, line: str) -> LogStorageError:
    return LogStorageError(f"Malformed line in checkpoint file ({path}): '{line}'")
