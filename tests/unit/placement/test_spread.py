"""Chains of moves between brokers: all steps are taken, or none."""

from __future__ import annotations

import pytest

from klamm.placement.spread import _take

# The last step first, as a search finds them: (item, source, target).
STEPS = [(7, 2, 3), (5, 1, 2), (6, 0, 1)]


@pytest.mark.parametrize("refused", [None, 0, 1, 2])
def test_steps_that_one_step_hinders_are_undone(refused: int | None) -> None:
    places, moves = {7: 2, 5: 1, 6: 0}, []

    def may_move(item: int, source: int, target: int) -> bool:
        assert places[item] == source
        return refused is None or (item, source, target) != STEPS[refused]

    def shift(item: int, source: int, target: int) -> None:
        assert places[item] == source
        places[item] = target
        moves.append((item, source, target))

    assert _take(STEPS, may_move, shift) is (refused is None)
    if refused is None:
        assert (places, moves) == ({7: 3, 5: 2, 6: 1}, STEPS)
    else:
        assert places == {7: 2, 5: 1, 6: 0}
        back = [(item, target, source) for item, source, target in reversed(STEPS[:refused])]
        assert moves == [*STEPS[:refused], *back]
