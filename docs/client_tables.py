"""Generated section of docs/clients-and-tools.md: what the tests marked `client` showed.

They need Kafka's jars, so their outcomes are kept in clients.json, which `pytest -m client
--clients-report docs/clients.json` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from docs.markdown import table

RESULTS: Final = Path(__file__).with_name("clients.json")


class _Key(NamedTuple):
    client: str
    version: str
    shows: str


def client_table() -> str:
    """Return the table of clients and tools, one row for each thing that tests show of one."""
    outcomes: dict[_Key, dict[bool, set[str]]] = {}
    for row in results():
        key = _Key(row["client"], row["version"], row["shows"])
        outcomes.setdefault(key, {}).setdefault(row["segments"], set()).add(row["outcome"])
    rows = [
        (*key, *(_outcome(outcomes[key].get(segments, set())) for segments in (True, False)))
        for key in sorted(outcomes)
    ]
    return table(("client or tool", "version", "what is run", "`--segments`", "without"), rows)


def results() -> list[dict[str, Any]]:
    """Return the kept outcomes: one row for each test and client."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return rows


def _outcome(seen: set[str]) -> str:
    """Return the outcome of tests: "passed" only if each of them passed."""
    others = seen - {"passed"}
    return "; ".join(sorted(others)) if others else "".join(seen)


SECTIONS = {"clients": client_table}
