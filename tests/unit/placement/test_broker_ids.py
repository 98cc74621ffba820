"""Ids and ranges of brokers, as pools name them."""

from __future__ import annotations

import pytest

from klamm.placement.broker_metadata import broker_ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0", range(1)),
        ("7-7", range(7, 8)),
        ("1-9", range(1, 10)),
        ("1-10000", range(1, 10_001)),
        ("2147483647", range(2**31 - 1, 2**31)),
    ],
)
def test_an_id_or_a_range_is_read(text: str, ids: range) -> None:
    assert broker_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a broker id"),
        ("-1", "'-1' is not a broker id"),
        ("01", "'01' is not a broker id"),
        ("9-1", "the range 9-1 is descending"),
        ("2147483648", "broker id 2147483648 exceeds the maximum of 2147483647"),
        ("0-10000", "the range 0-10000 has more than 10000 brokers"),
    ],
)
def test_text_that_is_neither_an_id_nor_a_range_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        broker_ids(text)
