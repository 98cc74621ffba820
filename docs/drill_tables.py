"""The generated parts of docs/drills.md: the words of the language, the drills that ship, a run.

All of it comes from drills/; docs/generate.py puts it into the page.
"""

from __future__ import annotations

from docs.markdown import table
from klamm.cluster.quirks import NO_QUIRKS
from klamm.drills import text
from klamm.drills.actions import ACTIONS
from klamm.drills.conditions import CONDITIONS
from klamm.drills.library import NAMES, named_drill, named_text
from klamm.drills.run import Verdict, play
from klamm.runtime.scenarios.simulated_driver import SimulatedDriver

EXAMPLE = "leader-loss"


def action_table() -> str:
    """Every action of a step."""
    rows = [(f"`{kind.example}`", kind.about) for kind in ACTIONS.values()]
    return table(("a step that has", "does"), rows)


def condition_table() -> str:
    """Every condition."""
    rows = [
        (f"`{kind.example}`", kind.about + (" Only under `expect`." if kind.is_of_tool else ""))
        for kind in CONDITIONS.values()
    ]
    return table(("condition", "holds if"), rows)


def drill_table() -> str:
    """Every drill that ships."""
    rows = [
        (f"`{drill.name}`", drill.worlds, len(drill.steps), drill.about)
        for drill in map(named_drill, NAMES)
    ]
    return table(("drill", "worlds", "steps", "what happens"), rows)


def example_file() -> str:
    """One drill that ships, whole."""
    return f"```yaml\n{named_text(EXAMPLE)}```\n"


def example_run() -> str:
    """What that drill prints with seed 0."""
    drill = named_drill(EXAMPLE)
    lines = [text.heading(drill.name, "simulated, seed 0", drill.about)]
    for part in play(drill, SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))):
        if isinstance(part, Verdict):
            lines += text.verdict_lines(drill.name, part)
        else:
            lines += text.step_lines(part)
    return "```\n" + "\n".join(lines) + "\n```\n"


SECTIONS = {
    "actions": action_table,
    "conditions": condition_table,
    "drills": drill_table,
    "example": example_file,
    "run": example_run,
}
