"""Explores every state that a small cluster can reach, breadth first, and checks each one.

States are expanded in processes. Each process has one cluster, and resets it in place to the states
that it found first. A state that another process found is reached again by its path. States with
equal digests are expanded once. The numbers of states and transitions and the depth depend only on
the scope. The first violation found has a shortest path. This module prints nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.errors import KlammError
from klamm.drills.exploration import Exploration, Scope, Violation
from klamm.drills.processes import Died, Workers, rare_collections
from klamm.runtime.simulated.checkpoint import Checkpoint

_CHUNK: Final = 50
_CHUNKS_PER_JOB: Final = 4
"""A level has at least so many chunks for each process, so that all processes end it together."""
_REBUILT: Final = 8
"""Steps after which a checkpoint is made anew, without objects that are no longer used."""
_MAX_LANDMARKS: Final = 100
_STOLEN_FROM: Final = 2
"""A worker takes states that another found only if that one has so many chunks left."""

_Path = bytes
"""The choices that lead to a state, from the first state on, each of them below 256."""
_Expanded = tuple[tuple[bytes, Violation | None], ...]
"""The digest and violation after each choice in a state."""


class _Entry(NamedTuple):
    """A state to be expanded, and the number of the worker that found it."""

    digest: bytes
    path: _Path
    worker: int


class _Chunk(NamedTuple):
    """States that a worker expands: their indexes in their level, and their paths."""

    worker: int
    numbers: Sequence[int]
    paths: Sequence[_Path]


class Progress(msgspec.Struct):
    """What has been explored so far.

    ``depth``: steps from the first state to the farthest. ``path``: the choices that lead to the
    violation. ``is_complete``: no state is left to be expanded.
    """

    states: int = 1
    transitions: int = 0
    depth: int = 0
    is_complete: bool = False
    violation: Violation | None = None
    path: tuple[int, ...] = ()


def explore(scope: Scope, jobs: int, max_states: int | None = None) -> Iterator[Progress]:
    """Explore a scope in ``jobs`` processes. Yield the progress, and at the end the result.

    Ends when nothing is left, at a violation, or when there are ``max_states`` states."""
    first = Exploration(scope)
    progress = Progress(violation=first.violation())
    start = first.digest()
    reached = {start}
    entries = [_Entry(start, b"", 0)]
    with Workers(_Expander(scope), jobs) as workers:
        while entries and progress.violation is None and progress.states != max_states:
            following: list[_Entry] = []
            for entry, (expanded, worker) in zip(
                entries, _expand_in_order(workers, entries), strict=True
            ):
                for choice, (after, violation) in enumerate(expanded):
                    progress.transitions += 1
                    if after in reached:
                        continue
                    reached.add(after)
                    progress.states = len(reached)
                    if violation is not None:
                        progress.depth += 1
                        progress.violation = violation
                        progress.path = (*entry.path, choice)
                        yield progress
                        return
                    if progress.states == max_states:
                        progress.depth += 1
                        yield progress
                        return
                    following.append(_Entry(after, entry.path + bytes((choice,)), worker))
                yield progress
            entries = following
            progress.depth += bool(entries)
        progress.is_complete = not entries
        yield progress


def replay(scope: Scope, path: Sequence[int]) -> Iterator[tuple[str, Exploration]]:
    """Make the steps of a path, one after the other. Yield the text of each and the state after it.

    Raises IndexError if a step does not exist."""
    state = Exploration(scope)
    for choice in path:
        text = state.choices[choice]
        state.take(choice)
        yield text, state


def _expand_in_order(
    workers: Workers[_Chunk, list[_Expanded]], entries: Sequence[_Entry]
) -> Iterator[tuple[_Expanded, int]]:
    """Expand the states of one level. Yield the results and workers in the order of the states."""
    found_by: defaultdict[int, list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        found_by[entry.worker].append(number)
    size = min(_CHUNK, math.ceil(len(entries) / (workers.jobs * _CHUNKS_PER_JOB)))
    queues = {
        worker: deque(numbers[at : at + size] for at in range(0, len(numbers), size))
        for worker, numbers in found_by.items()
    }

    def choose(worker: int) -> _Chunk | None:
        """Return the next states that a worker found itself, or the last ones of another worker."""
        if queue := queues.get(worker):
            numbers = queue.popleft()
        else:
            queue = max(queues.values(), key=len)
            if len(queue) < _STOLEN_FROM:
                return None
            numbers = queue.pop()
        return _Chunk(worker, numbers, [entries[number].path for number in numbers])

    results: dict[int, tuple[_Expanded, int]] = {}
    awaited = 0
    for chunk, result in workers.run_chosen(choose):
        if isinstance(result, Died):
            hint = "if the machine is out of memory, use fewer --jobs"
            raise KlammError(str(result), hint=hint)
        for number, expanded in zip(chunk.numbers, result, strict=True):
            results[number] = expanded, chunk.worker
        while awaited in results:
            yield results.pop(awaited)
            awaited += 1


class _Expander:
    """Expands states of a scope: the function of a worker.

    It keeps checkpoints of the states that it found itself, until their level has been expanded.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._state: Exploration | None = None
        self._seen: set[bytes] = set()
        self._depth = 0
        self._level: dict[_Path, Checkpoint] = {}
        self._next_level: dict[_Path, Checkpoint] = {}
        self._landmarks: dict[_Path, Checkpoint] = {}

    def __call__(self, chunk: _Chunk) -> list[_Expanded]:
        with rare_collections():
            if self._state is None:
                self._state = Exploration(self._scope)
                self._landmarks[b""] = self._state.checkpoint()
            return [self._expand(self._state, path) for path in chunk.paths]

    def _expand(self, state: Exploration, path: _Path) -> _Expanded:
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
        after: list[tuple[bytes, Violation | None]] = []
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

    def _reach(self, state: Exploration, path: _Path) -> Checkpoint:
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
