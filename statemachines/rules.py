"""How a state machine is declared, and what is derived from the declaration.

Each machine is declared once with the `transitions` library: a state for each of Kafka's names, a
trigger for each target state. The tables of legal transitions and the diagrams come from it. Must
not keep any partition's or replica's state: the machines are declarations, never run on the hot
path. Mirrors the validPreviousStates of kafka/controller/{Partition,Replica}StateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

from transitions import Machine

S = TypeVar("S", bound=Enum)


def declare(initial: S, sources: Mapping[S, Sequence[S]]) -> Machine:
    """A machine over the names of ``initial``'s enumeration.

    ``sources`` gives for every target state the states that may precede it, in Kafka's order of
    printing; the trigger of each target has the target's name.
    """
    return Machine(
        model=None,
        states=[state.value for state in type(initial)],
        initial=initial.value,
        transitions=[
            {"trigger": target.value, "source": [s.value for s in before], "dest": target.value}
            for target, before in sources.items()
        ],
        auto_transitions=False,
    )


def previous_names(machine: Machine) -> dict[str, tuple[str, ...]]:
    """{target: the states that may precede it}, by name, in the order of declaration."""
    found: dict[str, tuple[str, ...]] = {}
    for event in machine.events.values():
        for source, transitions in event.transitions.items():
            for transition in transitions:
                assert transition.dest == event.name, "a trigger has its target's name"
                found[transition.dest] = (*found.get(transition.dest, ()), source)
    return found


def valid_previous(machine: Machine, states: type[S]) -> dict[S, frozenset[S]]:
    """{target: the states that may precede it}, for every member of ``states``."""
    by_name = previous_names(machine)
    return {target: frozenset(map(states, by_name.get(target.value, ()))) for target in states}


def mermaid(machine: Machine) -> str:
    """The machine as a mermaid state diagram: the initial state, then every legal transition."""
    lines = ["stateDiagram-v2", "    direction LR", f"    [*] --> {machine.initial}"]
    lines += [
        f"    {source} --> {target}"
        for target, sources in previous_names(machine).items()
        for source in sources
    ]
    return "\n".join(lines) + "\n"


def legal_table(machine: Machine) -> str:
    """The machine as a markdown table: a row for each state, a cross under each legal target."""
    names = list(machine.states)
    before = previous_names(machine)
    rows = [
        "| from \\ to | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for source in names:
        cells = ("x" if source in before.get(target, ()) else " " for target in names)
        rows.append(f"| {source} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"
