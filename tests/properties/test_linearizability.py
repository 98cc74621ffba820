"""The search for a legal order of a history, against brute force over all orders."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.lab.checks.linearizability import GaveUp, Illegal, Operation, check_linearizable

Op = Operation[int]


def write(value: int, _: int) -> Iterator[int]:
    yield value


def read(value: int, state: int) -> Iterator[int]:
    if state == value:
        yield state


def swap(expected: int, value: int, state: int) -> Iterator[int]:
    """Compare-and-set, or nothing: a step may have several outcomes."""
    if state == expected:
        yield value
    yield state


STEPS = {
    **{f"write {n}": partial(write, n) for n in range(3)},
    **{f"read {n}": partial(read, n) for n in range(3)},
    **{f"swap {m} {n}": partial(swap, m, n) for m in range(2) for n in range(3)},
}


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    """Up to five operations on a register; some have no result."""
    count = draw(st.integers(0, 5))
    positions = draw(st.permutations(range(2 * count)))
    history = []
    for index in range(count):
        call, returned = sorted(positions[2 * index : 2 * index + 2])
        has_result = draw(st.integers(0, 3)) > 0
        text = draw(st.sampled_from(sorted(STEPS)))
        history.append(Operation(text, call, returned if has_result else None, STEPS[text]))
    return history


def is_linearizable(history: list[Op]) -> bool:
    """Try all orders of all operations with a result, and of any of the others."""
    required = [one for one in history if one.returned is not None]
    optional = [one for one in history if one.returned is None]
    return any(
        _respects_time(order) and _is_legal(order)
        for count in range(len(optional) + 1)
        for chosen in combinations(optional, count)
        for order in permutations([*required, *chosen])
    )


def _respects_time(order: tuple[Op, ...]) -> bool:
    return not any(
        later.returned is not None and later.returned < earlier.call
        for earlier, later in combinations(order, 2)
    )


def _is_legal(order: tuple[Op, ...]) -> bool:
    states = {0}
    for one in order:
        states = {after for state in states for after in one.step(state)}
    return bool(states)


@given(histories())
def test_the_search_agrees_with_brute_force(history: list[Op]) -> None:
    found = check_linearizable(history, 0)
    assert not isinstance(found, GaveUp)
    assert (found is None) == is_linearizable(history)


def op(text: str, call: int, returned: int | None) -> Op:
    return Operation(text, call, returned, STEPS[text])


@pytest.mark.parametrize(
    ("history", "illegal"),
    [
        ([op("write 1", 0, 3), op("read 1", 1, 2)], None),
        ([op("write 1", 0, 3), op("read 0", 1, 2)], None),
        ([op("write 1", 0, 1), op("read 0", 2, 3)], "read 0"),
        ([op("write 1", 0, 5), op("read 1", 1, 2), op("read 0", 3, 4)], "read 0"),
        ([op("write 1", 0, None), op("read 0", 1, 2), op("read 1", 3, 4)], None),
        ([op("write 1", 0, None), op("read 1", 1, 2), op("read 0", 3, 4)], "read 0"),
        ([op("write 0", 0, 3), op("write 1", 1, 2), op("read 0", 4, 5)], None),
    ],
    ids=[
        "early",
        "late",
        "stale-read",
        "new-then-old",
        "takes-effect-later",
        "is-not-undone",
        "needed-later",
    ],
)
def test_known_histories(history: list[Op], illegal: str | None) -> None:
    found = check_linearizable(history, 0)
    assert not isinstance(found, GaveUp)
    assert (None if found is None else found.operation.text) == illegal


def test_a_search_beyond_its_limit_gives_up() -> None:
    history = [*(op(f"write {n % 2}", n, 100 + n) for n in range(8)), op("read 2", 200, 201)]
    assert check_linearizable(history, 0, limit=10) == GaveUp(10)


def set_bit(number: int, state: int) -> Iterator[int]:
    yield state | 1 << number


def test_many_operations_at_the_same_time_are_decided() -> None:
    history = [Operation(str(n), 0, 1 + n, partial(set_bit, n)) for n in range(40)]
    assert check_linearizable([*history, op("swap 0 0", 0, 50)], 0, limit=1000) is None


def test_many_operations_without_a_result_are_decided() -> None:
    """A search that finds a way to a state tries no way with more of them."""
    writes = [op(f"write {n % 3}", n, None) for n in range(30)]
    assert check_linearizable([*writes, op("read 2", 40, 41)], 0, limit=100) is None
    never = Operation("read 3", 40, 41, partial(read, 3))
    assert check_linearizable([*writes, never], 0, limit=100) == Illegal(never, (0, 1, 2))
    bits = [Operation(str(n), n, None, partial(set_bit, n)) for n in range(30)]
    of_two = Operation("two bits", 40, 41, partial(read, 1 << 3 | 1 << 17))
    assert check_linearizable([*bits, of_two], 0, limit=1000) is None
