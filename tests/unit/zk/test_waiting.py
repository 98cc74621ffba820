"""Waiting in real time for a condition."""

from __future__ import annotations

from klamm.zk.waiting import wait_until


def test_the_first_true_value_is_returned_or_the_last_one_after_the_timeout() -> None:
    values = iter([None, "", "held", "never asked for"])
    assert wait_until(lambda: next(values), 20.0, 0.0) == "held"
    assert wait_until(lambda: [], 0.0) == []
    assert next(values) == "never asked for"
