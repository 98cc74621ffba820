"""Decides whether the controller candidates of a process may currently be elected.

Kafka 2.8.2 always allows an election. In klamm, one of the following can prevent it:

- A pause begins when a failover fails. The controller then deletes /controller, and without the
  pause the next candidate would immediately fail for the same reason. Each consecutive failure
  doubles the length of the pause, up to 5 s.
- A hold lasts until it is cleared. It is set, for example, while the journal cannot be written.
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
    """Pause and hold that keep all controller candidates of a process from being elected.

    - ``failed_failovers``: number of failed failovers since the last successful failover.
    - ``failure``: why the latest failover failed, or None if it did not fail.
    - ``hold``: reason for the hold, or None if there is no hold.

    Any thread may use it. If two failovers fail at the same time, they may count as one.
    """

    def __init__(
        self, clock: Clock, on_given_up: Callable[[KlammError], None] | None = None
    ) -> None:
        """``on_given_up`` is called when FAILED_FAILOVERS_MAX consecutive failovers have failed."""
        self._clock = clock
        self._on_given_up = on_given_up
        self._not_before_ms = -math.inf
        self.failed_failovers = 0
        self.failure: str | None = None
        self.hold: str | None = None

    def pause_ms(self) -> float:
        """Return the remaining time of the pause in ms, or 0 if there is no pause."""
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
        if count == FAILED_FAILOVERS_MAX and self._on_given_up is not None:
            self._on_given_up(
                KlammError(
                    f"no controller can take over: {count} consecutive failovers failed; "
                    f"last error: {failure}",
                    hint="see the brokers' controller.log; fix the cause and run klamm up again",
                )
            )
