"""A damaged drill is read or refused with one line that names the file; nothing else is raised."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from klamm.cluster.errors import UsageError
from klamm.lab.drill import Drill
from klamm.lab.drills.library import NAMES, named_text
from klamm.lab.language.language import parse_drill

TEXTS = [named_text(name) for name in NAMES]
SPLICES = [
    "",
    " ",
    "\n",
    ":",
    "-",
    "[",
    "]",
    "{",
    "}",
    "'",
    "#",
    "?",
    "&a ",
    "*a ",
    "!!int ",
    "\t",
    "é",
]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A drill that ships, with a few stretches cut out and a few characters put in."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        end = at + draw(st.integers(0, 12))
        text = text[:at] + draw(st.sampled_from(SPLICES)) + text[end:]
    return text


@given(damaged())
@example('"two\\nlines": 1')
def test_a_damaged_drill_is_read_or_refused(text: str) -> None:
    try:
        drill = parse_drill(text, "d.yaml")
    except UsageError as error:
        assert error.message.startswith("d.yaml")
        assert "\n" not in error.message
    else:
        assert isinstance(drill, Drill)
        assert drill.steps
