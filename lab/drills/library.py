"""The drills shipped with klamm, found by name: files in drills/shipped/ and drills/bugs/."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import NAMES as QUIRK_NAMES
from klamm.cluster.suggestions import suggestion
from klamm.cluster.yaml_reader import read_text
from klamm.lab.drill import Drill
from klamm.lab.drills.known_bugs import PRESENT
from klamm.lab.language.language import parse_drill

FOLDER: Final = Path(__file__).with_name("shipped")
BUGS_FOLDER: Final = Path(__file__).with_name("bugs")
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
BUGS: Final = tuple(sorted(path.stem for path in BUGS_FOLDER.glob("*.yaml")))
"""Names of the drills in ``BUGS_FOLDER``, each of which only shows one known bug of Kafka."""
ALL: Final = (*NAMES, *BUGS)


def named_text(name: str) -> str:
    """Return the YAML text of a shipped drill. Raises UsageError for an unknown name."""
    if name not in ALL:
        raise UsageError(f"unknown drill {shlex.quote(name)}", hint=_hint_for(name))
    folder = FOLDER if name in NAMES else BUGS_FOLDER
    return (folder / f"{name}.yaml").read_text(encoding="utf-8")


def _hint_for(name: str) -> str:
    """Return the hint for a name that no drill has; it may be the name of a quirk."""
    quirk = name.upper()
    if quirk not in QUIRK_NAMES or name.lower() in ALL:
        return suggestion(name.lower(), ALL, "klamm drill list lists all drills")
    shown_by = [bug.drill for bug in PRESENT if bug.name == quirk]
    return f"{quirk} is a quirk: klamm drill run {' '.join(shown_by)} --quirks {quirk}"


def named_drill(name: str) -> Drill:
    """Return a shipped drill. Raises UsageError for an unknown name."""
    return parse_drill(named_text(name), f"{name}.yaml")


def find_text(word: str) -> str:
    """Return the text of a drill file, or of the shipped drill of this name.

    Raises UsageError if there is no such drill.
    """
    return read_text(Path(word)) if _is_file(word) else named_text(word)


def find_drill(word: str) -> Drill:
    """Return the drill in a file, or the shipped drill of this name.

    Raises UsageError if there is no such drill, or if it is invalid.
    """
    return parse_drill(find_text(word), source_of(word))


def check_simulated(drill: Drill, hint: str) -> None:
    """Raise UsageError with this hint if the drill cannot run in the simulated world."""
    if drill.real_only is not None:
        step = f"the step '{drill.real_only}' requires real ZooKeeper servers"
        raise UsageError(f"{drill.name}: {step}", hint=hint)


def source_of(word: str) -> str:
    """Return the name of a drill's file for messages; ``word`` is as in ``find_drill``."""
    return word if _is_file(word) else f"{word}.yaml"


def _is_file(word: str) -> bool:
    return "/" in word or word.endswith((".yaml", ".yml")) or Path(word).is_file()
