"""Load on a running `klamm up`: topics, and a producer that counts acknowledgements."""

from __future__ import annotations

import json
import subprocess
from types import TracebackType
from typing import Any, Self

from klamm.cli.client import ServerClient
from tests.serving import KLAMM, ROOT, Up, environ_for
from tests.waiting import wait_until

TOPIC = "load"
RATE = 200


class Load:
    """One idempotent producer for as long as the block runs; then ``acknowledged`` is known."""

    def __init__(self, up: Up, seconds: int) -> None:
        self._up = up
        self.sent = seconds * RATE
        self.acknowledged = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        create_topic(self._up, TOPIC)
        options = ("--records", str(self.sent), "--rate", str(RATE), "--idempotent", "--json")
        self._process = subprocess.Popen(
            [*KLAMM, "produce", "--topic", TOPIC, *options],
            cwd=ROOT,
            env=environ_for(self._up.data_dir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: count_records(self._up, wait_ms=200) > 0, 60, "the first record")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        process, self._process = self._process, None
        assert process is not None
        if kind is not None:
            process.kill()
        printed, _ = process.communicate(timeout=120)
        if kind is None:
            self.acknowledged = json.loads(printed)["acknowledged"]


def create_topic(up: Up, name: str) -> None:
    """Create a topic of three partitions; it must succeed."""
    server = ("--bootstrap-server", up.url.removeprefix("http://"))
    new = ("--partitions", "3", "--replication-factor", "3")
    up.ok("topics", *server, "--create", "--topic", name, *new)


def status_of(up: Up) -> dict[str, Any]:
    """Return the output of `klamm status --json`."""
    status: dict[str, Any] = ServerClient(up.url).get("/status")
    return status


def is_lost(up: Up) -> bool:
    """True if klamm has noticed that ZooKeeper does not answer."""
    return bool(status_of(up)["zookeeper"]["is_stale"])


def is_live(up: Up) -> bool:
    """True if ZooKeeper answers, a controller is active and every broker is registered."""
    status = status_of(up)
    return (
        not status["zookeeper"]["is_stale"]
        and status["controller"] is not None
        and status["controller"]["is_active"]
        and all(broker["live"] for broker in status["brokers"])
    )


def count_records(up: Up, topic: str = TOPIC, wait_ms: int = 1500) -> int:
    """Count the records from the beginning, until none arrives for ``wait_ms``."""
    client = ServerClient(up.url)
    opened = client.post("/consumers", {"topic": topic, "start": "beginning"})
    path, count = f"/consumers/{opened['id']}", 0
    while True:
        polled = client.post(f"{path}/poll", {"wait_ms": wait_ms})["counted"]
        if not polled:
            client.post(f"{path}/close")
            return count
        count += sum(one["end"] - one["start"] for one in polled)
