"""Damaged files of segment logs: nothing wrong is served, and nothing is lost silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.corruptions import FAILURES, run, table


@pytest.mark.slow
def test_no_damage_serves_wrong_contents_or_loses_records_silently(tmp_path: Path) -> None:
    """The same cases as the first 100 of ``python -m bench.corruptions``."""
    found = run(tmp_path, range(100))
    assert [case for case in found if case.verdict in FAILURES] == []
    # Most cases are noticed, and all parts of the table are there.
    assert {"same", "repaired", "offline", "error"} <= {case.verdict for case in found}
    assert table(found)[-1].startswith("all ")
