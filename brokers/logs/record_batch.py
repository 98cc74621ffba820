"""Record batches of format 2: parse a header, verify a batch, set its offset and leader epoch.

The records in a batch are not checked here (records.py encodes and decodes them). Mirrors
org.apache.kafka.common.record.DefaultRecordBatch. The fields of a batch and their sizes in bytes::

    base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC 4 | attributes 2
    | last offset delta 4 | base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2
    | base sequence 4 | record count 4 | records

``length`` is the number of bytes after this field, and ``CRC`` is the CRC-32C of the bytes after
that field. Therefore the leader can set the base offset and leader epoch without changing the CRC.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import google_crc32c

from klamm.brokers.logs.errors import CorruptRecord, UnsupportedMessageFormat
from klamm.cluster.records import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    ProducerBatch,
    Records,
    increment_sequence,
)

HEADER_SIZE_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
MAGIC: Final = 2
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PLACE: Final = struct.Struct(">qii")
_PLACE_END: Final = 16
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")
_CRC_END: Final = 21
_SMALLEST_LENGTH: Final = 14
_LEAST_LENGTH: Final = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES
_COMPRESSION_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_MAX_TIMESTAMP_AT: Final = 35
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class BatchHeader(NamedTuple):
    """The header of a batch, with its fields in file order.

    Timestamps are in milliseconds since the Unix epoch.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, including the header."""
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the batch."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record of the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def has_producer_id(self) -> bool:
        """True if the producer of the batch is idempotent."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 if the batch has no sequence numbers."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def producer_batch(self) -> ProducerBatch:
        """The fields of the batch that ProducerStates stores. The batch must have a producer id."""
        return ProducerBatch(
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.last_sequence,
            self.base_offset,
            self.last_offset,
            self.max_timestamp_ms,
        )

    @property
    def compression_id(self) -> int:
        """Compression type of the batch. In a valid batch it is an index into COMPRESSIONS."""
        return self.attributes & _COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """True if the timestamp of every record is the time at which the batch was appended."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the batch is a transaction marker, which no producer may send."""
        return bool(self.attributes & _CONTROL)


def parse_header(buffer: bytes, position: int = 0) -> BatchHeader:
    """Parse the batch header at ``position``. The buffer must contain the whole header.

    Raises CorruptRecord for an invalid length, offset or magic byte, and UnsupportedMessageFormat
    if there is a whole message of format 0 or 1 at this position.
    """
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        refuse_old_format(buffer, position)
        raise CorruptRecord(f"Invalid magic found in record: {header.magic}")
    if header.length < _LEAST_LENGTH:
        raise CorruptRecord(
            f"Record batch is corrupted (the size {header.size_bytes} is smaller than the minimum "
            f"allowed overhead {HEADER_SIZE_BYTES})"
        )
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise CorruptRecord(
            f"Record batch is corrupted (base offset {header.base_offset}, "
            f"last offset delta {header.last_offset_delta})"
        )
    return header


def refuse_old_format(buffer: bytes, position: int = 0) -> None:
    """Raise UnsupportedMessageFormat if a whole message of format 0 or 1 begins at ``position``.

    The CRC of the message must be correct (CRC-32 of the bytes after the CRC field). Otherwise it
    may be a batch of format 2 with a corrupt magic byte.
    """
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    end = position + header.size_bytes
    if header.magic not in (0, 1) or header.length < _SMALLEST_LENGTH or end > len(buffer):
        return
    (crc,) = _CRC.unpack_from(buffer, position + LOG_OVERHEAD_BYTES)
    if zlib.crc32(buffer[position + _PLACE_END : end]) == crc:
        raise UnsupportedMessageFormat(
            f"Messages of format {header.magic} are not supported",
            hint="Kafka 0.11 and newer write format 2 if log.message.format.version allows it",
        )


def check_crc(batch: bytes, header: BatchHeader) -> None:
    """Raise CorruptRecord if the CRC of a whole batch differs from the CRC in its header."""
    computed = google_crc32c.value(batch[_CRC_END:])
    if computed != header.crc:
        raise CorruptRecord(
            f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})"
        )


def check_batches(records: bytes) -> list[BatchHeader]:
    """Verify consecutive batches, including their CRCs, and return their headers.

    Raises CorruptRecord (also if bytes follow the last batch) and UnsupportedMessageFormat.
    """
    return [header for _, header in checked_batches(records)]


def checked_batches(records: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield batches like ``walk``, but raise CorruptRecord at the first wrong CRC."""
    for position, header in walk(records):
        whole = header.size_bytes == len(records)
        check_crc(records if whole else records[position : position + header.size_bytes], header)
        yield position, header


def walk(records: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the byte position and the header of each batch in ``records``.

    CRCs are not checked. Raises CorruptRecord (also if bytes follow the last batch) and
    UnsupportedMessageFormat.
    """
    position, end = 0, len(records)
    while position < end:
        if end - position < HEADER_SIZE_BYTES:
            raise CorruptRecord(f"{end - position} bytes are too few for a record batch")
        header = parse_header(records, position)
        if header.size_bytes > end - position:
            raise CorruptRecord(
                f"A record batch of {header.size_bytes} bytes is cut off after {end - position} "
                "bytes"
            )
        yield position, header
        position += header.size_bytes


def first_epoch(records: Records) -> int:
    """Return the leader epoch of the first of ``records``."""
    if isinstance(records, bytes):
        return parse_header(records).leader_epoch
    return records.intervals[0].leader_epoch


def place(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Return a copy of the batch with another base offset and leader epoch.

    The CRC stays valid, because it covers neither field.
    """
    length = int.from_bytes(batch[8:12], "big", signed=True)
    return _PLACE.pack(base_offset, length, leader_epoch) + batch[_PLACE_END:]


def stamped(batch: bytes, header: BatchHeader, now_ms: int) -> tuple[bytes, BatchHeader]:
    """Return a copy of a batch with the timestamp type LogAppendTime, and the copy's header.

    This changes the timestamps of all records to ``now_ms``.
    """
    attributes = header.attributes | _LOG_APPEND_TIME
    covered = bytearray(batch[_CRC_END:])
    _ATTRIBUTES.pack_into(covered, 0, attributes)
    _TIMESTAMP.pack_into(covered, _MAX_TIMESTAMP_AT - _CRC_END, now_ms)
    crc = google_crc32c.value(bytes(covered))
    return (
        batch[: _CRC_END - _CRC.size] + _CRC.pack(crc) + bytes(covered),
        header._replace(crc=crc, attributes=attributes, max_timestamp_ms=now_ms),
    )
