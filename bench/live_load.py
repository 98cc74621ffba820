"""Producers and consumers on the HTTP API of a running cluster, each on a thread.

Producers are idempotent with acks=all. Each is closed after a while and replaced, so that new
producer ids are part of the load. Results are kept in live_ledger.py's values.
"""

from __future__ import annotations

import threading
import time

from bench.live_cluster import Api
from bench.live_ledger import Consumed, Produced

BATCH = 10
PRODUCER_LIFE_S = 45.0
SEND_WAIT_MS = 1_000
DELIVERY_TIMEOUT_MS = 900_000
"""Longer than any run of failures, because later records would be in doubt."""
CLOSE_WAIT_MS = 2_000
RETRY_S = 0.2


class ProducerLoad:
    """Produces to one topic until it is stopped; ``produced``: all its producers."""

    def __init__(self, api: Api, topic: str, rate: float, *, max_undecided: int = 2_000) -> None:
        self.topic = topic
        self._max_undecided = max_undecided
        self._handed_over: dict[str, int] = {}
        self.produced: list[Produced] = []
        self.refusals: dict[str, int] = {}
        self._api = api
        self._pause_s = BATCH / rate
        self._is_over = threading.Event()
        self._deadline_s = float("inf")
        self._thread = threading.Thread(target=self._run, name=f"produce-{topic}", daemon=True)
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return sum(one.acknowledged_count for one in list(self.produced))

    def end(self) -> None:
        """Stop sending."""
        self._is_over.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all sent records are decided; return whether they are."""
        self._deadline_s = time.monotonic() + timeout_s
        self._is_over.set()
        self._thread.join(timeout_s + 10.0)
        return not self._thread.is_alive() and not any(one.undecided for one in self.produced)

    def on_kill(self) -> None:
        """End after a kill of the cluster; unacknowledged records are undecided."""
        self._deadline_s = 0.0
        self._is_over.set()
        self._thread.join(30.0)
        for one in self.produced:
            one.on_kill(self._handed_over.get(one.name, 0))

    def _run(self) -> None:
        while not self._is_over.is_set():
            opened = self._api.post(
                "/producers",
                {
                    "topic": self.topic,
                    "enable_idempotence": True,
                    "acks": -1,
                    "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
                },
            )
            if not opened.is_ok:
                self._refused(opened.status)
                continue
            # The number alone would be reused after a restart of the cluster.
            produced = Produced(f"{self.topic}-{time.time_ns()}")
            self.produced.append(produced)
            self._produce(opened.body["id"], opened.body["has_values"], produced)
            self._close(opened.body["id"], produced)

    def _produce(self, number: int, has_values: bool, produced: Produced) -> None:
        sequence = 0
        life_ends_s = time.monotonic() + PRODUCER_LIFE_S
        while not self._is_over.wait(self._pause_s) and time.monotonic() < life_ends_s:
            values = [f"{produced.name}:{sequence + at}" for at in range(BATCH)]
            sequence += BATCH
            self._handed_over[produced.name] = sequence
            body: dict[str, object] = {
                "wait_ms": SEND_WAIT_MS,
                "max_undecided": self._max_undecided,
            }
            if has_values:
                body["records"] = [{"value": value} for value in values]
            else:
                body["record_count"] = BATCH
            answer = self._api.post(f"/producers/{number}/records", body)
            if answer.is_ok:
                produced.take(answer.body)
                produced.values.update(values if has_values else ())
            else:
                produced.maybe.update(values)
                self._refused(answer.status)
                if answer.status == 404:
                    return  # the producer no longer exists

    def _close(self, number: int, produced: Produced) -> None:
        """Wait until everything is decided, or until the deadline."""
        while time.monotonic() < self._deadline_s:
            answer = self._api.post(f"/producers/{number}/close", {"wait_ms": CLOSE_WAIT_MS})
            if answer.is_ok:
                produced.take(answer.body)
                if not produced.undecided:
                    return
            else:
                self._refused(answer.status)
                if answer.status == 404:
                    return

    def _refused(self, status: int) -> None:
        self.refusals[str(status)] = self.refusals.get(str(status), 0) + 1
        self._is_over.wait(RETRY_S)


class ConsumerLoad:
    """Reads a topic from its beginning until it is stopped."""

    def __init__(self, api: Api, topic: str) -> None:
        self.consumed = Consumed()
        self.partitions: list[int] = []
        self._api = api
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"consume-{topic}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop reading, and wait for the thread."""
        self._is_over.set()
        self._thread.join(60.0)

    @property
    def is_at_the_end(self) -> bool:
        """Whether its last poll reached the end."""
        return bool(self.partitions) and self.consumed.is_at_the_end(self.partitions)

    def _run(self) -> None:
        while not self._is_over.is_set():
            opened = self._api.post("/consumers", {"topic": self._topic, "start": "beginning"})
            if opened.is_ok:
                break
            self._is_over.wait(RETRY_S)
        else:
            return
        self.partitions = opened.body["partitions"]
        path = f"/consumers/{opened.body['id']}"
        while not self._is_over.is_set():
            answer = self._api.post(f"{path}/poll", {"wait_ms": 500})
            if answer.is_ok:
                self.consumed.take(answer.body)
            else:
                self._is_over.wait(RETRY_S)
        self._api.post(f"{path}/close")


def read_all(api: Api, topic: str, acknowledged: int, timeout_s: float) -> Consumed:
    """Read a whole topic with a new consumer; adds a fault if the end was not reached.

    A new leader may know a high watermark that is too low for a moment: it reads on until it has
    at least as many records as were ``acknowledged``.
    """
    load = ConsumerLoad(api, topic)
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if load.is_at_the_end and load.consumed.count >= acknowledged:
            break
        time.sleep(0.05)
    load.end()
    if not load.is_at_the_end:
        at, end = load.consumed.positions, load.consumed.high_watermarks
        load.consumed.faults.append(f"the end was not reached in {timeout_s:g} s: {at} of {end}")
    return load.consumed
