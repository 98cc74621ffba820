"""The bandwidth model as an actor, which wakes up when the next copy arrives; in both worlds."""

from __future__ import annotations

from klamm.brokers.bandwidth.copying import Copying
from klamm.cluster.requests import Address
from klamm.runtime.actors import Actor

ADDRESS = Address("bandwidth", 0)


class Bandwidth(Actor):
    """Delivers a cluster's copies when they arrive."""

    is_shared = True

    def __init__(self, copying: Copying) -> None:
        super().__init__(ADDRESS)
        self._copying = copying
        copying.on_change = self.woken

    def next_due_ms(self) -> float | None:
        """Return when the next copy arrives, in monotonic milliseconds."""
        return self._copying.next_due_ms()

    def run_event(self) -> None:
        """Deliver all copies that have arrived."""
        self._copying.on_timer()
