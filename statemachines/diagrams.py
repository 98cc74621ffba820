"""The generated parts of docs/state-machines.md: a diagram and a table of each state machine.

Text in, text out; reading and writing the page is the caller's. Mirrors no Kafka file.
"""

from __future__ import annotations

import re
from typing import Final

from statemachines.partition_state import PARTITION_MACHINE
from statemachines.replica_state import REPLICA_MACHINE
from statemachines.rules import legal_table, mermaid

_MACHINES: Final = {"partition": PARTITION_MACHINE, "replica": REPLICA_MACHINE}
_SECTION: Final = re.compile(
    r"(?P<begin><!-- generated: (?P<name>\w+) (?P<what>diagram|table) -->\n).*?"
    r"(?P<end><!-- end -->)",
    re.DOTALL,
)


def section(name: str, what: str) -> str:
    """The ``diagram`` or ``table`` of the ``partition`` or ``replica`` machine, as markdown."""
    machine = _MACHINES[name]
    if what == "diagram":
        return f"```mermaid\n{mermaid(machine)}```\n"
    return legal_table(machine)


def fill(page: str) -> str:
    """The page with everything between its markers made afresh.

    A marker is ``<!-- generated: partition table -->``, up to ``<!-- end -->``.
    """
    return _SECTION.sub(
        lambda found: found["begin"] + section(found["name"], found["what"]) + found["end"], page
    )
