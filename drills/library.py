"""The drills shipped with klamm: YAML files in drills/shipped/, found by name."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

from klamm.cluster.errors import UsageError
from klamm.drills.language import parse_drill, read_drill
from klamm.drills.values import Drill

FOLDER: Final = Path(__file__).with_name("shipped")
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def named_text(name: str) -> str:
    """Return the YAML text of a shipped drill. Raises UsageError for an unknown name."""
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {close[0]}?" if close else "klamm drill list lists all drills"
        raise UsageError(f"unknown drill {name}", hint=hint)
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def named_drill(name: str) -> Drill:
    """Return a shipped drill. Raises UsageError for an unknown name."""
    return parse_drill(named_text(name), f"{name}.yaml")


def find_drill(word: str) -> Drill:
    """Return the drill in a file, or the shipped drill of this name. Raises UsageError."""
    if "/" in word or word.endswith((".yaml", ".yml")) or Path(word).is_file():
        return read_drill(Path(word))
    return named_drill(word)
