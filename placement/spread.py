"""Load balancing: shifts single items along chains of brokers while that lowers the cost.

The caller decides what an item is, for example a replica or a leadership. A broker's load is its
number of items, including items that cannot be moved. The cost is the sum over brokers of load
squared divided by weight. If the items can be moved independently of each other, the result is
optimal: a minimum-cost flow with convex costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

MayMove = Callable[[int, int, int], bool]
Move = Callable[[int, int, int], None]
_Step = tuple[int, int, int]


class Spread:
    """Loads of brokers, and the items that can be shifted between brokers.

    An item is identified by a number. An item may be on several brokers, but only once on each.
    The caller passes two callbacks: `may_move(item, source, target)` returns True if the item may
    be shifted from one broker to the other, and `move(item, source, target)` is called for each
    shift, so that the caller can record it.
    """

    def __init__(self, load: dict[int, int], weights: dict[int, float]) -> None:
        self.load = load
        self.weights = weights
        self._items: dict[int, dict[int, None]] = {broker: {} for broker in load}

    def cost_of_one_more(self, broker: int) -> float:
        """Return the cost added by one more item on `broker`."""
        return (2 * self.load[broker] + 1) / self.weights[broker]

    def gain_of_one_less(self, broker: int) -> float:
        """Return the cost saved when an item leaves `broker`."""
        return (2 * self.load[broker] - 1) / self.weights[broker]

    def put(self, item: int, broker: int) -> None:
        """Add a movable item to `broker`."""
        self.load[broker] += 1
        self._items[broker][item] = None

    def even_out(self, brokers: Sequence[int], may_move: MayMove, move: Move) -> None:
        """Shift items among `brokers` until no shift lowers the cost."""

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
                # A shift elsewhere may have freed an item of these brokers: check them again.
                stuck.clear()
                touched = self._shift_once(brokers, stuck, may_move, shift)
            if touched is None:
                return
            stuck = [seen for seen in stuck if touched.isdisjoint(seen)]

    def _shift_once(
        self, brokers: Sequence[int], stuck: list[set[int]], may_move: MayMove, shift: Move
    ) -> set[int] | None:
        """Shift items along a chain of brokers that lowers the cost; return the chain's brokers.

        Return None if no chain lowers the cost. `stuck` contains sets of brokers that can only
        shift items among themselves, without lowering the cost; new sets are appended. Chains
        from the costliest broker are tried first: if none of them lowers the cost, no chain from a
        broker that it can reach does either.
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
        """Find a broker for which a chain of shifts from `start` to that broker lowers the cost.

        Returns {visited broker: (previous broker, shifted item)}, and the broker found or None.
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
    """Return the steps (item, source, target) that lead to `end`, the last step first."""
    steps = []
    target = end
    while target != start:
        source, item = reached[target]
        steps.append((item, source, target))
        target = source
    return steps


def _take(steps: list[_Step], may_move: MayMove, shift: Move) -> bool:
    # Two steps that move the same item can each be valid, but together violate a rack rule.
    done: list[_Step] = []
    for item, source, target in steps:
        if not may_move(item, source, target):
            for undone, back_to, back_from in reversed(done):
                shift(undone, back_from, back_to)
            return False
        shift(item, source, target)
        done.append((item, source, target))
    return True
