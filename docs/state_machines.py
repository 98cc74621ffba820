"""Generated sections of docs/controller.md: a diagram and a table of each state machine.

docs/generate.py writes them into the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final

from docs.markdown import table
from klamm.statemachines import partition_state, replica_state
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.rules import machine_of

_MACHINES: Final[tuple[tuple[str, Enum, Mapping[Any, tuple[Any, ...]]], ...]] = (
    ("partition", PartitionState.NON_EXISTENT, partition_state.PREVIOUS),
    ("replica", ReplicaState.NON_EXISTENT, replica_state.PREVIOUS),
)


def diagram(initial: Enum, previous: Mapping[Any, tuple[Any, ...]]) -> str:
    """Return a mermaid state diagram: the initial state, then every legal transition."""
    machine = machine_of(initial, previous)
    lines = ["stateDiagram-v2", "    direction LR", f"    [*] --> {machine.initial}"]
    lines += [f"    {move.source} --> {move.dest}" for move in machine.get_transitions()]
    return "\n".join(["```mermaid", *lines, "```"]) + "\n"


def legal_table(initial: Enum, previous: Mapping[Any, tuple[Any, ...]]) -> str:
    """Return a table with a row for each state and a cross under each legal target."""
    states = list(type(initial))
    rows = [
        (source, *("x" if source in previous[target] else " " for target in states))
        for source in states
    ]
    return table(("from \\ to", *states), rows)


SECTIONS: Final[dict[str, Callable[[], str]]] = {
    f"{name} {what}": partial(make, initial, previous)
    for name, initial, previous in _MACHINES
    for what, make in (("diagram", diagram), ("table", legal_table))
}
