"""Connections of a simulated network on which nothing is lost as long as they hold.

Two that have one may agree on a law (cluster/constant_rate.py): they are told at once, and both,
when it breaks, which it does when one of them ends or stands still, or when the network becomes a
bad one. It carries no message: whether there may be a connection is its owner's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster.constant_rate import NO_CONNECTION
from cluster.requests import Address

_NONE: Final[Mapping[Address, int]] = {}
MayConnect = Callable[[Address, Address], bool]
Tell = Callable[[Address, Address], None]
"""Tells the second that its connection to the first is gone."""


class CertainConnections:
    """Implements Connections. A number is never used again."""

    def __init__(self, may_connect: MayConnect, tell: Tell) -> None:
        self._may_connect = may_connect
        self._tell = tell
        self._numbers: dict[Address, dict[Address, int]] = {}
        self._frozen: dict[Address, None] = {}
        self._made = 0

    def connect(self, one: Address, other: Address) -> int:
        """The number of the connection between two, as Connections says."""
        number = self._numbers.get(one, _NONE).get(other)
        if number is not None:
            return number
        if not self._may(one, other):
            return NO_CONNECTION
        self._made += 1
        self._numbers.setdefault(one, {})[other] = self._made
        self._numbers.setdefault(other, {})[one] = self._made
        return self._made

    def _may(self, one: Address, other: Address) -> bool:
        frozen = self._frozen
        return one not in frozen and other not in frozen and self._may_connect(one, other)

    def review(self) -> None:
        """The network is another: break what may not be any more, the oldest first."""
        ends = sorted(
            (number, one, other)
            for one, numbers in self._numbers.items()
            for other, number in numbers.items()
            if one < other and not self._may(one, other)
        )
        for _, one, other in ends:
            del self._numbers[one][other], self._numbers[other][one]
            self._tell(one, other)
            self._tell(other, one)

    def freeze(self, address: Address) -> None:
        """Break the connections of one that stands still, and make none until ``thaw``."""
        self._frozen[address] = None
        self.disconnect(address)

    def thaw(self, address: Address) -> None:
        """It goes on, or is gone."""
        self._frozen.pop(address, None)

    def disconnect(self, address: Address) -> None:
        """Break the connections of one that ends; the others are told."""
        for other in self._numbers.pop(address, _NONE):
            del self._numbers[other][address]
            self._tell(address, other)
