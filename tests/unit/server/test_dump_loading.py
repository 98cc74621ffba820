"""What `klamm up --from-dump` prints while it loads a dump."""

from __future__ import annotations

import pytest

from klamm.server.dump_loading import _LoadedLines


@pytest.mark.parametrize(
    ("total", "reported"),
    [
        (9_999, []),
        (10_000, [10_000]),
        (35_000, [10_000, 20_000, 30_000]),
        (200_000, list(range(20_000, 200_001, 20_000))),
    ],
)
def test_progress_is_reported_about_ten_times(total: int, reported: list[int]) -> None:
    lines: list[str] = []
    progress = _LoadedLines(lines.append)
    for done in (*range(0, total, 500), total):
        progress(done, total)
    assert lines == [f"Znodes loaded: {done}/{total}" for done in reported]
    assert progress.done == total
