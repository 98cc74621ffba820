"""A file of record batches, one after the other: ``.log``.

It knows no index: whoever looks for an offset says from which byte on. What the disk refuses is an
OSError. Mirrors org.apache.kafka.common.record.{FileRecords, FileLogInputStream}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from brokers.logs.errors import CorruptRecord
from brokers.logs.record_batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, parse_header
from brokers.storage.disk import Disk, ReadAt

OFFSET_DELTA_MAX: Final = 2**31 - 1
# About as much as lies between two entries of an index.
_CHUNK_BYTES: Final = 4096 + HEADER_SIZE_BYTES


class Found(NamedTuple):
    """A batch: the byte of the file at which it begins, and its header."""

    position: int
    header: BatchHeader


class BatchFile:
    """The file at ``path``, of which ``size_bytes`` count; more may be there after a failure."""

    __slots__ = ("_disk", "path", "size_bytes")

    def __init__(self, path: str, disk: Disk) -> None:
        self._disk = disk
        self.path = path
        self.size_bytes = 0

    def create(self) -> None:
        """Make it, empty."""
        self._disk.create(self.path)
        self.size_bytes = 0

    def load(self) -> float:
        """Take over a file that is there; returns when it was last written, in s."""
        self.size_bytes, modified_s = self._disk.stat(self.path)
        return modified_s

    def drop_cache(self) -> None:
        """Read from the disk next: see Disk.drop_cache."""
        self._disk.drop_cache(self.path)

    def append(self, records: bytes) -> None:
        """Write after the last batch; if this raises, the records do not count."""
        self._disk.write_at(self.path, self.size_bytes, records)
        self.size_bytes += len(records)

    def truncate(self, size_bytes: int) -> None:
        """Keep this many bytes."""
        self.size_bytes = size_bytes
        self._disk.resize(self.path, size_bytes)

    def batches(self, position: int = 0) -> Iterator[Found]:
        """Every batch from this byte on, which must be the first of one; no CRC is looked at.

        Raises CorruptRecord, naming the file and the byte, for what is no batch.
        """
        with self._disk.reading(self.path) as read_at:
            yield from self._batches(read_at, position)

    def readable(self, position: int = 0) -> Iterator[Found]:
        """As ``batches``, but ends where they raise CorruptRecord."""
        try:
            yield from self.batches(position)
        except CorruptRecord:
            return

    def valid(self, base_offset: int) -> Iterator[Found]:
        """Every batch, its CRC checked and its offsets: they rise, and fit into one segment.

        Raises CorruptRecord at the first that is not valid.
        """
        next_offset = base_offset
        with self._disk.reading(self.path) as read_at:
            for found in self._batches(read_at, 0):
                header = found.header
                check_crc(read_at(found.position, header.size_bytes), header)
                if not next_offset <= header.last_offset <= base_offset + OFFSET_DELTA_MAX:
                    raise CorruptRecord(
                        f"Offset {header.last_offset} does not follow {next_offset - 1} in a "
                        f"segment that begins at {base_offset}"
                    )
                next_offset = header.next_offset
                yield found

    def find(self, offset: int, position: int) -> Found | None:
        """The first batch from this byte on that ends at ``offset`` or later. Raises
        CorruptRecord."""
        return next(
            (found for found in self.batches(position) if found.header.last_offset >= offset), None
        )

    def read(self, found: Found, max_bytes: int, end_offset: int) -> bytes:
        """This batch and those after it that end before ``end_offset``, whole ones.

        At most ``max_bytes``, but at least this one. One that cannot be read ends the answer; who
        asks for it next is told so by ``find``.
        """
        end = found.header.size_bytes
        size = max(end, min(max_bytes, self.size_bytes - found.position))
        records = self._disk.read_at(self.path, found.position, size)
        while end + HEADER_SIZE_BYTES <= len(records):
            try:
                header = parse_header(records, end)
            except CorruptRecord:
                break
            if end + header.size_bytes > len(records) or header.next_offset > end_offset:
                break
            end += header.size_bytes
        return records[:end]

    def batch(self, found: Found) -> bytes:
        """The bytes of one batch."""
        return self._disk.read_at(self.path, found.position, found.header.size_bytes)

    def _batches(self, read_at: ReadAt, position: int) -> Iterator[Found]:
        chunk, chunk_start = b"", position
        while position < self.size_bytes:
            if len(chunk) - (position - chunk_start) < HEADER_SIZE_BYTES:
                chunk, chunk_start = read_at(position, _CHUNK_BYTES), position
            header = self._header(chunk, position - chunk_start, position)
            yield Found(position, header)
            position += header.size_bytes

    def _header(self, chunk: bytes, at: int, position: int) -> BatchHeader:
        left = self.size_bytes - position
        try:
            if min(left, len(chunk) - at) < HEADER_SIZE_BYTES:
                raise CorruptRecord(f"{left} bytes are too few for a record batch")
            header = parse_header(chunk, at)
            if header.size_bytes > left:
                raise CorruptRecord(
                    f"A record batch of {header.size_bytes} bytes ends after {left}"
                )
        except CorruptRecord as error:
            raise CorruptRecord(
                f"{error.message} (file {self.path} at byte {position})",
                hint="another replica may still have these records",
            ) from error
        return header
