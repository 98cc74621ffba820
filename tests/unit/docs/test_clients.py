"""The recorded outcomes behind the table of clients are those of the tests that there are."""

from __future__ import annotations

import os
import subprocess
import sys

from docs.client_tables import results
from docs.generate import ROOT


def test_every_test_of_a_client_has_a_recorded_outcome() -> None:
    files = [
        path
        for path in (ROOT / "tests" / "integration").glob("test_*.py")
        if "mark.client(" in path.read_text(encoding="utf-8")
    ]
    # The test process that pytest-xdist made this one of is none of the new process's business.
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "client", *map(str, files)],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    tests = {line for line in collected.stdout.splitlines() if "::" in line}
    assert {row["test"] for row in results()} == tests, (
        "stale: pytest -m client --clients-report docs/clients.json, with Kafka's jars; make docs"
    )
