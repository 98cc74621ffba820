"""What is derived from a table of legal transitions.

A state machine is declared once, as a table: for every target state the states that may precede
it, in Kafka's order of printing. The machine of the `transitions` library is made from the table,
for the docs and for tests; the hot path looks into the table alone, and the state of a partition or
a replica is in the controller's context. Mirrors the validPreviousStates of
kafka/controller/{Partition,Replica}StateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from transitions import Machine

S = TypeVar("S", bound=Enum)


def valid_previous(table: Mapping[S, tuple[S, ...]]) -> dict[S, frozenset[S]]:
    """{target: the states that may precede it}, to look into."""
    return {target: frozenset(before) for target, before in table.items()}


def previous_names(table: Mapping[S, tuple[S, ...]]) -> dict[str, tuple[str, ...]]:
    """{target: the states that may precede it}, by name, in the table's order."""
    return {
        target.value: tuple(state.value for state in before) for target, before in table.items()
    }


def machine_of(initial: S, table: Mapping[S, tuple[S, ...]]) -> Machine:
    """A machine over the names of the states; the trigger of each target has the target's name."""
    from transitions import Machine  # a controller at work needs no such machine

    return Machine(
        model=None,
        states=[state.value for state in type(initial)],
        initial=initial.value,
        transitions=[
            {"trigger": target, "source": list(before), "dest": target}
            for target, before in previous_names(table).items()
        ],
        auto_transitions=False,
    )
