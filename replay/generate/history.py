"""Composes a history of any length from recorded episodes, in seeded random order.

The history is generated in blocks of rows. Only the recorded episodes, a few numbers per partition,
and the planted anomalies are kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from klamm.replay.generate.layout import Layout
from klamm.replay.generate.options import ROWS_A_FAILOVER, ROWS_A_PLANTED, HistoryOptions, Planted
from klamm.replay.generate.planting import Planting
from klamm.replay.generate.recording import GeneratedRecording
from klamm.replay.generate.rows import LOST, RowBlock
from klamm.replay.generate.tiling import Player, Tile

_RECORDED_EPISODES: Final = 4
_FROM: Final = 0.05
"""Anomalies are planted between these positions, as fractions of the number of rows."""
_TO: Final = 0.85


class GeneratedHistory:
    """Generator of a history. ``blocks`` may be called only once."""

    def __init__(self, options: HistoryOptions) -> None:
        self.options = options
        self.layout = Layout(options)
        self.rows = 0
        """Number of rows yielded so far."""
        self.epochs = 0
        self._rng = np.random.Generator(np.random.PCG64(options.seed))
        self._recording = GeneratedRecording(self.layout)
        self.player = Player(self.layout)
        self.planting = Planting(self.player, self._recording)
        self._episodes: list[Tile] = []
        self._due: list[tuple[int, Planted, int]] = []
        self._last: Tile | None = None
        """The episode that fills the history when no other one fits; it can be cut anywhere."""
        self._restart: Tile | None = None
        self._restarts: list[int] = []
        """The number of rows after which each restart takes place, the highest first."""

    def blocks(self) -> Iterator[RowBlock]:
        """Yield blocks with the requested number of rows, not counting rows marked as lost."""
        for block in self._all_blocks():
            is_there = block.columns["fate"] != LOST
            left = self.options.events - self.rows
            if int(is_there.sum()) > left:
                block = block.part(slice(int(np.nonzero(is_there)[0][left])))
                is_there = is_there[: block.count]
            block.columns["run"][:] = self.player.run
            self.rows += int(is_there.sum())
            self.epochs = max(self.epochs, int(block.columns["epoch"].max(initial=0)))
            if block.count:
                yield block
            if self.rows == self.options.events:
                break
        assert not self._due and not self._restarts, "everything was planted"

    def _all_blocks(self) -> Iterator[RowBlock]:
        yield self.player.start()
        yield from self.player.play(Tile(self._recording.creation(), self.layout))
        failover = Tile(self._recording.failover(), self.layout)
        self._due = self._schedule()
        if self.options.restarts:
            self._restart = Tile(self._recording.restart(), self.layout)
            places = np.linspace(*self._between(), self.options.restarts + 2)[-2:0:-1]
            self._restarts = places.astype(np.int64).tolist()
        while True:
            tile = self._next_episode()
            since_failover: list[Planted] | None = None
            for kind, p in self._to_plant(tile.count):
                is_second = kind is Planted.TWO_CONTROLLERS
                if since_failover is None or (is_second and kind in since_failover):
                    yield from self._play(failover)
                    since_failover = []
                since_failover.append(kind)
                yield self.planting.plant(kind, p)
            if tile is not self._restart and not self._fits(tile):
                tile = self._restart_or_last()
            yield from self._play(tile)

    def _play(self, tile: Tile) -> Iterator[RowBlock]:
        yield self.player.start() if tile is self._restart else self.player.resign()
        yield from self.player.play(tile)

    def _next_episode(self) -> Tile:
        if self._restarts and self.rows >= self._restarts[-1]:
            return self._restart_or_last()
        if len(self._episodes) < _RECORDED_EPISODES:
            self._episodes.append(Tile(self._recording.episode(), self.layout))
            return self._episodes[-1]
        return self._episodes[int(self._rng.integers(_RECORDED_EPISODES))]

    def _fits(self, episode: Tile) -> bool:
        """Whether the episode can end, so that no reassignment, deletion or failure is cut off."""
        return self.rows + 1 + episode.count + self._rows_needed() <= self.options.events

    def _restart_or_last(self) -> Tile:
        """Return the next restart, or if there is none, the episode that may be cut off."""
        if self._restart is not None and self._restarts:
            self._restarts.pop()
            return self._restart
        if self._last is None:
            self._last = Tile(self._recording.isr_changes(), self.layout)
        return self._last

    def _rows_needed(self) -> int:
        """Return the maximum number of rows of the remaining anomalies and restarts."""
        failovers = bool(self._due) + sum(
            kind is Planted.TWO_CONTROLLERS for _, kind, _ in self._due
        )
        rows = ROWS_A_PLANTED * len(self._due)
        rows += failovers * ROWS_A_FAILOVER * self.options.partitions
        return rows + len(self._restarts) * self.options.restart_rows

    def _schedule(self) -> list[tuple[int, Planted, int]]:
        """Choose a random row number for each anomaly. The highest comes first."""
        kinds = [kind for kind, count in self.options.planted.items() for _ in range(count)]
        due = self._rng.uniform(*self._between(), len(kinds)).astype(np.int64).tolist()
        return sorted(zip(due, kinds, self.layout.planted, strict=True), reverse=True)

    def _between(self) -> tuple[float, float]:
        """Return the numbers of rows between which anomalies are planted and restarts happen."""
        left = self.options.events - self.rows
        return self.rows + _FROM * left, self.rows + _TO * left

    def _to_plant(self, coming: int) -> Iterator[tuple[Planted, int]]:
        """Yield the anomalies to plant before the next episode, which has ``coming`` rows.

        An anomaly is planted now if it is scheduled before the middle of that episode. If too few
        rows may remain after the episode, all remaining anomalies are planted now.
        """
        room = _TO * self.options.events - self._rows_needed()
        until = self.rows + coming // 2 if self.rows + coming < room else self.options.events
        while self._due and self._due[-1][0] <= until:
            _, kind, p = self._due.pop()
            yield kind, p
