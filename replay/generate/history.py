"""A whole history: which step follows which, by a seed, until there are rows enough.

Yields blocks of rows in the order in which they were written, bounded in size; nothing is kept but
the cluster itself and what was planted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from replay.generate import steps
from replay.generate.moves import Moves
from replay.generate.options import REPLICATION_FACTOR, HistoryOptions, Planted
from replay.generate.planting import Planting
from replay.generate.rows import LOST, Array, Block
from replay.generate.world import World, state_code
from statemachines.partition_state import PartitionState

BLOCK_ROWS: Final = 250_000
_CONTROLLER_SHARE: Final = 0.2
_MOST_DEAD: Final = 2
_MOST_STEPS_DEAD: Final = 6
_LEADERLESS_STEPS: Final = 8
_CHURN_PART: Final = 50
_MOVED_PART: Final = 200
_FROM: Final = 0.05
"""Things are planted between these shares of the rows; towards the end everything heals."""
_TO: Final = 0.85


class History:
    """One history. ``blocks`` can be asked for once."""

    def __init__(self, options: HistoryOptions) -> None:
        self.options = options
        self.world = World(options)
        self._rng = np.random.Generator(np.random.PCG64(options.seed))
        self._moves = Moves(self.world, {})
        self.planting = Planting(self.world, self._moves, self._rng)
        total = sum(options.planted.values())
        self._targets = self._rng.permutation(options.partitions)[:total].tolist()
        self._left_alone = np.zeros(options.partitions, bool)
        self._left_alone[self._targets] = True
        self._dead: dict[int, int] = {}
        self._leaderless_until = 0
        self._steps = 0
        self._done = 0
        self._due: list[tuple[int, Planted]] = []

    def blocks(self) -> Iterator[Block]:
        """Rows, exactly as many as were asked for; those that were lost do not count."""
        world, wanted = self.world, self.options.events
        steps.start(world)
        steps.create_topics(world, self._rng)
        yield from self._taken(0)
        self._due = self._schedule()
        while self._done < wanted:
            self._step()
            yield from self._taken(BLOCK_ROWS)
            if self._done + world.rows.count >= wanted:
                yield from self._taken(0)
        assert not self._due, "everything was planted"

    def _taken(self, at_least: int) -> Iterator[Block]:
        if self.world.rows.count <= at_least:
            return
        block = self.world.rows.take()
        is_there = block.columns["fate"] != LOST
        left = self.options.events - self._done
        if int(is_there.sum()) > left:
            block = block.first(int(np.nonzero(is_there)[0][left]))
            is_there = is_there[: block.count]
        self._done += int(is_there.sum())
        yield block

    @property
    def rows(self) -> int:
        """How many rows there are so far."""
        return self._done + self.world.rows.count

    def _schedule(self) -> list[tuple[int, Planted]]:
        """At which row each anomaly is due, the last one first."""
        kinds = [kind for kind, count in self.options.planted.items() for _ in range(count)]
        first = self._done + _FROM * (self.options.events - self._done)
        last = self._done + _TO * (self.options.events - self._done)
        due = self._rng.uniform(first, last, len(kinds)).astype(np.int64).tolist()
        return sorted(zip(due, kinds, strict=True), reverse=True)

    # One step after the other

    def _step(self) -> None:
        world, rng = self.world, self._rng
        self._steps += 1
        world.tick(int(rng.integers(500, 8_000)))
        if self._leaderless_is_over():
            self.planting.end_leaderless()
        if self._due and self._due[-1][0] <= self.rows and self._plant():
            return
        for broker, until in list(self._dead.items()):
            if until <= self._steps:
                del self._dead[broker]
                steps.return_broker(world, broker, rng)
                return
        heals = self.rows > _TO * self.options.events
        chance = rng.random()
        if chance < self.options.failure_rate and not heals:
            self._fail()
        elif rng.random() < 0.8:
            self._churn()
        elif rng.random() < 0.5:
            most = max(1, self.options.partitions // _CHURN_PART)
            steps.elect_preferred(world, most, self._left_alone)
        else:
            self._reassign(heals)

    def _leaderless_is_over(self) -> bool:
        return self.planting.is_leaderless and self._leaderless_until <= self._steps

    def _plant(self) -> bool:
        """Plants what is due; False if its partition is not well, so that it waits."""
        _, kind = self._due[-1]
        ready = (n for n, p in enumerate(self._targets) if self.planting.is_ready(p))
        n = next(ready, None)
        if n is None:
            return False
        if self.planting.needs_new_epoch(kind):
            self._fail_over(dies=False)
        p = self._targets.pop(n)
        self._due.pop()
        if kind is Planted.LEADERLESS:
            self._leaderless_until = self._steps + int(self._rng.integers(2, _LEADERLESS_STEPS))
        self.planting.plant(kind, p)
        return True

    def _fail(self) -> None:
        if self._rng.random() < _CONTROLLER_SHARE:
            dies = len(self._dead) < _MOST_DEAD and self._rng.random() < 0.5
            self._fail_over(dies=dies)
            return
        others = self._live()
        others = others[others != self.world.controller]
        if len(self._dead) >= _MOST_DEAD:
            self._churn()
            return
        self.planting.end_leaderless()
        broker = int(others[int(self._rng.integers(len(others)))])
        self._will_return(broker)
        steps.fail_broker(self.world, broker)

    def _fail_over(self, *, dies: bool) -> None:
        self.planting.end_leaderless()
        others = self._live()
        others = others[others != self.world.controller]
        if dies:
            self._will_return(self.world.controller)
        steps.fail_over(self.world, int(others[int(self._rng.integers(len(others)))]), dies=dies)

    def _will_return(self, broker: int) -> None:
        self._dead[broker] = self._steps + int(self._rng.integers(1, _MOST_STEPS_DEAD))

    def _live(self) -> Array:
        return np.nonzero(self.world.live)[0]

    def _churn(self) -> None:
        p = self._some(_CHURN_PART)
        if len(p):
            steps.churn(self.world, p, self._rng)

    def _some(self, part: int) -> Array:
        """Some partitions that nothing is planted in, each once."""
        count = self.options.partitions
        p = np.unique(self._rng.integers(0, count, max(1, count // part)))
        return p[~self._left_alone[p]]

    def _reassign(self, heals: bool) -> None:
        """Completes what can be; else begins something new."""
        if self._moves.running:
            self._moves.complete(self._moves.ready())
            return
        if heals:
            self._churn()
            return
        p = self._some(_MOVED_PART)
        p = p[self.world.state[p] == state_code(PartitionState.ONLINE)]
        adding = self._rng.integers(1, self.options.brokers + 1, len(p))
        has = (self.world.replicas[p] == adding[:, None]).any(axis=1)
        can = self.world.live[adding] & ~has
        p, adding = p[can], adding[can]
        if len(p):
            slot = self._rng.integers(0, REPLICATION_FACTOR, len(p))
            self._moves.begin(p, slot, adding)
        else:
            self._churn()
