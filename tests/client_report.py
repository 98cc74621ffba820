"""What tests show of Kafka's clients and tools, for docs/clients-and-tools.md.

A test that runs a client has the marker ``client(NAME, shows=TEXT)``, one for each client that it
runs. Parameters of a test may have the marker with a name only, and the test itself the marker with
``shows`` only. ``version`` is given unless NAME is an installed package, and ``segments=False`` if
the brokers have none; the fixture has_segments needs no word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest

CLIENT_ROW: Final = "client"
"""The name of the property with what a test shows of one client."""


def client_rows(item: pytest.Item) -> Iterator[dict[str, Any]]:
    """Yield what a test shows of each client, without the outcome."""
    markers = list(item.iter_markers("client"))
    shown = next((one.kwargs["shows"] for one in markers if not one.args), None)
    has_segments = getattr(getattr(item, "callspec", None), "params", {}).get("has_segments", True)
    for marker in markers:
        if marker.args:
            (name,) = marker.args
            yield {
                "test": item.nodeid,
                "client": name,
                "version": marker.kwargs.get("version") or version(name),
                "shows": marker.kwargs.get("shows") or shown,
                "segments": marker.kwargs.get("segments", has_segments),
            }


def record_clients(file: Path, reporter: pytest.TerminalReporter) -> None:
    """Write the outcomes of the tests that ran to ``file``; keep the rows of other test files."""
    rows = json.loads(file.read_text()) if file.is_file() else []
    fresh = [
        {**row, "outcome": _outcome(outcome, report)}
        for outcome in ("passed", "failed", "error", "skipped")
        for report in reporter.getreports(outcome)
        for name, row in report.user_properties
        if name == CLIENT_ROW
    ]
    ran = {_test_file(row) for row in fresh}
    rows = [*fresh, *(row for row in rows if _test_file(row) not in ran)]
    rows.sort(key=lambda row: (row["test"], row["client"]))
    file.write_text(json.dumps(rows, indent=1) + "\n")


def _test_file(row: dict[str, Any]) -> str:
    return str(row["test"]).partition("::")[0]


def _outcome(outcome: str, report: pytest.TestReport) -> str:
    if outcome != "skipped":
        return "passed" if outcome == "passed" else "failed"
    assert isinstance(report.longrepr, tuple)
    return "not run: " + report.longrepr[2].removeprefix("Skipped: ")
