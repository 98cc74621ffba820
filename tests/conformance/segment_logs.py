"""Segment logs for the conformance suite: real files in a folder that is removed at the end."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

import msgspec

from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG, LogConfig
from klamm.brokers.logs.records import encode_batch
from klamm.brokers.logs.recovery import Known, forget_unflushed
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.cluster.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record
from tests.conformance.replica_logs import NOW_MS, RECORD_BYTES

# Indexes that are full only after more batches than a test writes, but do not fill the disk.
_INDEX_BYTES = 12_000
# Of a record beside its value, if that is shorter than 8 KiB.
_OVERHEAD_BYTES = 10


class SegmentLogFactory:
    """Logs of files; a batch of n records has n times RECORD_BYTES."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="klamm-logs-"))
        self._numbers = count()

    def create(self, config: LogConfig = DEFAULT_LOG_CONFIG) -> SegmentLog:
        directory = self._folder / str(next(self._numbers)) / "t-0"
        small = msgspec.structs.replace(config, segment_index_bytes=_INDEX_BYTES)
        return SegmentLog(directory, small, now_ms=NOW_MS)

    def batch(
        self,
        record_count: int,
        *,
        timestamp_ms: int = NOW_MS,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> bytes:
        return _batch(record_count, timestamp_ms, producer_id, producer_epoch, base_sequence)

    def crash(self, log: ReplicaLog, kept_end: int | None = None) -> SegmentLog:
        assert isinstance(log, SegmentLog)
        kept = max(log.recovery_point, kept_end or 0)
        forget_unflushed(log.directory, kept, LOCAL_DISK, is_length_kept=False)
        found = SegmentLog(
            log.directory,
            log.config,
            now_ms=NOW_MS,
            known=Known(log.log_start_offset, log.recovery_point),
        )
        # What is found after the machine stopped is on the disk.
        found.flush()
        return found

    def close(self) -> None:
        shutil.rmtree(self._folder)


@cache
def _batch(record_count: int, timestamp_ms: int, *producer: int) -> bytes:
    """RECORD_BYTES a record, the header among them, so that both kinds of log roll alike."""
    target = record_count * RECORD_BYTES
    # Where a length takes one byte more, no first value may fit: then the others are shorter.
    for overhead in (_OVERHEAD_BYTES, _OVERHEAD_BYTES + 1):
        others = [bytes(RECORD_BYTES - overhead)] * (record_count - 1)
        missing = target - len(_encoded([b"", *others], timestamp_ms, *producer))
        for first_bytes in range(missing, missing - 4, -1):
            batch = _encoded([bytes(first_bytes), *others], timestamp_ms, *producer)
            if len(batch) == target:
                return batch
    raise AssertionError(f"no batch of {record_count} records has {target} bytes")


def _encoded(
    values: list[bytes],
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> bytes:
    return encode_batch(
        [Record(timestamp_ms, b"k", value) for value in values],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
