"""Mutants: each re-introduces a bug that Kafka fixed before 2.8.2, for one drill of drills/bugs.

A mutant replaces one or two functions of the controller, the brokers or the store while the drill
runs. The name of a mutant is that of its bug.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

_Change = Callable[[Any], Any]
"""Returns what replaces a function."""


class _Patch(NamedTuple):
    owner: Any
    name: str
    change: _Change


MUTANTS: dict[str, list[_Patch]] = {}
"""What each mutant replaces, by the name of its bug. Modules of this package fill it."""


def mutant(bug: str, owner: Any, name: str) -> Callable[[_Change], _Change]:
    """Register the decorated function, which returns the replacement of ``owner.name``."""

    def register(change: _Change) -> _Change:
        MUTANTS.setdefault(bug, []).append(_Patch(owner, name, change))
        return change

    return register


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """Context manager in which klamm has the bug. Raises KeyError if it has no mutant."""
    with ExitStack() as stack:
        for owner, name, change in MUTANTS[bug]:
            original = inspect.getattr_static(owner, name)
            changed = change(getattr(owner, name))
            is_static = isinstance(original, staticmethod)
            setattr(owner, name, staticmethod(changed) if is_static else changed)
            stack.callback(setattr, owner, name, original)
        yield
