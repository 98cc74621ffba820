"""Actor that delivers records to followers at the times computed by the bandwidth model."""

from __future__ import annotations

from klamm.brokers.bandwidth.copying import Copying
from klamm.cluster.requests import Address
from klamm.world.actors import Actor

ADDRESS = Address("bandwidth", 0)


class Bandwidth(Actor):
    """Runs the timers of ``Copying``: delivers copied records when their last byte arrives."""

    is_shared = True

    def __init__(self, copying: Copying) -> None:
        super().__init__(ADDRESS)
        self._copying = copying
        copying.on_change = self.woken

    def next_due_ms(self) -> float | None:
        return self._copying.next_due_ms()

    def run_event(self) -> None:
        """Deliver the copied records that have arrived by now."""
        self._copying.on_timer()
