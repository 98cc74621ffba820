"""Which segments retention deletes, and when the next one expires."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.retention import count_deletable, next_expiry_ms

NOW_MS = 10_000


class Segment(NamedTuple):
    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int


SEGMENTS = [Segment(0, 100, 1_000), Segment(10, 100, 2_000), Segment(20, 50, 3_000)]
EMPTY = Segment(30, 0, -1)
KEPT = LogConfig(retention_ms=-1)


@pytest.mark.parametrize(
    ("config", "start", "high_watermark", "count"),
    [
        pytest.param(KEPT, 0, 30, 0, id="no limit"),
        pytest.param(LogConfig(retention_ms=9_000), 0, 30, 0, id="just young enough"),
        pytest.param(LogConfig(retention_ms=8_999), 0, 30, 1, id="too old"),
        pytest.param(LogConfig(retention_ms=0), 0, 30, 3, id="all too old"),
        pytest.param(LogConfig(retention_ms=0), 0, 29, 2, id="up to the high watermark"),
        pytest.param(LogConfig(retention_ms=0), 0, 20, 2, id="up to the end of a segment"),
        pytest.param(LogConfig(retention_ms=0), 0, 19, 1, id="not up to its end"),
        pytest.param(
            LogConfig(retention_ms=0, cleanup_policy=("compact",)), 0, 30, 0, id="compacted"
        ),
        pytest.param(LogConfig(retention_ms=-1, retention_bytes=151), 0, 30, 0, id="small"),
        pytest.param(LogConfig(retention_ms=-1, retention_bytes=150), 0, 30, 1, id="too large"),
        pytest.param(LogConfig(retention_ms=-1, retention_bytes=0), 0, 30, 3, id="nothing kept"),
        pytest.param(LogConfig(retention_ms=-1, retention_bytes=0), 0, 10, 1, id="committed"),
        pytest.param(LogConfig(retention_ms=8_999, retention_bytes=50), 0, 30, 2, id="both"),
        pytest.param(KEPT, 9, 30, 0, id="the start is in the first segment"),
        pytest.param(KEPT, 10, 30, 1, id="the start is in the second segment"),
        pytest.param(KEPT, 30, 30, 2, id="the start is the end"),
        pytest.param(KEPT, 30, 10, 1, id="the start is the end, which is not committed"),
        pytest.param(
            LogConfig(cleanup_policy=("compact",), retention_bytes=0),
            20,
            30,
            2,
            id="compacted start",
        ),
    ],
)
def test_the_first_segments_are_deleted(
    config: LogConfig, start: int, high_watermark: int, count: int
) -> None:
    for segments in (SEGMENTS, [*SEGMENTS, EMPTY]):
        extra = len(segments) > 3 and config == KEPT and start == high_watermark == 30
        assert count + extra == count_deletable(
            segments,
            config,
            log_start_offset=start,
            log_end_offset=30,
            high_watermark=high_watermark,
            now_ms=NOW_MS,
        ), "an empty active segment is kept"


def test_the_next_expiry_is_that_of_the_first_segment() -> None:
    config = LogConfig(retention_ms=9_500)
    assert next_expiry_ms(SEGMENTS, config, NOW_MS) == 10_501
    assert next_expiry_ms(SEGMENTS, config, 10_500) == 10_501
    assert next_expiry_ms(SEGMENTS, config, 10_501) is None, "it waits for the high watermark"
    for segments, other in (
        ([], config),
        ([EMPTY], config),
        (SEGMENTS, KEPT),
        (SEGMENTS, LogConfig(retention_ms=9_500, cleanup_policy=("compact",))),
    ):
        assert next_expiry_ms(segments, other, -10_000) is None
