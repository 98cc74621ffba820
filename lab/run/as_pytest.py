"""Writes a drill that fails as a pytest file, which fails until the fault is fixed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

from klamm.cluster.quirks import Quirks, quirk_names

_FILE: Final = '''\
"""{about}"""

import klamm

DRILL = """\\
{drill}"""


def test_{name}() -> None:
    klamm.run_drill(DRILL, {options})
'''
_COLUMNS: Final = 88


def pytest_path(drill: Path) -> Path:
    """Return the path of the pytest file for a drill file: test_hunt_8.py for hunt-8.yaml."""
    return drill.with_name(f"test_{_identifier(drill.stem)}.py")


def pytest_text(name: str, drill: str, seed: int, quirks: Quirks, violated: str) -> str:
    """Return a pytest file with one test, which runs the drill in simulation.

    ``drill``: the text of the drill, which ends with a newline. ``violated``: what does not
    hold when the drill is run."""
    given = [f"seed={seed}"]
    words = ", ".join(f'"{name}"' for name in quirk_names(quirks))
    if words:
        given.append(f"quirks=[{words}]")
    about = textwrap.fill(f"Fails as long as this is violated: {violated}", _COLUMNS)
    return _FILE.format(
        about=_literal(about),
        drill=_literal(drill),
        name=_identifier(name),
        options=", ".join(given),
    )


def _literal(text: str) -> str:
    """Return text as it is written between triple quotes."""
    written = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'{written[:-1]}\\"' if written.endswith('"') else written


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
