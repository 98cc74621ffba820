"""Generated sections of docs/drills.md: actions, conditions, shipped drills and an example run.

They come from drills/; docs/generate.py writes them into the page.
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
    """Return the table of actions."""
    rows = [(f"`{kind.example}`", kind.about) for kind in ACTIONS.values()]
    return table(("action", "effect"), rows)


def condition_table() -> str:
    """Return the table of conditions."""
    rows = [
        (f"`{kind.example}`", kind.about + (" Only under `expect`." if kind.is_of_tool else ""))
        for kind in CONDITIONS.values()
    ]
    return table(("condition", "holds if"), rows)


def drill_table() -> str:
    """Return the table of shipped drills."""
    rows = [
        (f"`{drill.name}`", drill.worlds, len(drill.steps), drill.about)
        for drill in map(named_drill, NAMES)
    ]
    return table(("drill", "worlds", "steps", "what happens"), rows)


def example_file() -> str:
    """Return the text of the example drill."""
    return f"```yaml\n{named_text(EXAMPLE)}```\n"


def example_run() -> str:
    """Return the output of the example drill with seed 0."""
    return _block(_run_lines())


def short_run() -> str:
    """Return the same output without the description and the setup of the cluster."""
    heading, *lines = _run_lines()
    first = next(at for at, line in enumerate(lines) if line.endswith("  kill: 1"))
    return _block([heading.partition(":")[0], "   ...", *lines[first:]])


def _run_lines() -> list[str]:
    drill = named_drill(EXAMPLE)
    lines = [text.heading(drill.name, "simulated, seed 0", drill.about)]
    for part in play(drill, SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))):
        if isinstance(part, Verdict):
            lines += text.verdict_lines(drill.name, part)
        else:
            lines += text.step_lines(part)
    return lines


def _block(lines: list[str]) -> str:
    return "```\n" + "\n".join(lines) + "\n```\n"


SECTIONS = {
    "actions": action_table,
    "conditions": condition_table,
    "drills": drill_table,
    "example": example_file,
    "run": example_run,
}
