"""Evens out loads by shifting single items along chains of brokers, until no chain helps.

Must not know what an item is. A load is a number of items, kept ones included; what is made
small is the sum over brokers of load squared by weight. Where items are free of each other no
other arrangement is better: the least cost of a flow with convex costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

MayMove = Callable[[int, int, int], bool]
Move = Callable[[int, int, int], None]
_Step = tuple[int, int, int]


class Spread:
    """Loads of brokers, and which items may still be shifted.

    `may_move(item, source, target)` says whether an item may go from one broker to another,
    `move` does it in the caller's own records. Items are numbers; an item may stand on several
    brokers, once on each.
    """

    def __init__(self, load: dict[int, int], weights: dict[int, float]) -> None:
        self.load = load
        self.weights = weights
        self._items: dict[int, dict[int, None]] = {broker: {} for broker in load}

    def cost_of_one_more(self, broker: int) -> float:
        """What one more item on `broker` adds to the cost."""
        return (2 * self.load[broker] + 1) / self.weights[broker]

    def gain_of_one_less(self, broker: int) -> float:
        """What the cost falls by when an item leaves `broker`."""
        return (2 * self.load[broker] - 1) / self.weights[broker]

    def put(self, item: int, broker: int) -> None:
        """Add a movable item to `broker`."""
        self.load[broker] += 1
        self._items[broker][item] = None

    def even_out(self, brokers: Sequence[int], may_move: MayMove, move: Move) -> None:
        """Shift items among `brokers` while that lowers the cost."""

        def shift(item: int, source: int, target: int) -> None:
            move(item, source, target)
            del self._items[source][item]
            self._items[target][item] = None
            self.load[source] -= 1
            self.load[target] += 1

        stuck: list[set[int]] = []
        while True:
            touched = self._shift_once(brokers, stuck, may_move, shift)
            if touched is None and stuck:
                # A shift elsewhere may have freed an item of these: look at all of them again.
                stuck.clear()
                touched = self._shift_once(brokers, stuck, may_move, shift)
            if touched is None:
                return
            stuck = [seen for seen in stuck if touched.isdisjoint(seen)]

    def _shift_once(
        self, brokers: Sequence[int], stuck: list[set[int]], may_move: MayMove, shift: Move
    ) -> set[int] | None:
        """Shift along one chain and give its brokers; None if none helps.

        `stuck` are sets of brokers that only push to each other, without gain; it grows. Since
        the costliest broker is tried first, what it can reach has nothing to gain either.
        """
        least = min(map(self.cost_of_one_more, brokers), default=0.0)
        starts = sorted(
            (broker for broker in brokers if self._items[broker]),
            key=lambda broker: (-self.gain_of_one_less(broker), broker),
        )
        for start in starts:
            if self.gain_of_one_less(start) <= least:
                return None
            if any(start in seen for seen in stuck):
                continue
            reached, end = self._reach(start, brokers, may_move)
            if end is not None:
                path = _path(reached, start, end)
                if _take(path, may_move, shift):
                    return {broker for _, source, target in path for broker in (source, target)}
            else:
                stuck.append({start, *reached})
        return None

    def _reach(
        self, start: int, brokers: Iterable[int], may_move: MayMove
    ) -> tuple[dict[int, tuple[int, int]], int | None]:
        """Follow chains from `start` to the first broker where an item of it costs less.

        Gives {broker: (the broker before it, the item that goes)} and that broker, or None
        when nothing that `start` can push to costs less.
        """
        gain = self.gain_of_one_less(start)
        unreached = dict.fromkeys(
            sorted(
                (broker for broker in brokers if broker != start),
                key=lambda broker: (self.cost_of_one_more(broker), broker),
            )
        )
        reached: dict[int, tuple[int, int]] = {}
        queue = deque([start])
        while queue and unreached:
            source = queue.popleft()
            for item in self._items[source]:
                for target in [one for one in unreached if may_move(item, source, one)]:
                    del unreached[target]
                    reached[target] = (source, item)
                    queue.append(target)
                    if self.cost_of_one_more(target) < gain:
                        return reached, target
                if not unreached:
                    break
        return reached, None


def _path(reached: dict[int, tuple[int, int]], start: int, end: int) -> list[_Step]:
    """The steps (item, source, target) that end at `end`, the last one first."""
    steps = []
    target = end
    while target != start:
        source, item = reached[target]
        steps.append((item, source, target))
        target = source
    return steps


def _take(steps: list[_Step], may_move: MayMove, shift: Move) -> bool:
    # Two steps of one item can each be right and together break a rule about racks.
    done: list[_Step] = []
    for item, source, target in steps:
        if not may_move(item, source, target):
            for undone, back_to, back_from in reversed(done):
                shift(undone, back_from, back_to)
            return False
        shift(item, source, target)
        done.append((item, source, target))
    return True
