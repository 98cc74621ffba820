"""A segment's ``.log`` file: a sequence of record batches.

This module does not use the index files: a caller that searches for an offset passes the byte
position at which to start. Disk errors are raised as OSError. Mirrors
org.apache.kafka.common.record.{FileRecords, FileLogInputStream}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.brokers.logs.errors import CorruptRecord, UnsupportedMessageFormat
from klamm.brokers.logs.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    check_crc,
    parse_header,
    refuse_old_format,
)
from klamm.brokers.storage.disk import Disk, ReadAt

OFFSET_DELTA_MAX: Final = 2**31 - 1
# Bytes to read at once: about the distance between two index entries.
_CHUNK_BYTES: Final = 4096 + HEADER_SIZE_BYTES


class Found(NamedTuple):
    """Byte position and header of a batch in the file."""

    position: int
    header: BatchHeader


class BatchFile:
    """The ``.log`` file at ``path``.

    Only the first ``size_bytes`` bytes are used; after a failed write the file may be longer.
    """

    __slots__ = ("_disk", "path", "size_bytes")

    def __init__(self, path: str, disk: Disk) -> None:
        self._disk = disk
        self.path = path
        self.size_bytes = 0

    def create(self) -> None:
        """Create an empty file."""
        self._disk.create(self.path)
        self.size_bytes = 0

    def load(self) -> float:
        """Open an existing file; return its modification time in seconds."""
        self.size_bytes, modified_s = self._disk.stat(self.path)
        return modified_s

    def drop_cache(self) -> None:
        """Make the next read bypass the page cache (see Disk.drop_cache)."""
        self._disk.drop_cache(self.path)

    def append(self, records: bytes) -> None:
        """Write records after the last batch. If an error is raised, no record becomes readable."""
        self._disk.write_at(self.path, self.size_bytes, records)
        self.size_bytes += len(records)

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to ``size_bytes``."""
        self.size_bytes = size_bytes
        self._disk.resize(self.path, size_bytes)

    def batches(self, position: int = 0) -> Iterator[Found]:
        """Yield all batches from byte ``position`` onward. A batch must start at ``position``.

        CRCs are not checked. At the first invalid header, raises a CorruptRecord that names the
        file and the byte position.
        """
        with self._disk.reading(self.path) as read_at:
            yield from self._batches(read_at, position)

    def readable(self, position: int = 0) -> Iterator[Found]:
        """Yield batches like ``batches``, but end at the first invalid batch without an error."""
        try:
            yield from self.batches(position)
        except CorruptRecord:
            return

    def valid(self, base_offset: int, *, has_gaps: bool = False) -> Iterator[Found]:
        """Verify the CRC and the offsets of every batch, and yield the batch.

        Offsets must be contiguous, and close enough to ``base_offset`` to be in the same segment.
        If ``has_gaps`` is True, offsets may be missing between batches because a log cleaner
        removed them. Raises CorruptRecord at the first invalid batch.
        """
        next_offset = base_offset
        with self._disk.reading(self.path) as read_at:
            for found in self._batches(read_at, 0):
                header = found.header
                try:
                    check_crc(read_at(found.position, header.size_bytes), header)
                except CorruptRecord as error:
                    raise self.damaged(error.message, found.position) from error
                follows = header.base_offset == next_offset or (
                    has_gaps and header.base_offset > next_offset
                )
                if not follows or header.last_offset > base_offset + OFFSET_DELTA_MAX:
                    raise self.damaged(
                        f"Offset {header.base_offset} does not follow {next_offset - 1} in a "
                        f"segment that begins at {base_offset}",
                        found.position,
                    )
                next_offset = header.next_offset
                yield found

    def find(self, offset: int, position: int) -> Found | None:
        """Return the first batch that ends at ``offset`` or later; None if there is none.

        The search starts at byte ``position``. Raises CorruptRecord.
        """
        return next(
            (found for found in self.batches(position) if found.header.last_offset >= offset), None
        )

    def read(self, found: Found, max_bytes: int, end_offset: int) -> bytes:
        """Return the batch ``found`` and the batches after it, up to ``end_offset``.

        The result contains only whole batches: at most ``max_bytes``, but at least ``found``. It
        ends before a batch that is unreadable or does not follow the previous batch.
        """
        end, next_offset = found.header.size_bytes, found.header.next_offset
        size = max(end, min(max_bytes, self.size_bytes - found.position))
        records = self._disk.read_at(self.path, found.position, size)
        while end + HEADER_SIZE_BYTES <= len(records):
            try:
                header = parse_header(records, end)
            except CorruptRecord:
                break
            if end + header.size_bytes > len(records) or header.next_offset > end_offset:
                break
            if header.base_offset != next_offset:
                break
            end, next_offset = end + header.size_bytes, header.next_offset
        return records[:end]

    def batch(self, found: Found) -> bytes:
        """Return the bytes of one batch."""
        return self._disk.read_at(self.path, found.position, found.header.size_bytes)

    def _batches(self, read_at: ReadAt, position: int) -> Iterator[Found]:
        chunk, chunk_start = b"", position
        while position < self.size_bytes:
            if len(chunk) - (position - chunk_start) < HEADER_SIZE_BYTES:
                chunk, chunk_start = read_at(position, _CHUNK_BYTES), position
            header = self._header(read_at, chunk, position - chunk_start, position)
            yield Found(position, header)
            position += header.length + LOG_OVERHEAD_BYTES

    def _header(self, read_at: ReadAt, chunk: bytes, at: int, position: int) -> BatchHeader:
        left = self.size_bytes - position
        try:
            if min(left, len(chunk) - at) < HEADER_SIZE_BYTES:
                raise CorruptRecord(f"{left} bytes are too few for a record batch")
            header = parse_header(chunk, at)
            if header.length > left - LOG_OVERHEAD_BYTES:
                raise CorruptRecord(
                    f"A record batch of {header.size_bytes} bytes is cut off after {left} bytes"
                )
        except CorruptRecord as error:
            self._refuse_old_format(read_at, position)
            raise self.damaged(error.message, position) from error
        except UnsupportedMessageFormat as error:
            raise self._unsupported(error, position) from error
        return header

    def damaged(self, reason: str, position: int) -> CorruptRecord:
        """Return a CorruptRecord that names the file and the byte position of a bad batch."""
        return CorruptRecord(
            f"{reason} (file {self.path} at byte {position})",
            hint="another replica may still have these records",
        )

    def _unsupported(self, error: UnsupportedMessageFormat, position: int) -> Exception:
        text = f"{error.message} (file {self.path} at byte {position})"
        return UnsupportedMessageFormat(text, hint=error.hint)

    def _refuse_old_format(self, read_at: ReadAt, position: int) -> None:
        """Raise UnsupportedMessageFormat if a whole message of format 0 or 1 is at this position.

        The message is read from the file again, because it may be shorter than a batch header, or
        longer than the part that was read before.
        """
        length = int.from_bytes(read_at(position + 8, 4), "big", signed=True)
        if 0 < length <= self.size_bytes - position - LOG_OVERHEAD_BYTES:
            message = read_at(position, length + LOG_OVERHEAD_BYTES)
            try:
                refuse_old_format(message.ljust(HEADER_SIZE_BYTES, b"\0"))
            except UnsupportedMessageFormat as error:
                raise self._unsupported(error, position) from error
