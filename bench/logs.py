"""``python -m bench.logs``: how fast a segment log appends and finds, against its goals.

One log with Kafka's own limits, in a temporary folder (--folder: another disk); batches are encoded
before. Exit 1 if a goal is missed. The log's work is all of it: CRC checked, offsets assigned, both
indexes kept. The disk is waited for where Kafka's log asks for it: at a roll, and at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.machine import machine
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.records import encode_batch
from klamm.brokers.logs.recovery import Known
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.cluster.records import Record

BATCH_BYTES = 16 * 1024
RECORD_BYTES = 1000
APPEND_GOAL_MB_PER_S = 100.0
LOOKUP_GOAL_US = 50.0
MEGABYTE = 1_000_000
NOW_MS = 1_700_000_000_000
_LOOKUPS = 20_000
_TIMES = 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.logs", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512, help="to append (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the log is made and removed")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="klamm-bench-", dir=options.folder) as folder:
        missed = [
            goal
            for goal, is_met in measure(Path(folder), options.megabytes * MEGABYTE // BATCH_BYTES)
            if not is_met
        ]
    for goal in missed:
        print(f"FAILED: {goal}")
    return 1 if missed else 0


def measure(folder: Path, batches: int) -> list[tuple[str, bool]]:
    """Print every figure; the goals, and whether each is met."""
    encoded = _encoded()
    log = SegmentLog(folder / "bench-0", LogConfig(segment_bytes=1 << 28), now_ms=NOW_MS)
    written_s = _timed(lambda: _append(log, encoded, batches))
    flushed_s = written_s + _timed(log.close)
    megabytes = batches * len(encoded[0]) / MEGABYTE
    append_mb_per_s = megabytes / written_s
    print(f"append {batches:,} batches of {len(encoded[0]):,} bytes: {append_mb_per_s:,.0f} MB/s")
    print(f"  with the last segment on the disk: {megabytes / flushed_s:,.0f} MB/s")
    raw_s = _timed(lambda: _write_raw(folder / "raw", encoded[0], batches))
    print(f"  the same bytes by os.write, and fsync: {megabytes / raw_s:,.0f} MB/s")
    log, opened_s = _opened(folder, log.log_end_offset)
    print(f"open {len(log.base_offsets)} segments: {opened_s * 1000:,.0f} ms")
    dice = random.Random(1)
    offsets = [dice.randrange(log.log_end_offset) for _ in range(_LOOKUPS)]
    lookup_us = _each_us(lambda offset: log.read(offset, 0), offsets)
    print(f"find an offset and read its batch: {lookup_us:.1f} µs")
    times_ms = [NOW_MS + dice.randrange(_TIMES) for _ in range(_LOOKUPS // 10)]
    by_time_us = _each_us(log.offset_for_time, times_ms)
    print(f"find a record by its time, its batch decoded: {by_time_us:.1f} µs")
    return [
        (f"append at {APPEND_GOAL_MB_PER_S:.0f} MB/s", append_mb_per_s >= APPEND_GOAL_MB_PER_S),
        (f"find an offset in {LOOKUP_GOAL_US:.0f} µs", lookup_us <= LOOKUP_GOAL_US),
    ]


def _encoded() -> list[bytes]:
    """Batches that differ in their times, one ms apart."""
    dice = random.Random(0)
    values = [dice.randbytes(RECORD_BYTES) for _ in range(BATCH_BYTES // RECORD_BYTES)]
    return [
        encode_batch([Record(NOW_MS + at_ms, None, value) for value in values])
        for at_ms in range(_TIMES)
    ]


def _append(log: SegmentLog, encoded: Sequence[bytes], batches: int) -> None:
    for number in range(batches):
        log.append_as_leader(encoded[number * _TIMES // batches], 0, NOW_MS)


def _write_raw(path: Path, batch: bytes, batches: int) -> None:
    with path.open("wb", buffering=0) as file:
        for _ in range(batches):
            file.write(batch)
        os.fsync(file.fileno())
    path.unlink()


def _opened(folder: Path, end_offset: int) -> tuple[SegmentLog, float]:
    started_s = time.perf_counter()
    known = Known(recovery_point=end_offset, is_clean=True)
    log = SegmentLog(folder / "bench-0", now_ms=NOW_MS, known=known)
    return log, time.perf_counter() - started_s


def _timed(do: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    do()
    return time.perf_counter() - started_s


def _each_us(do: Callable[[int], object], arguments: Sequence[int]) -> float:
    return _timed(lambda: [do(argument) for argument in arguments]) / len(arguments) * 1e6


if __name__ == "__main__":
    sys.exit(main())
