"""A simulated world that stands still, to go on from as often as one likes.

A world holds no closures and no open files, so it is copied as a value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.simulated.world import SimulatedWorld


class Snapshot:
    """A world that stands still; ``restore`` may be called any number of times.

    A state inside an event is reached by restoring and taking the recorded ``choices`` again.
    """

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world

    def restore(self, *, choose: Callable[[int], int] | None = None) -> SimulatedWorld:
        """A world that goes on from here, by ``choose`` or by the draws that would have come."""
        world = copy.deepcopy(self._world)
        world.choose_by(choose)
        return world
