"""Full collections skip what survived an earlier one, but garbage stays bounded."""

from __future__ import annotations

import gc
import sys
import weakref

from klamm.server.garbage import survivors_frozen


class Cycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself: Cycle | None = self


def test_survivors_are_frozen_and_freed_by_their_reference_counts() -> None:
    with survivors_frozen():
        survivor = Cycle()
        gc.collect()
        assert gc.get_freeze_count() > 0
        assert survivor not in gc.get_objects()
        freed = weakref.ref(survivor)
        survivor.itself = None
        del survivor
        assert freed() is None
    assert gc.get_freeze_count() == 0


def test_frozen_garbage_is_freed_when_memory_has_doubled() -> None:
    with survivors_frozen():
        cycle = Cycle()
        freed = weakref.ref(cycle)
        gc.collect()
        del cycle
        gc.collect()
        assert freed() is not None
        more = [[] for _ in range(sys.getallocatedblocks() + 1_000)]
        gc.collect()
        assert freed() is None
        assert more


def test_only_full_collections_freeze() -> None:
    with survivors_frozen():
        gc.collect(0)
        gc.collect(1)
        assert gc.get_freeze_count() == 0
