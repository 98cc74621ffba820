"""Reads and writes the small text files of a log directory, in Kafka's formats.

The functions raise an error if a file is invalid; their callers decide how to continue. Mirrors
kafka.server.checkpoints.{CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile},
kafka.server.{PartitionMetadataFile, BrokerMetadataCheckpoint} and the clean shutdown file of
kafka.log.LogManager.

The first line of a checkpoint is its version (0), the second line is the number of entries, and
each further line is an entry, with fields separated by white space. An empty file has no entries.
Files are replaced atomically: after a crash during a write, either the old or the new file exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from klamm.brokers.logs.errors import CorruptCheckpoint, LogStorageError
from klamm.brokers.storage.disk import LOCAL_DISK, Disk, read_whole, write_whole
from klamm.cluster.jvm.java_integer import parse_java_int
from klamm.cluster.types import TopicPartition

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION: Final = 0
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
    """Contents of meta.properties: ids of the cluster and broker that own a log directory."""

    cluster_id: str
    broker_id: int


def write_text(path: Path, text: str, disk: Disk = LOCAL_DISK) -> None:
    """Replace the contents of ``path`` atomically. Raises LogStorageError."""
    try:
        write_whole(disk, path, text.encode())
    except OSError as error:
        raise LogStorageError(
            f"Error while writing to checkpoint file {path}: {error.strerror}",
            hint="check that the directory is writable and the disk is not full",
        ) from error


def read_offsets(path: Path, disk: Disk = LOCAL_DISK) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; return the offset of each partition, or {} if there is no file.

    Offset checkpoints are recovery-point-offset-checkpoint, replication-offset-checkpoint and
    log-start-offset-checkpoint. Raises CorruptCheckpoint for an unknown version or a malformed
    line, and LogStorageError if the file cannot be read.
    """
    offsets: dict[TopicPartition, int] = {}
    for partition, offset in _read(path, _offset_entry, disk):
        if partition in offsets:
            raise CorruptCheckpoint(f"{partition} occurs twice in checkpoint file ({path})")
        offsets[partition] = offset
    return offsets


def write_offsets(
    path: Path, offsets: Mapping[TopicPartition, int], disk: Disk = LOCAL_DISK
) -> None:
    """Write an offset checkpoint. Raises LogStorageError."""
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()]
    _write(path, lines, disk)


def read_epochs(path: Path, disk: Disk = LOCAL_DISK) -> tuple[EpochEntry, ...]:
    """Read leader-epoch-checkpoint; return its entries in order, or () if there is no file.

    Raises CorruptCheckpoint for an unknown version or a malformed line, and LogStorageError if the
    file cannot be read.
    """
    return tuple(_read(path, _epoch_entry, disk))


def write_epochs(path: Path, entries: Iterable[EpochEntry], disk: Disk = LOCAL_DISK) -> None:
    """Write leader-epoch-checkpoint. Raises LogStorageError."""
    _write(path, [f"{entry.epoch} {entry.start_offset}" for entry in entries], disk)


def read_topic_id(path: Path, disk: Disk = LOCAL_DISK) -> str | None:
    """Return the topic id (22 characters) in partition.metadata, or None if there is no file.

    Raises CorruptCheckpoint for an unknown version, an invalid topic id or a malformed
    line, and LogStorageError if the file cannot be read.
    """
    lines = _lines(path, disk)
    if lines is None:
        return None
    version = _value(_line(path, lines, 0))
    if _number(_line(path, lines, 0), version) != _VERSION:
        raise CorruptCheckpoint(
            f"Unrecognized version of partition metadata file ({path}): {version}"
        )
    topic_id = _value(_line(path, lines, 1))
    if topic_id == _NO_TOPIC_ID or not _TOPIC_ID.fullmatch(topic_id):
        raise CorruptCheckpoint(f"Invalid topic ID in partition metadata file ({path})")
    return topic_id


def write_topic_id(path: Path, topic_id: str, disk: Disk = LOCAL_DISK) -> None:
    """Write partition.metadata, without a final newline (as Kafka does). Raises LogStorageError."""
    write_text(path, f"version: {_VERSION}\ntopic_id: {topic_id}", disk)


def read_meta_properties(path: Path, disk: Disk = LOCAL_DISK) -> MetaProperties | None:
    """Read a meta.properties file; return None if there is no file.

    Raises CorruptCheckpoint for an unknown version or a missing id, and LogStorageError if the file
    cannot be read.
    """
    lines = _lines(path, disk)
    if lines is None:
        return None
    # Imported here, because only log directories of earlier runs have the file.
    import javaproperties

    try:
        properties = javaproperties.loads("\n".join(lines))
    except javaproperties.InvalidUEscapeError as error:
        raise CorruptCheckpoint(f"Error while reading {path}: {error}") from error
    version = properties.get("version", str(_VERSION))
    if version != str(_VERSION):
        raise CorruptCheckpoint(f"Unrecognized version of {path}: {version}")
    cluster_id, broker_id = properties.get("cluster.id"), properties.get("broker.id", "")
    number = parse_java_int(broker_id)
    if not cluster_id or number is None:
        raise CorruptCheckpoint(
            f"{path} has no cluster id or no valid broker id: cluster.id={cluster_id}, "
            f"broker.id={broker_id}"
        )
    return MetaProperties(cluster_id, number)


def write_meta_properties(path: Path, meta: MetaProperties, disk: Disk = LOCAL_DISK) -> None:
    """Write a meta.properties file. Raises LogStorageError."""
    write_text(
        path,
        f"cluster.id={meta.cluster_id}\nversion={_VERSION}\nbroker.id={meta.broker_id}\n",
        disk,
    )


class _Line(NamedTuple):
    """A line of the file at ``path``. Line numbers start at 1."""

    path: Path
    number: int
    text: str


def _line(path: Path, lines: list[str], index: int) -> _Line:
    return _Line(path, index + 1, lines[index] if index < len(lines) else "")


def _offset_entry(line: _Line) -> tuple[TopicPartition, int]:
    fields = _SPACES.split(line.text.rstrip())
    if len(fields) != 3:
        raise _malformed(line)
    topic, partition, offset = fields
    found = TopicPartition(topic, _number(line, partition)), _number(line, offset)
    if not topic or min(found[0].partition, found[1]) < 0:
        raise _malformed(line)
    return found


def _epoch_entry(line: _Line) -> EpochEntry:
    fields = _SPACES.split(line.text.rstrip())
    if len(fields) != 2:
        raise _malformed(line)
    entry = EpochEntry(*(_number(line, field) for field in fields))
    if min(entry) < 0:
        raise _malformed(line)
    return entry


def _write(path: Path, lines: list[str], disk: Disk) -> None:
    text = "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines))
    write_text(path, text, disk)


def _read(path: Path, parse: Callable[[_Line], _Entry], disk: Disk) -> list[_Entry]:
    lines = _lines(path, disk)
    if not lines:
        return []
    version = _number(_line(path, lines, 0))
    if version != _VERSION:
        raise CorruptCheckpoint(
            f"Unrecognized version of the checkpoint file ({path}): {version}",
            hint=f"klamm, like Kafka 2.8, reads only version {_VERSION}",
        )
    if len(lines) == 1:
        return []
    expected = _number(_line(path, lines, 1))
    entries = [parse(_line(path, lines, index)) for index in range(2, len(lines))]
    if len(entries) != expected:
        raise CorruptCheckpoint(
            f"Expected {expected} entries in checkpoint file ({path}), "
            f"but found only {len(entries)}"
        )
    return entries


def _lines(path: Path, disk: Disk) -> list[str] | None:
    try:
        text = read_whole(disk, path).decode().replace("\r\n", "\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(
            f"Error while reading checkpoint file {path}: it is not UTF-8 text"
        ) from error
    except OSError as error:
        raise LogStorageError(
            f"Error while reading checkpoint file {path}: {error.strerror}"
        ) from error
    return text.removesuffix("\n").split("\n") if text else []


def _value(line: _Line) -> str:
    """Return the value after the colon in a line of partition.metadata."""
    fields = _COLON.split(line.text)
    if len(fields) != 2:
        raise _malformed(line)
    return fields[1]


def _number(line: _Line, text: str | None = None) -> int:
    """Parse ``text`` (default: the whole line) as a number."""
    number = parse_java_int(line.text if text is None else text, 64)
    if number is None:
        raise _malformed(line)
    return number


def _malformed(line: _Line) -> CorruptCheckpoint:
    return CorruptCheckpoint(
        f"Malformed line in checkpoint file ({line.path}): '{line.text}' (line {line.number})"
    )
