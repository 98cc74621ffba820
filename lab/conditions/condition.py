"""Conditions as values: what is expected, when it is checked, and the result of a check.

conditions.py evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from klamm.lab.drivers.turns import STEP_TIMEOUT_MS

NOT_OBSERVABLE: Final = "not observable"


class Condition(msgspec.Struct, frozen=True):
    """A condition (see lab/conditions/conditions.py) and its expected value."""

    kind: str
    wanted: Any

    def __str__(self) -> str:
        return f"{self.kind}: {plain_text(self.wanted)}"


class Moment(Enum):
    """When a condition is checked."""

    UNTIL = "until"
    """Repeatedly, until the condition holds or the check times out."""
    EXPECT = "expect"
    """Only once."""
    EVENTUALLY = "eventually"
    """Repeatedly, after all faults have ended, until the condition holds or the check times out."""
    SOMETIMES = "sometimes"
    """After every event, until the condition has held once."""

    @property
    def is_awaited(self) -> bool:
        """True if the cluster runs until the condition holds."""
        return self in (Moment.UNTIL, Moment.EVENTUALLY)


class StepCheck(msgspec.Struct, frozen=True):
    """A condition, and when it is checked. ``place``: FILE:LINE:COLUMN in the drill file.

    If a check with ``is_required`` fails, the remaining checks of the step are skipped.
    """

    moment: Moment
    condition: Condition
    timeout_ms: float = STEP_TIMEOUT_MS
    place: str = ""
    is_required: bool = True


class CheckResult(msgspec.Struct, frozen=True):
    """Result of a check: whether its condition held, and the actual value at time ``at_ms``.

    ``is_met`` is None if the cluster does not show the condition."""

    check: StepCheck
    is_met: bool | None
    seen: Any
    at_ms: float


def plain_text(value: Any) -> str:
    """Format a plain value as one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {plain_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
