"""Generated sections of docs/drills.md: actions, conditions, shipped drills and an example run.

They come from lab/; docs/generate.py writes them into the page.
"""

from __future__ import annotations

from docs.markdown import table
from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.actions.table import ACTIONS
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.triggers import TRIGGERS
from klamm.lab.drills.library import NAMES, named_drill, named_text
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.drawn_steps import FAULTS
from klamm.lab.run import text
from klamm.lab.run.drill_run import Verdict, play

EXAMPLE = "leader-loss"


def action_table() -> str:
    """Return the table of actions."""
    rows = [(f"`{kind.example}`", kind.about) for kind in ACTIONS.values()]
    return table(("action", "effect"), rows)


def trigger_table() -> str:
    """Return the table of triggers."""
    rows = [(f"`{kind.example}`", kind.about) for kind in TRIGGERS.values()]
    return table(("trigger", "the step runs"), rows)


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


def invariant_table() -> str:
    """Return the table of invariants."""
    rows = [(f"`{name}`", one.statement, one.source) for name, one in INVARIANTS.items()]
    return table(("invariant", "statement", "source"), rows)


def fault_list() -> str:
    """Return the kinds of faults that a hunt uses."""
    names = ", ".join(f"`{name}`" for name, kind in FAULTS.items() if kind.is_default)
    named = ", ".join(f"`{name}`" for name, kind in FAULTS.items() if not kind.is_default)
    return f"{len(FAULTS)} kinds: {names}; only if they are named: {named}.\n"


def example_file() -> str:
    """Return the text of the example drill."""
    return f"```yaml\n{named_text(EXAMPLE)}```\n"


def example_run() -> str:
    """Return the output of the example drill with seed 0."""
    return "```text\n" + "\n".join(_run_lines()) + "\n```\n"


def _run_lines() -> list[str]:
    drill = named_drill(EXAMPLE)
    lines = [text.heading(drill.name, "simulated, seed 0", drill.about)]
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    for part in play(drill, driver, is_measured=True):
        if isinstance(part, Verdict):
            lines += text.verdict_lines(drill.name, part)
        else:
            lines += text.step_lines(part)
    return lines


HUNT_SECTIONS = {"invariants": invariant_table, "faults": fault_list}
SECTIONS = {
    "actions": action_table,
    "conditions": condition_table,
    "triggers": trigger_table,
    "drills": drill_table,
    "example": example_file,
    "run": example_run,
}
