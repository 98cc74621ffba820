"""Connections of a simulated network that lose no message while they are open.

The two ends of a connection may agree on a rate (cluster/constant_rate.py). Both are notified at
once when it breaks: when one end stops or is paused, or when the network becomes lossy. It carries
no messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from klamm.cluster.constant_rate import NO_CONNECTION, RATE_MARGIN_MS
from klamm.cluster.requests import Address

_NONE: Final[Mapping[Address, int]] = {}
IsLossless = Callable[[Address, Address], bool]
"""Returns True if both are alive and no message between them can be lost."""
NotifyOfLoss = Callable[[Address, Address], None]
"""Notifies the first address, at once, that its connection to the second is lost."""


class CertainConnections:
    """The connections of one network. Each has a number that is never reused.

    ``max_delay_ms``: the longest delay of a message."""

    def __init__(self, is_lossless: IsLossless, notify: NotifyOfLoss, max_delay_ms: float) -> None:
        self._is_lossless = is_lossless
        self._notify = notify
        # A request, its response and the next notification have to arrive within the margin.
        self._is_fast = 3 * max_delay_ms < RATE_MARGIN_MS
        self._numbers: dict[Address, dict[Address, int]] = {}
        self._paused: dict[Address, None] = {}
        self._made = 0

    def connect(self, one: Address, other: Address) -> int:
        """Return the number of the connection between two addresses, opening it if necessary.

        NO_CONNECTION if none is possible. Both ends are notified when it breaks."""
        number = self._numbers.get(one, _NONE).get(other)
        if number is not None:
            return number
        if not self._may_connect(one, other):
            return NO_CONNECTION
        self._made += 1
        self._numbers.setdefault(one, {})[other] = self._made
        self._numbers.setdefault(other, {})[one] = self._made
        return self._made

    def _may_connect(self, one: Address, other: Address) -> bool:
        is_paused = one in self._paused or other in self._paused
        return self._is_fast and not is_paused and self._is_lossless(one, other)

    def review(self) -> None:
        """Break connections that a change of the network made lossy, the oldest first."""
        ends = sorted(
            (number, one, other)
            for one, numbers in self._numbers.items()
            for other, number in numbers.items()
            if one < other and not self._may_connect(one, other)
        )
        for _, one, other in ends:
            del self._numbers[one][other], self._numbers[other][one]
            self._notify(other, one)
            self._notify(one, other)

    def pause(self, address: Address) -> None:
        """Break the connections of a paused address; open none until ``resume``."""
        self._paused[address] = None
        self._disconnect(address)

    def resume(self, address: Address) -> None:
        """Allow connections again."""
        self._paused.pop(address, None)

    def remove(self, address: Address) -> None:
        """Break the connections of an address that stops."""
        self.resume(address)
        self._disconnect(address)

    def _disconnect(self, address: Address) -> None:
        for other in self._numbers.pop(address, _NONE):
            del self._numbers[other][address]
            self._notify(other, address)
