"""The thread of one controller candidate in the real world: it calls ``step`` and sleeps between.

Mirrors kafka.controller.ControllerEventManager.ControllerEventThread.
"""

from __future__ import annotations

import threading

from cluster.protocols import Clock
from controller.kafka_controller import KafkaController


class EventThread:
    """Processes a controller's events until ``stop`` or ``kill``."""

    def __init__(self, controller: KafkaController, clock: Clock) -> None:
        self._controller = controller
        self._clock = clock
        self._awake = threading.Event()
        self._may_run = threading.Event()
        self._may_run.set()
        self._ended = False
        name = f"controller-{controller.config.broker_id}-event-thread"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        controller.events.on_put = self._awake.set

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def pause(self) -> None:
        """Stop before the next event, as a long garbage collection does."""
        self._may_run.clear()

    def resume(self) -> None:
        """Go on."""
        self._may_run.set()

    def stop(self) -> None:
        """Let the controller resign, then end."""
        self._controller.shutdown()
        self.resume()
        self._thread.join()

    def end(self) -> None:
        """End after the event that is running, without resigning; does not wait for that."""
        self._ended = True
        self.resume()
        self._awake.set()

    def kill(self) -> None:
        """End after the event that is running, whose ZooKeeper operations fail from now on."""
        self.end()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        controller = self._controller
        while not (self._ended or controller.is_shut_down):
            self._may_run.wait()
            self._awake.clear()
            if self._ended or controller.step():
                continue
            due_ms = controller.next_due_ms()
            wait_s = (
                None if due_ms is None else max(0.0, due_ms - self._clock.monotonic_ms()) / 1000
            )
            self._awake.wait(wait_s)
