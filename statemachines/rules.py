"""Converts tables of legal state transitions to state machines, for docs and tests.

A state machine is declared as a table PREVIOUS, which maps every target state to its legal previous
states. The controller only looks up transitions in the table, and keeps the current states in its
context. Mirrors validPreviousStates of kafka/controller/{Partition,Replica}StateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from transitions import Machine

S = TypeVar("S", bound=Enum)


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
            {
                "trigger": target.value,
                "source": [state.value for state in before],
                "dest": target.value,
            }
            for target, before in table.items()
        ],
        auto_transitions=False,
    )
