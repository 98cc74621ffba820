"""Explores every state that a small cluster can reach, breadth first, and checks each one.

States are expanded in processes: a process loads a saved state, makes the few steps that lead on to
the state, and each step that can follow. In between it resets the loaded state in place. States
with equal digests are expanded once. The numbers of states and transitions and the depth depend
only on the scope. The first violation found has a shortest path. This module prints nothing.
"""

from __future__ import annotations

import gc
import math
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec

from klamm.cluster.errors import KlammError
from klamm.drills.exploration import Exploration, Scope, Violation
from klamm.drills.processes import Died, Workers
from klamm.runtime.simulated.checkpoint import Checkpoint

_CHUNK: Final = 50
_CHUNKS_PER_JOB: Final = 4
"""A level has at least so many chunks for each process, so that all processes end it together."""
_MAX_PATH: Final = 3
"""A state is saved if this number of choices leads to it from another saved state."""
_Entry = tuple[bytes, tuple[int, ...]]
"""A state to be expanded: a saved state, and the choices that lead on from there."""
_Chunk = tuple[int, Sequence[_Entry]]
"""States of one level, with a number that tells their position in the level."""


class Expanded(msgspec.Struct, frozen=True):
    """The digest and violation after each choice in a state, and the state itself if saved."""

    saved: bytes | None
    after: tuple[tuple[bytes, Violation | None], ...]


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
    reached: dict[bytes, tuple[bytes, int] | None] = {start: None}
    entries: list[tuple[bytes, _Entry]] = [(start, (first.save()[0], ()))]
    expand_chunk = _expand_here if jobs == 1 else _expand_in_a_child
    with Workers(expand_chunk, jobs) as workers:
        while entries and progress.violation is None and progress.states != max_states:
            following: list[tuple[bytes, _Entry]] = []
            for (digest, entry), expanded in zip(
                entries, _expand_in_order(workers, [entry for _, entry in entries]), strict=True
            ):
                saved, path = entry if expanded.saved is None else (expanded.saved, ())
                for choice, (after, violation) in enumerate(expanded.after):
                    progress.transitions += 1
                    if after in reached:
                        continue
                    reached[after] = (digest, choice)
                    progress.states = len(reached)
                    if violation is not None:
                        progress.depth += 1
                        progress.violation = violation
                        progress.path = _path_to(after, reached)
                        yield progress
                        return
                    if progress.states == max_states:
                        progress.depth += 1
                        yield progress
                        return
                    following.append((after, (saved, (*path, choice))))
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


def _path_to(digest: bytes, reached: dict[bytes, tuple[bytes, int] | None]) -> tuple[int, ...]:
    path: list[int] = []
    while (before := reached[digest]) is not None:
        digest, choice = before
        path.append(choice)
    return tuple(reversed(path))


def _expand_in_order(
    workers: Workers[_Chunk, list[Expanded]], entries: Sequence[_Entry]
) -> Iterator[Expanded]:
    """Expand the states of one level. Yield the results in the order of the states."""
    size = min(_CHUNK, math.ceil(len(entries) / (workers.jobs * _CHUNKS_PER_JOB)))
    chunks = (entries[at : at + size] for at in range(0, len(entries), size))
    results: dict[int, list[Expanded]] = {}
    awaited = 0
    for (number, _), result in workers.run(enumerate(chunks)):
        if isinstance(result, Died):
            raise _memory_error(str(result))
        results[number] = result
        while awaited in results:
            yield from results.pop(awaited)
            awaited += 1


def expand(entries: Iterable[_Entry]) -> list[Expanded]:
    """Return the states that can follow each of some states."""
    expanded: list[Expanded] = []
    for saved, group in groupby(entries, key=itemgetter(0)):
        state, origin = Exploration.load(saved)
        for _, path in group:
            expanded.append(_expand_one(state, origin, path))
            origin.reset()
    return expanded


def _expand_one(state: Exploration, origin: Checkpoint, path: Sequence[int]) -> Expanded:
    """Expand the state to which ``path`` leads from ``origin``.

    Making the steps of a short path again is cheaper than saving the state."""
    _follow(state, path)
    saved = None
    if len(path) == _MAX_PATH:
        saved, origin = state.save()
        path = ()
    after: list[tuple[bytes, Violation | None]] = []
    choices = len(state.choices)
    for choice in range(choices):
        if choice:
            origin.reset()
            _follow(state, path)
        state.take(choice)
        after.append((state.digest(), state.violation()))
    return Expanded(saved, tuple(after))


def _follow(state: Exploration, path: Sequence[int]) -> None:
    for choice in path:
        state.take(choice)


def _expand_here(chunk: _Chunk) -> list[Expanded]:
    return expand(chunk[1])


def _expand_in_a_child(chunk: _Chunk) -> list[Expanded]:
    """Expand states in a forked child, whose memory is cheaper to drop than to collect."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()
        status = 1
        try:
            with os.fdopen(sending, "wb") as out:
                pickle.dump(expand(chunk[1]), out)
            status = 0
        finally:
            os._exit(status)
    os.close(sending)
    with os.fdopen(receiving, "rb") as results:
        data = results.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise _memory_error(f"a process that explored states ended with status {status}")
    found: list[Expanded] = pickle.loads(data)  # noqa: S301
    return found


def _memory_error(problem: str) -> KlammError:
    return KlammError(problem, hint="if the machine is out of memory, use fewer --jobs")
