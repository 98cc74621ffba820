"""Watches a running cluster by /status and /proc: active controllers and resource usage."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from bench.chaos_judge import Disturbance, Growth, Overlap, growth_of, unexplained
from bench.live_cluster import Api, Up, Usage, usage_of

STATUS_INTERVAL_S = 0.25
USAGE_INTERVAL_S = 2.0
STATUS_TIMEOUT_S = 20.0
# Minimum bounds of growth from the second third of a run on. ZooKeeper's Java
# uses its whole heap limit and is not judged.
LEAST_BOUNDS = {
    "rss_mb": 40.0,
    "threads": 12.0,
    "descriptors": 24.0,
}


class Watch:
    """Polls on a thread until it is closed. ``usage``: (seconds since the start, sample).

    ``slowest_status_s`` is the longest that /status took; ``unanswered`` counts its failures.
    """

    def __init__(self, up: Up) -> None:
        assert up.api is not None
        self.usage: list[tuple[float, Usage]] = []
        self.overlaps: list[Overlap] = []
        self.controller: tuple[int, int] | None = None
        self.controllers: set[tuple[int, int]] = set()
        self.slowest_status_s = 0.0
        self.unanswered = 0
        self.broker_errors: list[str] = []
        self._up, self._api = up, Api(f"http://{up.api.host}:{up.api.port}")
        self._open: dict[tuple[int, int], float] = {}
        self._started_s = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    @property
    def faults(self) -> list[str]:
        """500 answers to its own requests."""
        return self._api.faults

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; open overlaps end now."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(STATUS_TIMEOUT_S + 5.0)
        self._note_active(set())
        self._api.close()

    def _run(self) -> None:
        last_usage_s = 0.0
        while not self._closed.wait(STATUS_INTERVAL_S):
            begun_s = time.monotonic()
            if begun_s - last_usage_s >= USAGE_INTERVAL_S:
                last_usage_s = begun_s
                usage = usage_of(self._up)
                if usage is not None:
                    self.usage.append((begun_s - self._started_s, usage))
            answer = self._api.get("/status", STATUS_TIMEOUT_S)
            if not answer.is_ok:
                self.unanswered += 1
                continue
            self.slowest_status_s = max(self.slowest_status_s, time.monotonic() - begun_s)
            self._take(answer.body)

    def _take(self, status: dict[str, Any]) -> None:
        controller = status["controller"]
        self.controller = None
        if controller is not None:
            self.controller = (controller["controller_id"], controller["epoch"])
            self.controllers.add(self.controller)
        others = status["other_active_controllers"]
        self._note_active({(one["id"], one["epoch"]) for one in others})
        for error in status["errors"]:
            if error not in self.broker_errors:
                self.broker_errors.append(error)

    def _note_active(self, active: set[tuple[int, int]]) -> None:
        now_s = time.monotonic()
        for one in active - self._open.keys():
            self._open[one] = now_s
        for one in self._open.keys() - active:
            self.overlaps.append(Overlap(*one, self._open.pop(one), now_s))

    def overlap_faults(self, disturbances: Sequence[Disturbance], patience_s: float) -> list[str]:
        """Return the overlaps that no pause explains."""
        faults = []
        for one in self.overlaps:
            reason = unexplained(one, disturbances, patience_s)
            if reason is not None:
                lasted_s = one.to_s - one.from_s
                faults.append(
                    f"controller {one.broker} of epoch {one.epoch} said it was active for "
                    f"{lasted_s:.1f} s beside another: {reason}"
                )
        return faults

    def growths(self) -> dict[str, Growth]:
        """Return the growth of every figure that must be flat."""
        found = {}
        for name, bound in LEAST_BOUNDS.items():
            growth = growth_of([(at, getattr(u, name)) for at, u in self.usage], bound)
            if growth is not None:
                found[name] = growth
        return found
