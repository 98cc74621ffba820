"""Opening a segment log: which of its files count, what is damaged, what is done about it.

What was flushed is never cut: only segments at or above the recovery point are checked batch by
batch, and only if the broker did not stop in order. Each repair is returned as a value, for the
broker to write it to its journal. What the disk refuses is an OSError. Mirrors the loading of
kafka.log.Log (loadSegments, recoverLog, rebuildProducerState).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from brokers.logs.batch_file import BatchFile
from brokers.logs.errors import CorruptRecord, LogStorageError
from brokers.logs.segment import Cut, LogSegment
from brokers.logs.segment_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    file_name,
    parse_file_name,
)
from brokers.storage.disk import Disk

_CLEANED_SUFFIX: Final = ".cleaned"
_SNAPSHOT_SUFFIX: Final = ".snapshot"
_SWAP_SUFFIX: Final = ".swap"
MakeSegment = Callable[[int], LogSegment]


class RepairKind(StrEnum):
    """What was done."""

    INDEX_REBUILT = "index_rebuilt"
    TAIL_CUT = "tail_cut"
    SEGMENT_DELETED = "segment_deleted"
    UNFLUSHED_LOST = "unflushed_lost"


class Repair(NamedTuple):
    """One repair: of the segment that begins at ``base_offset``; ``size_bytes`` of batches gone.

    A log without files has lost what was not flushed, from ``base_offset`` on.
    """

    kind: RepairKind
    base_offset: int
    size_bytes: int
    reason: str


class Loaded(NamedTuple):
    """The segments that count, in order, perhaps none; the offset after the last batch."""

    segments: list[LogSegment]
    end_offset: int
    repairs: list[Repair]


def load_segments(
    directory: Path,
    make_segment: MakeSegment,
    *,
    disk: Disk,
    log_start_offset: int,
    recovery_point: int,
    is_clean: bool,
) -> Loaded:
    """The segments of a log's directory, repaired. ``is_clean``: the broker stopped in order.

    Raises LogStorageError for what a log cleaner left half done, and UnsupportedMessageFormat.
    """
    segments = [make_segment(offset) for offset in _base_offsets(directory, disk)]
    repairs: list[Repair] = []
    kept = len(segments)
    for number, segment in enumerate(segments):
        ends_flushed = number + 1 < len(segments) and (
            segments[number + 1].base_offset <= recovery_point
        )
        if is_clean or ends_flushed:
            if segment.load():
                repairs.append(Repair(RepairKind.INDEX_REBUILT, segment.base_offset, 0, _INDEX))
        elif _recover(segment, repairs):
            kept = number + 1
            break
    for segment in segments[kept:]:
        segment.log.load()
        _delete(segment, "follows a segment that was cut", repairs)
    del segments[kept:]
    return _ended(segments, log_start_offset, repairs)


_INDEX: Final = "an index was missing, too short, or did not belong to the batches"


def _base_offsets(directory: Path, disk: Disk) -> list[int]:
    """Of the segments that have a file of batches. Removes what belongs to none."""
    names = disk.names(directory)
    for name in names:
        if name.endswith(_SWAP_SUFFIX):
            raise LogStorageError(
                f"{directory / name} is of a log cleaning that did not end",
                hint="start the Kafka broker that wrote it once, which will end it",
            )
        # A snapshot of producers would be out of date, should Kafka load this log again.
        if name.endswith((DELETED_SUFFIX, _CLEANED_SUFFIX, _SNAPSHOT_SUFFIX)):
            disk.remove(directory / name)
    files = [file for file in map(parse_file_name, names) if file]
    offsets = [file.base_offset for file in files if file.suffix == LOG_SUFFIX]
    for file in files:
        if file.base_offset not in offsets:
            disk.remove(directory / file_name(*file))
    return offsets


def _recover(segment: LogSegment, repairs: list[Repair]) -> Cut | None:
    cut = segment.recover()
    if cut:
        repairs.append(Repair(RepairKind.TAIL_CUT, segment.base_offset, *cut))
    return cut


def _delete(segment: LogSegment, reason: str, repairs: list[Repair]) -> None:
    repairs.append(
        Repair(RepairKind.SEGMENT_DELETED, segment.base_offset, segment.size_bytes, reason)
    )
    segment.mark_deleted()
    segment.delete_marked()


def _ended(segments: list[LogSegment], log_start_offset: int, repairs: list[Repair]) -> Loaded:
    """Find the log's end. A last segment that cannot be read to its end is recovered, even if the
    broker stopped in order; a log that ends before its start begins anew there."""
    if not segments:
        return Loaded(segments, log_start_offset, repairs)
    active = segments[-1]
    try:
        end_offset = active.next_offset()
    except CorruptRecord:
        _recover(active, repairs)
        end_offset = active.next_offset()
    if end_offset < log_start_offset:
        for segment in segments:
            _delete(segment, f"the log starts at {log_start_offset}", repairs)
        return Loaded([], log_start_offset, repairs)
    return Loaded(segments, end_offset, repairs)


def forget_unflushed(directory: Path, kept_end: int, disk: Disk, *, is_length_kept: bool) -> None:
    """Do to a log that nobody has open what a machine does that stops: lose what it had not
    written yet. Batches that end before ``kept_end`` are kept, half of the next one, and no more.

    ``is_length_kept``: the file had its length already, so zeros are in place of the other half.
    """
    for base_offset in reversed(_base_offsets(directory, disk)):
        if base_offset > kept_end:
            for suffix in SEGMENT_SUFFIXES:
                disk.remove(directory / file_name(base_offset, suffix))
            continue
        log = BatchFile(str(directory / file_name(base_offset, LOG_SUFFIX)), disk)
        log.load()
        found = log.find(kept_end, 0)
        if found is not None:
            log.truncate(found.position + found.header.size_bytes // 2)
            if is_length_kept:
                log.truncate(found.position + found.header.size_bytes)
        return
