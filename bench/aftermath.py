"""What a `klamm up` leaves in its data directory: journal, transaction logs, errors in its logs.

``klamm replay run`` judges the first two, as for a user.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def what_replay_finds(logs: Iterable[Path], allowed: str = "") -> list[str]:
    """Return the violations in logs, except those of the kind ``allowed``, and damaged lines."""
    paths = [str(path) for path in logs]
    done = subprocess.run(
        [sys.executable, "-m", "klamm", "replay", "run", *paths, "--format", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        return [f"replay of {paths}: {done.stderr}"]
    answers = json.loads(done.stdout)
    counts = {**answers["violations"], "damaged": answers["damaged"]["total"]}
    return [
        f"replay of {paths}: {count} {kind}"
        for kind, count in counts.items()
        if count and kind != allowed
    ]


def transaction_logs(folder: Path) -> list[Path]:
    """Return the transaction logs of all ZooKeeper servers whose data is in a directory."""
    return sorted(folder.glob("**/version-2"))


def tracebacks(folder: Path) -> list[str]:
    """Return the lines of klamm's logs that tell of an error inside klamm."""
    found = []
    for path in folder.rglob("*.log"):
        if path.parent.name.rpartition("-")[2].isdigit():
            continue  # a partition's log
        text = path.read_text(errors="replace")
        for match in re.finditer(r"Traceback|never retrieved|Unexpected error|KeyError", text):
            found.append(text[match.start() : match.start() + 1500])
    return found
