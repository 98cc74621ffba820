"""The benchmark of the segment log takes every figure, and judges two of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.logs import measure


def test_the_benchmark_prints_every_figure_and_judges_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goals = measure(tmp_path, 20)
    assert [goal for goal, _ in goals] == ["append at 100 MB/s", "find an offset in 50 µs"]
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == [
        "append 20 batches of 16,205 bytes",
        "  with the last segment on the disk",
        "  the same bytes by os.write, and fsync",
        "open 1 segments",
        "find an offset and read its batch",
        "find a record by its time, its batch decoded",
    ]
