"""Retention: which segments a log deletes because of age, size, or the log start offset.

The functions are pure. Mirrors kafka.log.Log.deleteOldSegments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from klamm.brokers.logs.log_config import NO_LIMIT, LogConfig


class Aged(Protocol):
    """The properties of a segment that determine when it is deleted."""

    @property
    def base_offset(self) -> int:
        """First offset of the segment."""
        ...

    @property
    def size_bytes(self) -> int:
        """Total size of the batches in bytes."""
        ...

    @property
    def largest_timestamp_ms(self) -> int:
        """Largest timestamp of a record; if no record has one, the time of the last write."""
        ...


def count_deletable(
    segments: Sequence[Aged],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """Return the number of segments to delete, counted from the oldest segment.

    An empty active segment is kept, and so are segments that extend beyond ``high_watermark``.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    allowed = sum(1 for end in ends if end <= high_watermark)
    if allowed == len(segments) and not segments[-1].size_bytes:
        allowed -= 1
    count = 0
    if config.delete and config.retention_ms != NO_LIMIT:
        oldest_ms = now_ms - config.retention_ms
        while count < allowed and segments[count].largest_timestamp_ms < oldest_ms:
            count += 1
    if config.delete and config.retention_bytes >= 0:
        too_much = sum(one.size_bytes for one in segments[count:]) - config.retention_bytes
        while count < allowed and too_much >= segments[count].size_bytes:
            too_much -= segments[count].size_bytes
            count += 1
    last = min(allowed, len(segments) - 1)
    while count < last and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def next_expiry_ms(segments: Sequence[Aged], config: LogConfig, now_ms: int) -> int | None:
    """Return the time at which the first segment expires, in milliseconds since the Unix epoch.

    Return None if the segment will never expire. Also return None if the segment has already
    expired but was kept because it extends beyond the high watermark: an advance of the high
    watermark, not the passage of time, then makes the segment deletable.
    """
    if not config.delete or config.retention_ms == NO_LIMIT:
        return None
    if not segments or not segments[0].size_bytes:
        return None
    expiry_ms = segments[0].largest_timestamp_ms + config.retention_ms + 1
    return expiry_ms if expiry_ms > now_ms else None
