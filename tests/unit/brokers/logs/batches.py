"""Batches for tests of the segment log, and logs to append them to."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.record_batch import walk
from klamm.brokers.logs.records import decode_batch, encode_batch
from klamm.brokers.logs.recovery import Known
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.cluster.records import Record, StoredRecord

NOW_MS = 1_700_000_000_000
EVERY_BATCH_INDEXED = LogConfig(index_interval_bytes=0)


def decode_batches(records: bytes) -> Iterator[StoredRecord]:
    """The records of whole batches one after the other, control records left out.

    Raises CorruptRecord for what is no batch or no record; CRCs are not looked at.
    """
    for position, header in walk(records):
        if not header.is_control:
            yield from decode_batch(records[position : position + header.size_bytes], header)


def batch(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    compression: str = "none",
    key: bytes | None = b"k",
    **producer: int,
) -> bytes:
    """A batch with one record a value, one ms apart."""
    records = [
        Record(timestamp_ms + number, key, value) for number, value in enumerate(values or (b"v",))
    ]
    return encode_batch(records, compression, **producer)


ONE = len(batch(b"0"))
FOUR_A_SEGMENT = LogConfig(index_interval_bytes=2 * ONE, segment_bytes=4 * ONE)


def open_log(
    directory: Path,
    config: LogConfig = EVERY_BATCH_INDEXED,
    *,
    recovery_point: int | None = None,
    is_clean: bool = False,
) -> SegmentLog:
    """The log ``t-0`` in a directory."""
    known = Known(0, recovery_point, is_clean=is_clean)
    return SegmentLog(directory / "t-0", config, now_ms=NOW_MS, known=known)


def append(log: SegmentLog, *values: bytes, epoch: int = 0, timestamp_ms: int = NOW_MS) -> int:
    """Append one batch as the leader; its first offset."""
    produced = batch(*values, timestamp_ms=timestamp_ms)
    return log.append_as_leader(produced, epoch, timestamp_ms).first_offset


def values_from(log: SegmentLog, offset: int) -> list[bytes | None]:
    """The values of all records from ``offset`` on."""
    found: list[bytes | None] = []
    while records := log.read(offset, 1 << 20):
        for stored in decode_batches(records):
            if stored.offset >= offset:
                found.append(stored.record.value)
                offset = stored.offset + 1
    return found


def written(folder: Path, batches: int = 10, config: LogConfig = FOUR_A_SEGMENT) -> Path:
    """The directory of a closed log: a batch of one record an offset, four batches a segment.

    Its leader epochs start at the offsets 0, 3, 6, ...
    """
    log = open_log(folder, config)
    for number in range(batches):
        append(log, b"%d" % (number % 10), epoch=number // 3, timestamp_ms=NOW_MS + number)
    log.close()
    return log.directory


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def old_message(value: bytes, offset: int = 0) -> bytes:
    """A message of format 1, as Kafka 0.10 wrote them."""
    covered = struct.pack(">bbqii", 1, 0, NOW_MS, -1, len(value)) + value
    crc = zlib.crc32(covered)
    return struct.pack(">qiI", offset, len(covered) + 4, crc) + covered


def spoil(path: Path, at: int, bits: int = 0xFF) -> None:
    """Invert bits of one byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)
