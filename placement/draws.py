"""Random numbers for replica assignments.

The caller chooses the seed. `JavaRandom` is the generator specified by java.util.Random, so that a
seed gives the same numbers as in Kafka's AdminUtils.rand.
"""

from __future__ import annotations

from typing import Protocol

from klamm.cluster.integers import INT32_MAX

_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_STATE_MASK = (1 << 48) - 1


class IntSource(Protocol):
    """A source of random integers."""

    def next_int(self, bound: int) -> int:
        """Return an integer in [0, bound). `bound` is positive."""
        ...


class JavaRandom:
    """Random numbers of java.util.Random: high bits of a 48-bit linear congruential generator."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _STATE_MASK

    def next_int(self, bound: int) -> int:
        """Return the next integer in [0, bound), like Random.nextInt(bound)."""
        assert 0 < bound <= INT32_MAX, f"bound {bound} is not a positive int"
        drawn = self._next_31_bits()
        if bound & (bound - 1) == 0:
            # The low bits of this generator have short periods; Java scales the high ones.
            return (bound * drawn) >> 31
        # The incomplete range of `bound` numbers just below 2^31 would favour small results.
        while drawn - drawn % bound + (bound - 1) > INT32_MAX:
            drawn = self._next_31_bits()
        return drawn % bound

    def _next_31_bits(self) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _STATE_MASK
        return self._state >> 17
