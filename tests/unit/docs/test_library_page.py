"""docs/library.md: its examples run, and it names every option of a cluster."""

from __future__ import annotations

import runpy
from pathlib import Path

from klamm.lab.python.cluster import ClusterOptions
from tests.shown_commands import ROOT, blocks


def test_the_examples_run(tmp_path: Path) -> None:
    found = blocks("docs/library.md")
    examples = [one.text for one in found if one.language == "python" and not one.file]
    assert len(examples) == 3
    for text in examples:
        (tmp_path / "example.py").write_text(text, encoding="utf-8")
        names = runpy.run_path(str(tmp_path / "example.py"))
    names["test_restart"]()


def test_every_option_has_a_row() -> None:
    page = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    options = ("brokers", *ClusterOptions.__annotations__)
    assert [name for name in options if f"\n| `{name}` | " not in page] == []
