"""Numbers of things, and lists that are cut short."""

from __future__ import annotations

import pytest

from klamm.cluster.counting import counted, listed


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 seeds"), (1, "1 seed"), (2, "2 seeds"), (2_000, "2,000 seeds")]
)
def test_a_number_of_things_is_in_singular_or_plural(number: int, text: str) -> None:
    assert counted(number, "seed") == text


@pytest.mark.parametrize(
    ("most", "total", "text"),
    [
        (3, None, "a, b, c"),
        (2, None, "a, b and 1 more"),
        (3, 3, "a, b, c"),
        (3, 9, "a, b, c and 6 more"),
    ],
)
def test_a_list_counts_the_items_that_it_leaves_out(
    most: int, total: int | None, text: str
) -> None:
    assert listed(["a", "b", "c"], most, total) == text
