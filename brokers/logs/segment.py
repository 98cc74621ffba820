"""One segment of a log: a file of batches and its two indexes.

A segment appends, finds, reads and truncates batches, and repairs its files. The log
(segment_log.py) decides when to roll, and which offsets and leader epochs the batches get. Disk
errors are raised as OSError. Mirrors kafka.log.LogSegment.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import NamedTuple

from klamm.brokers.logs.batch_file import OFFSET_DELTA_MAX, BatchFile, Found
from klamm.brokers.logs.errors import CorruptRecord, DamagedLog
from klamm.brokers.logs.index_file import OffsetIndex, OffsetPosition, TimeIndex, TimeIndexEntry
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.record_batch import BatchHeader
from klamm.brokers.logs.segment_files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    file_name,
)
from klamm.brokers.storage.disk import Disk
from klamm.cluster.records import NO_TIMESTAMP, TimestampOffset


class SegmentTruncation(NamedTuple):
    """The truncation of invalid batches from a segment: their size, and what was invalid."""

    size_bytes: int
    reason: str


class _Tail(NamedTuple):
    """Values needed to append the next batch to a segment.

    - ``first_ms``: largest timestamp of the first batch; None if this batch was not read yet.
    - ``latest``: the largest timestamp of the segment so far, as an entry for the time index.
    - ``unindexed_bytes``: size of the batches since the last entry of the offset index.
    """

    first_ms: int | None
    latest: TimeIndexEntry
    unindexed_bytes: int


class LogSegment:
    """The segment of a log that starts at ``base_offset``."""

    __slots__ = (
        "_directory",
        "_disk",
        "_has_gaps",
        "_index_interval_bytes",
        "_tail",
        "base_offset",
        "created_ms",
        "last_modified_ms",
        "log",
        "offset_index",
        "time_index",
    )

    def __init__(
        self, directory: str, base_offset: int, config: LogConfig, now_ms: int, disk: Disk
    ) -> None:
        """Initialize without accessing the disk. Call ``create``, ``load`` or ``recover`` next."""
        index_bytes = config.segment_index_bytes
        self._directory = directory
        self._disk = disk
        # Only a log cleaner leaves gaps between offsets.
        self._has_gaps = not config.delete
        self._index_interval_bytes = config.index_interval_bytes
        self._tail = _Tail(None, TimeIndexEntry(NO_TIMESTAMP, base_offset), 0)
        self.base_offset = base_offset
        self.created_ms = self.last_modified_ms = now_ms
        self.log = BatchFile(self._path(LOG_SUFFIX), disk)
        self.offset_index = OffsetIndex(self._path(INDEX_SUFFIX), base_offset, index_bytes, disk)
        self.time_index = TimeIndex(self._path(TIME_INDEX_SUFFIX), base_offset, index_bytes, disk)

    @property
    def size_bytes(self) -> int:
        """Total size of the batches in bytes."""
        return self.log.size_bytes

    @property
    def is_index_full(self) -> bool:
        """True if one of the indexes may have no room for another entry."""
        return self._index_room < 1

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of a record; -1 if no record has one."""
        return self._tail.latest.timestamp_ms

    @property
    def largest_timestamp_ms(self) -> int:
        """Time from which retention measures the age of the segment.

        This is the largest timestamp or, if no record has a timestamp, the time of the last write.
        """
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.last_modified_ms

    def create(self) -> None:
        """Create the three files of an empty segment, replacing existing files.

        If an error occurs, all three files are removed. If an empty ``.log`` file remained, the log
        would appear to end there when it is opened again.
        """
        try:
            self.log.create()
            self.offset_index.reset()
            self.time_index.reset()
        except OSError:
            for suffix in SEGMENT_SUFFIXES:
                with suppress(OSError):
                    self._disk.remove(self._path(suffix))
            raise

    def load(self) -> bool:
        """Open existing files; return True if the indexes had to be rebuilt.

        Unreadable batches are not removed; only ``recover`` does that.
        """
        self.last_modified_ms = int(self.log.load() * 1000)
        is_damaged = (
            self.offset_index.is_damaged() or self.time_index.is_damaged() or not self._load_tail()
        )
        if is_damaged:
            self.rebuild_indexes()
        return is_damaged

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the readable batches."""
        limit = self.base_offset + OFFSET_DELTA_MAX
        headers = (found.header for found in self.log.readable())
        self._rebuild_indexes([*takewhile(lambda header: header.last_offset <= limit, headers)])

    def recover(self, flushed_end: int) -> SegmentTruncation | None:
        """Open existing files after an unclean shutdown, verify all batches, rebuild the indexes.

        The segment is truncated at the first invalid batch. Return the truncation, or None if all
        batches are valid. If the invalid batch starts before ``flushed_end``, do not truncate but
        raise DamagedLog. Raises UnsupportedMessageFormat.
        """
        self.log.drop_cache()
        self.last_modified_ms = int(self.log.load() * 1000)
        headers: list[BatchHeader] = []
        cut = None
        try:
            for found in self.log.valid(self.base_offset, has_gaps=self._has_gaps):
                headers.append(found.header)
        except CorruptRecord as error:
            end_offset = headers[-1].next_offset if headers else self.base_offset
            if end_offset < flushed_end:
                raise DamagedLog(error.message, offset=end_offset) from error
            valid_bytes = sum(header.size_bytes for header in headers)
            cut = SegmentTruncation(self.size_bytes - valid_bytes, error.message)
            self.log.truncate(valid_bytes)
        self._rebuild_indexes(headers)
        return cut

    def time_waited_for_roll_ms(self, now_ms: int, timestamp_ms: int) -> int:
        """Return the age of the segment in ms, to be compared with segment.ms.

        The age is the time from the timestamp of the first batch to ``timestamp_ms``, the timestamp
        of the next batch. If the first batch has no timestamp, the age is the time since the
        creation of the segment.
        """
        first_ms = self._tail.first_ms
        if first_ms is None and self.size_bytes:
            first_ms = next(self.log.batches()).header.max_timestamp_ms
            self._tail = self._tail._replace(first_ms=first_ms)
        if first_ms is not None and first_ms >= 0:
            return timestamp_ms - first_ms
        return now_ms - self.created_ms

    def append(self, records: bytes, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Append whole batches, with these headers. If an error occurs, no batch is appended."""
        size_bytes, counts = self.size_bytes, (self.offset_index.count, self.time_index.count)
        entries, time_entries, tail = self._indexed(headers, size_bytes, self._tail)
        try:
            self.log.append(records)
            if entries:
                self.offset_index.append(entries)
                self.time_index.maybe_append(time_entries)
        except OSError:
            self._undo(size_bytes, *counts)
            raise
        self._tail = tail
        self.last_modified_ms = now_ms

    def find(self, offset: int) -> Found | None:
        """Return the batch that contains ``offset``, or None if the segment ends before ``offset``.

        Raises CorruptRecord for an invalid batch, and if ``offset`` is missing between two batches
        although no log cleaner can have removed it.
        """
        found = self.log.find(offset, self.offset_index.lookup(offset).position)
        if found is not None and found.header.base_offset > offset and not self._has_gaps:
            raise self.log.damaged(f"Offset {offset} is missing", found.position)
        return found

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes | None:
        """Return whole batches, from the batch that contains ``offset`` up to ``end_offset``.

        The result has at most ``max_bytes``, but at least one batch. However, if the first batch
        ends after ``end_offset``, the result is empty. Return None if the segment ends before
        ``offset``. Raises CorruptRecord.
        """
        found = self.find(offset)
        if found is None:
            return None
        if found.header.next_offset > end_offset:
            return b""
        return self.log.read(found, max_bytes, end_offset)

    def size_between(self, offset: int, end_offset: int) -> int:
        """Return the size of the batches from the one that contains ``offset`` to ``end_offset``.

        Raises CorruptRecord.
        """
        first = self.find(offset)
        if first is None:
            return 0
        end = self.log.find(end_offset, self.offset_index.lookup(end_offset).position)
        return (self.size_bytes if end is None else end.position) - first.position

    def next_offset(self) -> int:
        """Return the offset after the last batch. Raises CorruptRecord."""
        offset = self.base_offset
        for found in self.log.batches(self.offset_index.last.position):
            offset = found.header.next_offset
        return offset

    def find_offset_by_timestamp(self, timestamp_ms: int, start: int) -> TimestampOffset | None:
        """Return the first record with a timestamp of at least ``timestamp_ms``, or None.

        Records before offset ``start`` are ignored. Raises CorruptRecord.
        """
        # Imported here, because decoding needs a library that most brokers never use.
        from klamm.brokers.logs.records import decode_batch

        before = self.time_index.lookup(timestamp_ms).offset
        position = self.offset_index.lookup(max(before, start)).position
        for found in self.log.batches(position):
            header = found.header
            if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= start:
                for offset, record in decode_batch(self.log.batch(found), header):
                    if record.timestamp_ms >= timestamp_ms and offset >= start:
                        return TimestampOffset(record.timestamp_ms, offset, header.leader_epoch)
        return None

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Remove the batch that contains ``offset`` and all later batches.

        Return the new end offset.
        """
        found = self.find(offset)
        if found is None:
            return self.next_offset()
        end_offset = found.header.base_offset
        self.offset_index.truncate_to(end_offset)
        self.time_index.truncate_to(end_offset)
        self.log.truncate(found.position)
        self.last_modified_ms = now_ms
        if not self.size_bytes:
            self.created_ms = now_ms
        if not self._load_tail():
            self.rebuild_indexes()
            self.become_active()
        return end_offset

    def flush(self) -> None:
        """Sync the three files to disk."""
        for suffix in SEGMENT_SUFFIXES:
            self._disk.sync(self._path(suffix))

    def become_inactive(self) -> None:
        """Add the largest timestamp to the time index, and trim all files to their contents."""
        self.time_index.maybe_append([self._tail.latest])
        self.log.truncate(self.size_bytes)
        for index in (self.offset_index, self.time_index):
            index.trim()
            index.release()

    def become_active(self) -> None:
        """Preallocate the index files at their maximum size, because entries will be added."""
        self.offset_index.preallocate()
        self.time_index.preallocate()

    def mark_deleted(self) -> None:
        """Rename the files to ``*.deleted``, so that they no longer belong to the log."""
        # Indexes first: after a crash, an index without a .log file would look like a lost file.
        for suffix in reversed(SEGMENT_SUFFIXES):
            path = self._path(suffix)
            self._disk.rename(path, path + DELETED_SUFFIX)

    def delete(self, marked: str = "") -> None:
        """Remove the files, or with DELETED_SUFFIX those that ``mark_deleted`` renamed.

        Missing files are not an error. Indexes first: after a crash, an index file without a
        ``.log`` file would look like a lost ``.log`` file.
        """
        for suffix in reversed(SEGMENT_SUFFIXES):
            with suppress(FileNotFoundError):
                self._disk.remove(self._path(suffix) + marked)

    def move_to(self, directory: str) -> None:
        """Use new paths for the files, after the log's folder was renamed."""
        self._directory = directory
        self.log.path = self._path(LOG_SUFFIX)
        self.offset_index.path = self._path(INDEX_SUFFIX)
        self.time_index.path = self._path(TIME_INDEX_SUFFIX)

    @property
    def _index_room(self) -> int:
        # Closing a segment adds one more time index entry, for which room is reserved.
        return min(self.offset_index.room, self.time_index.room - 1)

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}"

    def _indexed(
        self, headers: Sequence[BatchHeader], position: int, tail: _Tail
    ) -> tuple[list[OffsetPosition], list[TimeIndexEntry], _Tail]:
        """Return the index entries for batches appended at byte ``position``, and the new tail.

        Each batch may add an entry. In Kafka 2.8.2, a follower adds at most one entry for all
        batches of a fetch response; Kafka's DumpLogSegments reports this as an error.
        """
        first_ms, latest, unindexed_bytes = tail
        entries: list[OffsetPosition] = []
        time_entries: list[TimeIndexEntry] = []
        for header in headers:
            if first_ms is None:
                first_ms = header.max_timestamp_ms
            if header.max_timestamp_ms > latest.timestamp_ms:
                latest = TimeIndexEntry(header.max_timestamp_ms, header.last_offset)
            if unindexed_bytes > self._index_interval_bytes:
                entries.append(OffsetPosition(header.last_offset, position))
                time_entries.append(latest)
                unindexed_bytes = 0
            unindexed_bytes += header.size_bytes
            position += header.size_bytes
        if entries:
            del entries[self._index_room :], time_entries[self._index_room :]
        return entries, time_entries, _Tail(first_ms, latest, unindexed_bytes)

    def _rebuild_indexes(self, headers: Sequence[BatchHeader]) -> None:
        self.offset_index.reset()
        self.time_index.reset()
        none = _Tail(None, TimeIndexEntry(NO_TIMESTAMP, self.base_offset), 0)
        entries, time_entries, self._tail = self._indexed(headers, 0, none)
        self.offset_index.append(entries)
        self.time_index.maybe_append([*time_entries, self._tail.latest])
        self.offset_index.trim()
        self.time_index.trim()

    def _load_tail(self) -> bool:
        """Read the batches after the last index entry; return False if an index is wrong.

        An index is wrong if its last entry does not point at a batch, or if timestamps or entries
        are missing.
        """
        last, latest = self.offset_index.last, self.time_index.last
        unindexed_bytes, next_offset = 0, self.base_offset
        for position, header in self.log.readable(last.position):
            is_last_entry = position == last.position and self.offset_index.count > 0
            if is_last_entry and (
                header.base_offset > last.offset or header.max_timestamp_ms > latest.timestamp_ms
            ):
                return False
            if unindexed_bytes > self._index_interval_bytes and not self.is_index_full:
                return False
            if header.max_timestamp_ms > latest.timestamp_ms:
                latest = TimeIndexEntry(header.max_timestamp_ms, header.last_offset)
            unindexed_bytes += header.size_bytes
            next_offset = header.next_offset
        if self.offset_index.count and not unindexed_bytes:
            return False
        self._tail = _Tail(None, latest, unindexed_bytes)
        return self.time_index.count == 0 or self.time_index.last.offset < next_offset

    def _undo(self, size_bytes: int, offset_entries: int, time_entries: int) -> None:
        """Undo a failed append.

        If bytes of the append remain in a file, they are ignored. The next append overwrites them,
        or they are removed when the segment is closed or recovered.
        """
        self.log.size_bytes = size_bytes
        with suppress(OSError):
            self.offset_index.keep(offset_entries)
            self.time_index.keep(time_entries)
            self.log.truncate(size_bytes)
