"""Connections of a simulated network on which nothing is lost as long as they hold.

Two that have one may agree on a law (cluster/constant_rate.py): they are told at once, and both,
when it breaks, which it does when one of them ends or stands still, or when the network becomes a
bad one. It carries no message: whether there may be a connection is its owner's to say.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.constant_rate import NO_CONNECTION
from cluster.requests import Address

MayConnect = Callable[[Address, Address], bool]
Tell = Callable[[Address, Address], None]
"""Tells the second that its connection to the first is gone."""


class CertainConnections:
    """Implements Connections. A number is never used again."""

    def __init__(self, may_connect: MayConnect, tell: Tell) -> None:
        self._may_connect = may_connect
        self._tell = tell
        self._numbers: dict[tuple[Address, Address], int] = {}
        self._frozen: dict[Address, None] = {}
        self._made = 0

    def connect(self, one: Address, other: Address) -> int:
        """The number of the connection between two, as Connections says."""
        pair = (one, other) if one < other else (other, one)
        number = self._numbers.get(pair)
        if number is not None:
            return number
        if not self._may(pair):
            return NO_CONNECTION
        self._made += 1
        self._numbers[pair] = self._made
        return self._made

    def _may(self, pair: tuple[Address, Address]) -> bool:
        return not any(address in self._frozen for address in pair) and self._may_connect(*pair)

    def review(self) -> None:
        """The network is another: break what may not be any more."""
        for pair in [pair for pair in self._numbers if not self._may(pair)]:
            del self._numbers[pair]
            self._tell(*pair)
            self._tell(*reversed(pair))

    def freeze(self, address: Address) -> None:
        """Break the connections of one that stands still, and make none until ``thaw``."""
        self._frozen[address] = None
        self.disconnect(address)

    def thaw(self, address: Address) -> None:
        """It goes on, or is gone."""
        self._frozen.pop(address, None)

    def disconnect(self, address: Address) -> None:
        """Break the connections of one that ends; the others are told."""
        for pair in [pair for pair in self._numbers if address in pair]:
            del self._numbers[pair]
            self._tell(address, pair[1] if pair[0] == address else pair[0])
