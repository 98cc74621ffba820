"""Lossless connections in a simulated network: while one is open, no message on it is lost.

The two ends of a connection may agree on a constant rate (cluster/constant_rate.py). A connection
breaks if one of its ends stops or is paused, or if the network may lose messages. All ends that are
still running are notified immediately. Messages do not pass through this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from klamm.cluster.constant_rate import NO_CONNECTION
from klamm.cluster.requests import Address

_NONE: Final[Mapping[Address, int]] = {}
IsLossless = Callable[[Address, Address], bool]
"""Returns True if both addresses are alive and no message between them can be lost."""
NotifyOfLoss = Callable[[Address, Address], None]
"""Immediately notifies the first address that its connection to the second address is lost."""


class CertainConnections:
    """The lossless connections in one network. Each connection has a number that is never reused.

    A request, its response and the next notification have to arrive within RATE_MARGIN_MS.
    """

    def __init__(self, is_lossless: IsLossless, notify: NotifyOfLoss) -> None:
        self._is_lossless = is_lossless
        self._notify = notify
        self._numbers: dict[Address, dict[Address, int]] = {}
        self._paused: dict[Address, None] = {}
        self._made = 0

    def connect(self, one: Address, other: Address) -> int:
        """Return the number of the connection between two addresses, opening it if necessary.

        Return NO_CONNECTION if no lossless connection is possible.
        """
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
        return not is_paused and self._is_lossless(one, other)

    def review(self) -> None:
        """Break connections that are no longer lossless, oldest first.

        Call this after each change to the network.
        """
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
        """Break the connections of a paused actor; allow no new connections until ``resume``."""
        self._paused[address] = None
        self._disconnect(address)

    def resume(self, address: Address) -> None:
        """Allow new connections to and from an actor that was paused."""
        self._paused.pop(address, None)

    def remove(self, address: Address) -> None:
        """Break the connections of an actor that stops."""
        self.resume(address)
        self._disconnect(address)

    def _disconnect(self, address: Address) -> None:
        for other in self._numbers.pop(address, _NONE):
            del self._numbers[other][address]
            self._notify(other, address)
