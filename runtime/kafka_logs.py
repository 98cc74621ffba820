"""The files state-change.log and controller.log of every controller of a run.

Opens and closes files; what is written, and in which words, is controller/state_change_log.py's.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TextIO

from cluster.protocols import Clock
from controller.state_change_log import StateChangeLog

STATE_CHANGE_LOG = "state-change.log"
CONTROLLER_LOG = "controller.log"


class KafkaLogs:
    """Appends to the two logs of each broker under ``folder``/broker-N, until ``close``.

    ``level``: TRACE or INFO, as Kafka's log4j would have it for both. Every write is handed to
    the operating system at once.
    """

    def __init__(self, folder: Path, clock: Clock, level: str) -> None:
        self._folder = folder
        self._clock = clock
        self._is_trace = level == "TRACE"
        self._files: dict[int, tuple[TextIO, TextIO]] = {}
        self._stack = contextlib.ExitStack()

    def open(self, broker_id: int) -> StateChangeLog:
        """The logs of a broker's controller. A broker that is started again goes on in them."""
        files = self._files.get(broker_id)
        if files is None:
            directory = self._folder / f"broker-{broker_id}"
            directory.mkdir(parents=True, exist_ok=True)
            files = (
                self._open_file(directory / STATE_CHANGE_LOG),
                self._open_file(directory / CONTROLLER_LOG),
            )
            self._files[broker_id] = files
        state_change, controller = files
        return StateChangeLog(
            broker_id,
            self._clock,
            state_change=state_change,
            controller=controller,
            is_trace=self._is_trace,
        )

    def close(self) -> None:
        """Close every file; no controller may write any more. Idempotent."""
        self._stack.close()

    def _open_file(self, path: Path) -> TextIO:
        return self._stack.enter_context(path.open("a", buffering=1, encoding="utf-8"))
