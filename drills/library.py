"""The drills that ship with klamm: YAML files beside this one, found by their names."""

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
    """The text of a drill that ships. Raises UsageError if there is none of this name."""
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {close[0]}?" if close else "klamm drill list shows all"
        raise UsageError(f"there is no drill {name}", hint=hint)
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def named_drill(name: str) -> Drill:
    """A drill that ships. Raises UsageError if there is none of this name."""
    return parse_drill(named_text(name), f"{name}.yaml")


def find_drill(word: str) -> Drill:
    """The drill of a file, or the one that ships under this name. Raises UsageError."""
    if "/" in word or word.endswith((".yaml", ".yml")) or Path(word).is_file():
        return read_drill(Path(word))
    return named_drill(word)
