"""Generated sections of docs/bugs.md: known bugs of Kafka, and the runs of their drills.

The bugs are listed in lab/drills/known_bugs.py; docs/generate.py writes the tables into the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from docs.kafka_tables import seen_on_kafka
from docs.markdown import table
from klamm.cluster.quirks import NAMES, quirk_label
from klamm.lab.drills.bug_texts import quirk_texts
from klamm.lab.drills.known_bugs import FIXED, OWN, PRESENT, Fixed
from klamm.lab.run.drill_run import Verdict
from tests.bugs.runs import verdicts

NOT_SHOWN: Final = (
    "KAFKA-9498",
    "The validation of topic names arms the child watch of /brokers/topics, so that the controller "
    "gets TopicChange events without a change.",
    "The extra events only cost time: no znode, request or journal condition depends on them.",
)
"""The only bug that no drill can show in klamm: its name, what is wrong, and why."""


def present_table() -> str:
    """Return the table of the bugs that 2.8.2 has, with the verdicts of their drills."""
    texts = quirk_texts()
    rows = []
    for bug in PRESENT:
        label = ", ".join((quirk_label(bug.name), *bug.also))
        runs = map(_verdict, verdicts(bug))
        real = seen_on_kafka(bug.drill)
        rows.append((label, *texts[NAMES[bug.name]], f"`{bug.drill}`", *runs, real))
    heading = ("bug", "Kafka 2.8.2", "klamm", "drill", "without", "with the quirk", "on 2.8.2")
    return table(heading, rows)


def fixed_table() -> str:
    """Return the table of the bugs that mutants plant, with the verdicts of their drills."""
    return _table_with_mutants(FIXED)


def own_table() -> str:
    """Return the table of the bugs of klamm itself, with the verdicts of their drills."""
    return _table_with_mutants(OWN)


def _table_with_mutants(bugs: Iterable[Fixed]) -> str:
    rows = []
    for bug in bugs:
        runs = map(_verdict, verdicts(bug))
        label = ", ".join((bug.name, *bug.also))
        rows.append((label, bug.since, bug.wrong, bug.right, f"`{bug.drill}`", *runs))
    heading = ("bug", "fixed in", "wrong", "right", "drill", "without", "with the mutant")
    return table(heading, rows)


def not_shown_table() -> str:
    """Return the table of the bugs without a drill."""
    return table(("bug", "wrong", "why there is no drill"), (NOT_SHOWN,))


def _verdict(verdict: Verdict) -> str:
    """Return the outcome, and the first condition that did not hold."""
    outcome = verdict.outcome.name.lower()
    if not verdict.failures:
        return outcome
    expected = verdict.failures[0].expected
    if expected.startswith("always "):
        expected = expected.partition(":")[0]
    return f"{outcome}: {expected}"


SECTIONS = {
    "present": present_table,
    "fixed": fixed_table,
    "own": own_table,
    "not shown": not_shown_table,
}
