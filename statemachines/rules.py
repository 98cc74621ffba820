"""Functions for tables of legal state transitions.

A state machine is declared as a table that maps every target state to its legal previous states, in
the order in which Kafka's error messages list them. The controller only looks up transitions in the
table, and keeps the current states in its context. For docs and tests, `machine_of` converts the
table to a state machine of the Python library `transitions`. Mirrors validPreviousStates of
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
    """Return {target state: set of the legal previous states}."""
    return {target: frozenset(before) for target, before in table.items()}


def previous_names(table: Mapping[S, tuple[S, ...]]) -> dict[str, tuple[str, ...]]:
    """Return {name of the target state: names of the legal previous states, in table order}."""
    return {
        target.value: tuple(state.value for state in before) for target, before in table.items()
    }


def machine_of(initial: S, table: Mapping[S, tuple[S, ...]]) -> Machine:
    """Convert the table to a state machine of the library `transitions`.

    The machine's states are the values of the enum. Each target state has a trigger with the same
    name.
    """
    from transitions import Machine  # not needed by a running controller

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
