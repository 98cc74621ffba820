"""Functions over a table of legal state transitions.

A state machine is declared as a table: for every target state, the states that may precede it, in
the order in which Kafka prints them. The controller only looks up the table, and keeps the states
in its context. For the docs and tests, a machine of the `transitions` library is built from the
table. Mirrors validPreviousStates of kafka/controller/{Partition,Replica}StateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from transitions import Machine

S = TypeVar("S", bound=Enum)


def valid_previous(table: Mapping[S, tuple[S, ...]]) -> dict[S, frozenset[S]]:
    """Return {target: set of the states that may precede it}."""
    return {target: frozenset(before) for target, before in table.items()}


def previous_names(table: Mapping[S, tuple[S, ...]]) -> dict[str, tuple[str, ...]]:
    """Return {target name: names of the states that may precede it}, in the table's order."""
    return {
        target.value: tuple(state.value for state in before) for target, before in table.items()
    }


def machine_of(initial: S, table: Mapping[S, tuple[S, ...]]) -> Machine:
    """Build a machine over the names of the states; each trigger is named like its target."""
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
