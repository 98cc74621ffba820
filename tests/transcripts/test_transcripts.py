"""Every transcript comes out as it is written; `pytest tests/transcripts --rewrite` writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.transcript import Transcript

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    found = Transcript.parse(text).run().text()
    if request.config.getoption("--rewrite"):
        path.write_text(found, encoding="utf-8")
    else:
        assert found == text
