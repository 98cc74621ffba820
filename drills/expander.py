"""Expands states of a small cluster, which is reset in place to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.drills.exploration import Exploration, SearchSpace, StateViolation
from klamm.drills.processes import rare_collections
from klamm.runtime.simulated.checkpoint import Checkpoint

_REBUILT: Final = 8
"""Steps after which a checkpoint is made anew, without objects that are no longer used."""
_MAX_LANDMARKS: Final = 100

Path = bytes
"""The choices that lead to a state, from the first state on, each of them below 256."""
Expanded = tuple[tuple[bytes, StateViolation | None], ...]
"""The digest and violation after each choice in a state."""


class Chunk(NamedTuple):
    """States that a worker expands: their indexes in their level, and their paths."""

    worker: int
    numbers: Sequence[int]
    paths: Sequence[Path]


class Expander:
    """Expands states of a scope: the function of a worker.

    It keeps checkpoints of the states that it found itself, until their level has been expanded.
    """

    def __init__(self, scope: SearchSpace) -> None:
        self._scope = scope
        self._state: Exploration | None = None
        self._seen: set[bytes] = set()
        self._depth = 0
        self._level: dict[Path, Checkpoint] = {}
        self._next_level: dict[Path, Checkpoint] = {}
        self._landmarks: dict[Path, Checkpoint] = {}

    def __call__(self, chunk: Chunk) -> list[Expanded]:
        with rare_collections():
            if self._state is None:
                self._state = Exploration(self._scope)
                self._landmarks[b""] = self._state.checkpoint()
            return [self._expand(self._state, path) for path in chunk.paths]

    def _expand(self, state: Exploration, path: Path) -> Expanded:
        """Return the states that can follow the state at a path."""
        if len(path) > self._depth:
            self._level = self._next_level if len(path) == self._depth + 1 else {}
            self._depth, self._next_level = len(path), {}
        origin = self._level.pop(path, None)
        if origin is None:
            origin = self._reach(state, path)
        else:
            origin.reset()
        earlier = None if self._depth % _REBUILT == 0 else origin
        after: list[tuple[bytes, StateViolation | None]] = []
        for choice in range(len(state.choices)):
            if choice:
                origin.reset()
            state.take(choice)
            digest = state.digest()
            after.append((digest, state.violation()))
            if digest not in self._seen:
                self._seen.add(digest)
                self._next_level[path + bytes((choice,))] = state.checkpoint(earlier)
        return tuple(after)

    def _reach(self, state: Exploration, path: Path) -> Checkpoint:
        """Make the steps of a path, from its last landmark on. Return the state's checkpoint."""
        landmarks = self._landmarks
        known = next(n for n in range(len(path), -1, -1) if path[:n] in landmarks)
        landmarks[path[:known]].reset()
        for number in range(known, len(path)):
            state.take(path[number])
            if number % _REBUILT == 0:
                if len(landmarks) > _MAX_LANDMARKS:
                    del landmarks[next(key for key in landmarks if key)]
                landmarks[path[: number + 1]] = state.checkpoint()
        # Keep the texts of all actors for the states that follow.
        state.digest()
        return state.checkpoint()
