"""Linearizability of a concurrent history: a search for a legal order of its operations.

A history is linearizable if each operation can be given one moment between its call and its return
so that, in the order of these moments, every result is legal. The search is that of Wing and Gong
(1993) with Lowe's memoization (2017): the same operations in another order are tried again only if
they lead to another state. Operations without a result need not take effect, so as few of them as
possible are used: first none, then one, and so on. A state that was reached with some of them is
not tried again with these and others. Histories and states are plain values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

MAX_CONFIGURATIONS: Final = 50_000
"""Configurations that a search visits before it gives up: a few seconds of CPU time."""

S = TypeVar("S", bound=Hashable)


class Operation(NamedTuple, Generic[S]):
    """An operation in a history.

    ``call`` and ``returned``: positions in the history; no other event has the position of a
    return. ``returned`` is None if the result is indefinite: the operation may take effect at any
    moment after its call, or never.
    ``step`` returns the states that may follow a state if the operation happens in it; none if its
    result is illegal there.
    """

    text: str
    call: int
    returned: int | None
    step: Callable[[S], Iterable[S]]


class Illegal(NamedTuple, Generic[S]):
    """The history is not linearizable: no order explains the result of ``operation``.

    ``states``: the possible states before the return of ``operation``, without its effect."""

    operation: Operation[S]
    states: tuple[S, ...]


class GaveUp(NamedTuple):
    """The search visited ``configurations`` without a verdict."""

    configurations: int


def check_linearizable(
    operations: Sequence[Operation[S]], initial: S, limit: int = MAX_CONFIGURATIONS
) -> Illegal[S] | GaveUp | None:
    """Return None if the history is linearizable, or else the first operation that is illegal.

    Returns GaveUp if ``limit`` configurations were not enough to decide."""
    # Operations without a result come last: most of them are not needed to explain the others.
    ordered = sorted(operations, key=_return_of)
    required = sum(1 << index for index, one in enumerate(ordered) if one.returned is not None)
    furthest, states = 0, dict[S, None]()
    stack, postponed = [(initial, 0)], list[tuple[S, int]]()
    # By state and operations with a result: the sets of other operations that led there.
    used: dict[tuple[S, int], list[int]] = {}
    visited = 0
    while stack:
        state, done = stack.pop()
        if required & ~done == 0:
            return None
        others = used.setdefault((state, done & required), [])
        optional = done & ~required
        if not any(fewer & ~optional == 0 for fewer in others):
            others.append(optional)
            visited += 1
            if visited > limit:
                return GaveUp(limit)
            first = next(index for index in range(len(ordered)) if not done >> index & 1)
            if first > furthest:
                furthest, states = first, {}
            if first == furthest:
                states[state] = None
            for following in reversed(_following(ordered, state, done, first)):
                (stack if following[1] & ~required == optional else postponed).append(following)
        if not stack:
            stack, postponed = postponed, []
    return Illegal(ordered[furthest], tuple(states))


def _following(
    ordered: Sequence[Operation[S]], state: S, done: int, first: int
) -> list[tuple[S, int]]:
    """Return the configurations after each operation that can be next: a state, and what is done.

    The operations that are done are the bits of ``done``. None can be next if it was called after
    the return of ``first``, which is the first operation to return of the others."""
    found: list[tuple[S, int]] = []
    for index in range(first, len(ordered)):
        one = ordered[index]
        if done >> index & 1 or one.call > _return_of(ordered[first]):
            continue
        for after in one.step(state):
            if after != state or one.returned is not None:
                found.append((after, done | 1 << index))
    return found


def _return_of(operation: Operation[S]) -> float:
    return math.inf if operation.returned is None else operation.returned
