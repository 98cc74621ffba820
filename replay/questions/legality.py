"""Rows that should not be: transitions that no state machine has, and those that failed.

Each row is judged alone; which rows there are is counted by the pass over histories.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from replay.questions.columns import AT, FAILURES, REPLICA, is_illegal, is_kind


def illegal_transitions(events: DataFrame) -> DataFrame:
    """Transitions that the product's state machines do not have, with their file and line."""
    return events.where(is_illegal()).select(*REPLICA, "from_state", "to_state", *AT)


def tells_legality() -> Column:
    """True for rows that are listed here."""
    return is_illegal() | is_kind(*FAILURES)


def failed_transitions(events: DataFrame) -> DataFrame:
    """Transitions that were tried and refused; ``outcome`` tells why."""
    return events.where(is_kind(*FAILURES)).select(
        *REPLICA, "from_state", "to_state", "election", "outcome", *AT
    )
