"""The bandwidth of a cluster as an actor: it sleeps until the next copy arrives, in both worlds."""

from __future__ import annotations

from klamm.brokers.bandwidth.copying import Copying
from klamm.cluster.requests import Address
from klamm.runtime.actors import Actor

ADDRESS = Address("bandwidth", 0)


class Bandwidth(Actor):
    """Lets the time of a cluster's copies pass."""

    is_shared = True

    def __init__(self, copying: Copying) -> None:
        super().__init__(ADDRESS)
        self._copying = copying
        copying.on_change = self.woken

    def next_due_ms(self) -> float | None:
        """When the next copy arrives, in the clock's monotonic milliseconds."""
        return self._copying.next_due_ms()

    def run_event(self) -> None:
        """Hand over what has arrived."""
        self._copying.on_timer()
