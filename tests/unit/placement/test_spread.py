"""Chains of moves between brokers: which are taken, and that of one all steps are, or none."""

from __future__ import annotations

import pytest

from klamm.placement.spread import Spread, _take

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


class Items:
    """Numbered items on brokers, which may be shifted along ``links``, and the shifts so far."""

    def __init__(
        self, *items: int, links: set[tuple[int, int]], weights: dict[int, float] | None = None
    ) -> None:
        self.places = list(items)
        self.moves: list[tuple[int, int, int]] = []
        self.links = links
        weights = weights or dict.fromkeys(sorted({*items, *(to for _, to in links)}), 1.0)
        self.spread = Spread(dict.fromkeys(weights, 0), weights)
        for item, broker in enumerate(items):
            self.spread.put(item, broker)

    def may_move(self, item: int, source: int, target: int) -> bool:
        assert self.places[item] == source
        return (source, target) in self.links

    def move(self, item: int, source: int, target: int) -> None:
        self.places[item] = target
        self.moves.append((item, source, target))

    def even_out(self) -> dict[int, int]:
        """The loads afterwards."""
        load = self.spread.load
        self.spread.even_out(list(load), self.may_move, self.move)
        assert load == {broker: self.places.count(broker) for broker in load}
        return load


def test_a_chain_of_brokers_passes_items_on_from_its_end() -> None:
    items = Items(0, 0, 0, links={(0, 1), (1, 2)})
    assert items.even_out() == {0: 1, 1: 1, 2: 1}
    assert items.moves == [(0, 0, 1), (0, 1, 2), (1, 0, 1)]


@pytest.mark.parametrize(
    ("weights", "load"),
    [
        ({0: 1.0, 1: 1.0}, {0: 4, 1: 3}),
        ({0: 1.0, 1: 3.0}, {0: 2, 1: 5}),
        ({0: 3.0, 1: 1.0}, {0: 5, 1: 2}),
        ({0: 1.0, 1: 1.0, 2: 100.0}, {0: 4, 1: 3, 2: 0}),
    ],
)
def test_a_heavier_broker_that_can_be_reached_gets_more(
    weights: dict[int, float], load: dict[int, int]
) -> None:
    assert Items(*[0] * 7, links={(0, 1)}, weights=weights).even_out() == load


def test_items_that_a_shift_elsewhere_frees_are_shifted_too() -> None:
    items = Items(0, 0, 0, 2, 2, links={(2, 3)}, weights=dict.fromkeys(range(4), 1.0))

    def move_and_free(item: int, source: int, target: int) -> None:
        items.move(item, source, target)
        items.links.add((0, 1))

    items.spread.even_out(range(4), items.may_move, move_and_free)
    assert items.moves == [(3, 2, 3), (0, 0, 1)]
    assert items.spread.load == {0: 2, 1: 1, 2: 1, 3: 1}
