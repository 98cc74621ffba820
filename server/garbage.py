"""Garbage collection in a process with a large, long-lived state."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator, Mapping
from typing import Final

_FULL: Final = 2
"""The generation of a collection that examines all objects but the frozen ones."""
_GROWTH: Final = 2


@contextlib.contextmanager
def survivors_frozen() -> Iterator[None]:
    """Context manager: full garbage collections skip the objects that survived an earlier one.

    All threads wait while a full collection examines the objects of a controller's context. Frozen
    objects are still freed when nothing refers to them; garbage in reference cycles is not. When
    the number of memory blocks has doubled, a full collection examines the frozen objects too.
    """
    blocks = 0

    def on_collection(phase: str, info: Mapping[str, int]) -> None:
        nonlocal blocks
        if info["generation"] != _FULL:
            return
        if phase == "start":
            if sys.getallocatedblocks() > _GROWTH * blocks:
                gc.unfreeze()
                blocks = 0
            return
        gc.freeze()
        blocks = blocks or sys.getallocatedblocks()

    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(on_collection)
        gc.unfreeze()
