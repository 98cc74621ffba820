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

from klamm.cluster.errors import KlammError, UsageError
from klamm.drills.expander import Chunk, Expanded, Expander, Path
from klamm.drills.exploration import Exploration, SearchSpace, StateViolation
from klamm.drills.processes import Died, Workers

_CHUNK: Final = 50
_CHUNKS_PER_JOB: Final = 4
"""A level has at least so many chunks for each process, so that all processes end it together."""
_STOLEN_FROM: Final = 2
"""A worker takes states that another found only if that one has so many chunks left."""


class _Entry(NamedTuple):
    """A state to be expanded, and the number of the worker that found it."""

    digest: bytes
    path: Path
    worker: int


class Explored(msgspec.Struct):
    """What has been explored so far.

    ``depth``: steps from the first state to the farthest. ``path``: the choices that lead to the
    violation. ``is_complete``: no state is left to be expanded.
    """

    states: int = 1
    transitions: int = 0
    depth: int = 0
    is_complete: bool = False
    violation: StateViolation | None = None
    path: tuple[int, ...] = ()


def explore(scope: SearchSpace, jobs: int, max_states: int | None = None) -> Iterator[Explored]:
    """Explore a scope in ``jobs`` processes. Yield the progress, and at the end the result.

    Ends when nothing is left, at a violation, or when there are ``max_states`` states."""
    first = Exploration(scope)
    progress = Explored(violation=first.violation())
    start = first.digest()
    reached = {start}
    entries = [_Entry(start, b"", 0)]
    with Workers(Expander(scope), jobs) as workers:
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
                        progress.violation = violation
                        progress.path = (*entry.path, choice)
                    if violation is not None or progress.states == max_states:
                        progress.depth += 1
                        yield progress
                        return
                    following.append(_Entry(after, entry.path + bytes((choice,)), worker))
                yield progress
            entries = following
            progress.depth += bool(entries)
        progress.is_complete = not entries
        yield progress


def make_steps(scope: SearchSpace, path: Sequence[int]) -> Iterator[tuple[str, Exploration]]:
    """Make the steps of a path, one after the other. Yield the text of each and the state after it.

    Raises UsageError if a state does not have the choice."""
    state = Exploration(scope)
    for number, choice in enumerate(path, 1):
        if choice >= len(state.choices):
            shown = ".".join(map(str, path))
            raise UsageError(
                f"path {shown}: step {number} cannot be {choice}",
                hint=f"choices after step {number - 1}: "
                + (", ".join(f"{n} = {text}" for n, text in enumerate(state.choices)) or "none"),
            )
        text = state.choices[choice]
        state.take(choice)
        yield text, state


def _expand_in_order(
    workers: Workers[Chunk, list[Expanded]], entries: Sequence[_Entry]
) -> Iterator[tuple[Expanded, int]]:
    """Expand the states of one level. Yield the results and workers in the order of the states."""
    found_by: defaultdict[int, list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        found_by[entry.worker].append(number)
    size = min(_CHUNK, math.ceil(len(entries) / (workers.jobs * _CHUNKS_PER_JOB)))
    queues = {
        worker: deque(numbers[at : at + size] for at in range(0, len(numbers), size))
        for worker, numbers in found_by.items()
    }

    def choose(worker: int) -> Chunk | None:
        """Return the next states that a worker found itself, or the last ones of another worker."""
        if queue := queues.get(worker):
            numbers = queue.popleft()
        else:
            queue = max(queues.values(), key=len)
            if len(queue) < _STOLEN_FROM:
                return None
            numbers = queue.pop()
        return Chunk(worker, numbers, [entries[number].path for number in numbers])

    results: dict[int, tuple[Expanded, int]] = {}
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
