"""Counts the conditions of a drill that its cluster showed, and those that it did not show."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from typing import TypeVar

from klamm.runtime.scenarios.runner import CheckResult, StepResult

R = TypeVar("R")


class ConditionCounts:
    """Numbers of conditions that were ``observed`` and ``unobserved``."""

    def __init__(self) -> None:
        self.observed = self.unobserved = 0

    def counting(self, played: Generator[StepResult, None, R]) -> Generator[StepResult, None, R]:
        """Pass on the results of steps, count their conditions, and return what is returned."""
        with contextlib.closing(played):
            while True:
                try:
                    result = next(played)
                except StopIteration as end:
                    returned: R = end.value
                    return returned
                self.add(result.checks)
                yield result

    def add(self, results: Iterable[CheckResult]) -> None:
        """Count conditions."""
        for result in results:
            self.observed += result.is_met is not None
            self.unobserved += result.is_met is None
