"""Explores every state that a small cluster can reach, breadth first, and checks each one.

A state is expanded in a process: it is loaded, and each step that can follow is made on a fresh
copy. States with equal digests are expanded once. The numbers of states and transitions and the
depth depend only on the scope. The first violation found has a shortest path. This module prints
nothing.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

import msgspec

from klamm.cluster.errors import KlammError
from klamm.drills.exploration import Exploration, Scope, Violation
from klamm.runtime.interrupts import starting_workers

_CHUNK: Final = 100
_Entry = tuple[bytes, int | None]
"""A state to be expanded: a saved state, and the choice that leads on to it, if any."""


class Expanded(msgspec.Struct, frozen=True):
    """A state as bytes, and the digest and violation after each of its choices."""

    saved: bytes
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
    entries: list[tuple[bytes, _Entry]] = [(start, (first.save(), None))]
    with _Pool(jobs) as pool:
        while entries and progress.violation is None and progress.states != max_states:
            following: list[tuple[bytes, _Entry]] = []
            for (digest, _), expanded in zip(
                entries, pool.expand([entry for _, entry in entries]), strict=True
            ):
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
                    following.append((after, (expanded.saved, choice)))
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


class _Pool:
    """Expands states in several processes, in the given order. With one job, in this process."""

    def __init__(self, jobs: int) -> None:
        self._executor = (
            None
            if jobs == 1
            else ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin)
        )

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def expand(self, entries: Sequence[_Entry]) -> Iterator[Expanded]:
        chunks = [entries[at : at + _CHUNK] for at in range(0, len(entries), _CHUNK)]
        if self._executor is None:
            results: Iterable[list[Expanded]] = map(expand, chunks)
        else:
            with starting_workers():
                results = self._executor.map(_expand_in_a_child, chunks)
        for chunk in results:
            yield from chunk


def expand(entries: Iterable[_Entry]) -> list[Expanded]:
    """Return the states that can follow each of some states."""
    return [_expand_one(saved, choice) for saved, choice in entries]


def _expand_one(saved: bytes, choice: int | None) -> Expanded:
    state = Exploration.load(saved)
    if choice is not None:
        state.take(choice)
        saved = state.save()
    after: list[tuple[bytes, Violation | None]] = []
    last = len(state.choices) - 1
    for number in range(last + 1):
        following = state if number == last else Exploration.load(saved)
        following.take(number)
        after.append((following.digest(), following.violation()))
    return Expanded(saved, tuple(after))


def _begin() -> None:
    """Prepare a process that prints no warnings."""
    logging.getLogger().addHandler(logging.NullHandler())
    gc.freeze()


def _expand_in_a_child(entries: Sequence[_Entry]) -> list[Expanded]:
    """Expand states in a forked child, whose memory is cheaper to drop than to collect."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()
        status = 1
        try:
            with os.fdopen(sending, "wb") as out:
                pickle.dump(expand(entries), out)
            status = 0
        finally:
            os._exit(status)
    os.close(sending)
    with os.fdopen(receiving, "rb") as results:
        data = results.read()
    _, status = os.waitpid(child, 0)
    if status:
        hint = "if the machine is out of memory, use fewer --jobs"
        raise KlammError(f"a process that explored states ended with status {status}", hint=hint)
    found: list[Expanded] = pickle.loads(data)  # noqa: S301
    return found
