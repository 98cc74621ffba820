"""Whether the candidates of one process may be elected: pauses after failed failovers, and holds.

After a failed failover the controller deletes /controller, and the next candidate would fail at
once for the same reason. So all candidates pause, twice as long each time. 2.8.2 has no such pause.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from klamm.cluster.errors import KlammError
from klamm.cluster.protocols import Clock

FAILED_FAILOVERS_MAX: Final = 8
FIRST_PAUSE_MS: Final = 250.0
MAX_PAUSE_MS: Final = 5_000.0


class Candidacy:
    """State shared by the controller candidates of a process.

    ``failed_failovers``: failures since the last successful failover; ``failure``: reason of the
    latest. ``hold``: why no candidate may be elected, regardless of the pause; None if one may.
    Thread-safe: all changes are single assignments.
    """

    def __init__(
        self, clock: Clock, on_given_up: Callable[[KlammError], None] = lambda _: None
    ) -> None:
        """``on_given_up`` is called once when too many failovers have failed in a row."""
        self._clock = clock
        self._on_given_up = on_given_up
        self._not_before_ms = -math.inf
        self.failed_failovers = 0
        self.failure: str | None = None
        self.hold: str | None = None

    def pause_ms(self) -> float:
        """Return the remaining pause after a failed failover."""
        return max(0.0, self._not_before_ms - self._clock.monotonic_ms())

    def failover_succeeded(self) -> None:
        """Record that a controller has completed its failover."""
        self.failed_failovers, self.failure = 0, None

    def failover_failed(self, failure: str) -> None:
        """Record that an elected controller could not complete its failover."""
        count = self.failed_failovers = self.failed_failovers + 1
        self.failure = failure
        pause_ms = min(FIRST_PAUSE_MS * 2 ** (count - 1), MAX_PAUSE_MS)
        self._not_before_ms = self._clock.monotonic_ms() + pause_ms
        if count == FAILED_FAILOVERS_MAX:
            self._on_given_up(
                KlammError(
                    f"no controller can take over: {count} consecutive failovers failed; "
                    f"last error: {failure}",
                    hint="see the brokers' controller.log; fix the cause and run klamm up again",
                )
            )
