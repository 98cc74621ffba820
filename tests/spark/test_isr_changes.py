"""Which replicas flap, and how often replicas leave and join ISRs, at the edges of intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from klamm.replay.engines import Engine
from klamm.replay.questions.isrs import FLAP_WINDOW_MS, flapping_replicas, isr_churn, moves
from tests.spark.conftest import Coded, rows_of
from tests.spark.test_questions import on

HALF_MS = FLAP_WINDOW_MS // 2


def left(partition: int, t_ms: int) -> dict[str, Any]:
    """Broker 2 leaves the ISR of a partition."""
    return on(partition, kind="isr_changed", t_ms=t_ms, leader=1, prev_isr=[1, 2], isr=[1])


def joined(partition: int, t_ms: int) -> dict[str, Any]:
    """Broker 2 joins the ISR of a partition."""
    return on(partition, kind="isr_changed", t_ms=t_ms, leader=1, prev_isr=[1], isr=[1, 2])


def flaps(partition: int, *times: int) -> Iterator[dict[str, Any]]:
    """Broker 2 leaves an ISR at each of these times, and joins it 1 ms later."""
    for t_ms in times:
        yield left(partition, t_ms)
        yield joined(partition, t_ms + 1)


def test_a_replica_flaps_that_leaves_and_joins_often_enough_in_some_window(
    engine: Engine, coded: Coded
) -> None:
    end = FLAP_WINDOW_MS
    rows = [
        *flaps(0, 0, 1, 2, 3, end - 2),
        *[*flaps(1, 0, 1, 2, 3), left(1, 4)],
        *[*flaps(2, 0, 1, 2, 3), joined(2, 4)],
        *flaps(3, HALF_MS, 1 + HALF_MS, 2 + HALF_MS, 3 + HALF_MS, end + HALF_MS - 2),
        # No window has all five.
        *flaps(4, 0, HALF_MS, 1 + HALF_MS, end, end + 1),
        *flaps(5, 0, 1, 2, 3, end),
        # The window with the most changes is shown, or else the first.
        *flaps(6, 0, 1, 2, 3, 4, *(10 * end + n for n in range(6))),
        *flaps(7, 0, 1, 2, 3, 4, *(10 * end + n for n in range(5))),
        *flaps(8, 0, 1, 2, 3, 4, HALF_MS, 10 * end),
        *[*flaps(9, 0, 1, 2, 3, 4), left(9, 6), *flaps(9, *(10 * end + n for n in range(5)))],
        *[joined(9, 10 * end + 10), joined(9, 10 * end + 11)],
    ]
    found = flapping_replicas(engine.keep(moves(coded(*rows))))
    columns = ("partition", "replica", "shrinks", "expands", "start_ms", "end_ms")
    assert rows_of(engine, found, *columns) == [
        (0, 2, 5, 5, 0, end - 1),
        (3, 2, 5, 5, HALF_MS, end + HALF_MS - 1),
        (6, 2, 6, 6, 10 * end, 10 * end + 6),
        (7, 2, 5, 5, 0, 5),
        (8, 2, 6, 6, 0, HALF_MS + 1),
        (9, 2, 5, 7, 10 * end, 10 * end + 11),
    ]


def test_changes_of_isrs_are_counted_by_broker_in_intervals_without_their_ends(
    engine: Engine, coded: Coded
) -> None:
    both = on(kind="isr_changed", leader=1, prev_isr=[1, 2], isr=[1, 3], t_ms=210)
    rows = [left(0, 99), left(0, 100), joined(0, 149), joined(1, 149), left(0, 150), both]
    found = isr_churn(engine.keep(moves(coded(*rows))), 100, 50)
    assert rows_of(engine, found, "bucket_ms", "broker", "shrinks", "expands") == [
        (50, 2, 1, 0),
        (100, 2, 1, 2),
        (150, 2, 1, 0),
        (200, 2, 1, 0),
        (200, 3, 0, 1),
    ]


def test_a_replica_flaps_that_falls_behind_once_a_minute(engine: Engine, coded: Coded) -> None:
    minutes = [*flaps(0, *(60_000 * n for n in range(5)))]
    slowly = [*flaps(1, *(80_000 * n for n in range(20)))]
    found = flapping_replicas(engine.keep(moves(coded(*minutes, *slowly))))
    assert rows_of(engine, found, "partition", "shrinks", "end_ms") == [(0, 5, 240_001)]
