"""``python -m bench.fuzz_wire``: malformed frames against the listeners of a real `klamm up`.

The fuzzer sends each frame on a separate connection and counts how klamm reacts. It ends when
FRAMES of them have cost their connection. Meanwhile a librdkafka producer and a consumer group work
on the same brokers. Memory, threads and file descriptors are sampled, ZooKeeper is checked as in
bench/chaos.py, and the journal by `klamm replay run`. bench/wire_frames.py draws the frames.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import confluent_kafka

from bench.chaos_checker import Checker
from bench.listeners import BROKERS, TOPIC, cpu_seconds, create_topic, free_ports
from bench.live_cluster import ROOT, Up, Usage, usage_of
from bench.machine import machine
from bench.wire_frames import Frame, Frames
from klamm.zk.waiting import wait_until

AT_ONCE: Final = 48
"""Connections that are open at the same time."""
ANSWER_S: Final = 20.0
"""A broker must have answered a frame, or hung up, by then."""
REPORT_EVERY: Final = 20_000
SETTLED_S: Final = 60.0
MAX_RSS_MB: Final = 1_000
MAX_DESCRIPTORS: Final = 600
_CLIENT_PAUSE_S: Final = 0.01
_KILLED_SESSION_MS: Final = "6000"


class Client(threading.Thread):
    """A client that behaves: it produces one record at a time and reads all in a group."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="client")
        self.sent = 0
        self.acknowledged: set[bytes] = set()
        self.read: Counter[bytes] = Counter()
        self.slowest_s = 0.0
        self.errors: list[str] = []
        self.ends = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "steady",
                "log_level": 0,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )

    def run(self) -> None:
        """Work until ``ends`` is set and everything has been read."""
        self._consumer.subscribe([TOPIC])
        while not self.ends.is_set():
            began_s = time.monotonic()
            self._producer.produce(TOPIC, b"%d" % self.sent, on_delivery=self._delivered)
            self.sent += 1
            if self._producer.flush(ANSWER_S):
                self.errors.append(f"record {self.sent} is not acknowledged in {ANSWER_S:g} s")
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            self._poll()
            self.ends.wait(_CLIENT_PAUSE_S)
        ends_s = time.monotonic() + SETTLED_S
        while self.acknowledged - self.read.keys() and time.monotonic() < ends_s:
            self._poll()
        self._consumer.close()

    def _delivered(self, error: object, record: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged.add(record.value())
        else:
            self.errors.append(f"a record failed: {error}")

    def _poll(self) -> None:
        for record in self._consumer.consume(1_000, 0.01):
            if record.error() is None:
                self.read[record.value()] += 1
                self._consumer.commit(message=record, asynchronous=True)
            else:
                self.errors.append(f"the consumer failed: {record.error()}")


def send(places: Sequence[tuple[str, int]], frames: Sequence[Frame]) -> Iterator[tuple[str, bool]]:
    """Send each frame on its own connection; yield its kind and whether it got an answer."""
    with contextlib.ExitStack() as stack:
        clients = []
        for number, frame in enumerate(frames):
            client = stack.enter_context(
                socket.create_connection(places[number % len(places)], ANSWER_S)
            )
            with contextlib.suppress(OSError):  # the broker may have hung up already
                client.sendall(frame.sent)
                client.shutdown(socket.SHUT_WR)
            clients.append(client)
        for frame, client in zip(frames, clients, strict=True):
            yield frame.kind, _is_answered(client)


def _is_answered(client: socket.socket) -> bool:
    """Read to the end of the stream. Raises TimeoutError if the broker does not hang up."""
    received = False
    with contextlib.suppress(ConnectionError):
        while client.recv(1 << 16):
            received = True
    return received


class Fuzz:
    """Sends frames to a running `klamm up`, and judges it. ``failures`` are what must not be."""

    def __init__(self, up: Up, port: int, seed: int) -> None:
        self._up = up
        self._places = [("127.0.0.1", port + broker_id) for broker_id in range(BROKERS)]
        self._frames = Frames(random.Random(seed))
        self.lost: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.samples: list[Usage] = []
        self.failures: list[str] = []

    def run(self, frames: int) -> None:
        """Send frames until ``frames`` of them have cost their connection."""
        self._sample()
        reported = 0
        while self.lost.total() < frames:
            for kind, is_answered in send(
                self._places, [self._frames.draw() for _ in range(AT_ONCE)]
            ):
                (self.answered if is_answered else self.lost)[kind] += 1
            if self.lost.total() - reported >= REPORT_EVERY:
                reported = self.lost.total()
                self._sample()
                print(f"{reported} frames cost their connection, {self.samples[-1]}", flush=True)

    def settle(self) -> None:
        """Wait until the connections of all frames are closed; sample the resources."""
        most = self.samples[0].descriptors + 30
        wait_until(lambda: (now := usage_of(self._up)) and now.descriptors <= most, SETTLED_S)
        self._sample()
        if self.samples[-1].descriptors > most:
            self.failures.append(f"connections leak: {self.samples[0]} {self.samples[-1]}")

    def _sample(self) -> None:
        usage = usage_of(self._up)
        if usage is None:
            raise RuntimeError(f"klamm up ended: {self._up.tail(20)}")
        self.samples.append(usage)
        if usage.rss_mb > MAX_RSS_MB or usage.descriptors > MAX_DESCRIPTORS:
            self.failures.append(f"too much: {usage}")


def tracebacks(folder: Path) -> list[str]:
    """Return the lines of logs that tell of an error inside klamm."""
    found = []
    for path in [folder / "up.log", *(folder / "data").rglob("*.log")]:
        if path.parent.name.rpartition("-")[2].isdigit():
            continue  # a partition's log
        text = path.read_text(errors="replace")
        for match in re.finditer(r"Traceback|never retrieved|Unexpected error|KeyError", text):
            found.append(text[match.start() : match.start() + 1500])
    return found


def measure(options: argparse.Namespace, folder: Path) -> list[str]:
    """Run the cluster and the fuzzer, print the figures and return the failures."""
    port = free_ports(BROKERS)
    arguments = [
        *("--brokers", str(BROKERS), "--port", "0", "--listen", str(port)),
        *(("--segments",) if options.segments else ()),
        *("--max-partitions", "400", "--max-partitions-per-request", "60"),
        *("--session-timeout-ms", _KILLED_SESSION_MS),
        *("--config", "auto.leader.rebalance.enable=false"),
        *("--config", "auto.create.topics.enable=false"),
    ]
    servers = ",".join(f"127.0.0.1:{port + broker_id}" for broker_id in range(BROKERS))
    with Up(folder / "data", arguments, folder / "up.log") as up, contextlib.ExitStack() as stack:
        api = up.wait_until_serving(60)
        create_topic(servers, 6)
        checker = Checker(api.get("/status").body["zookeeper"]["connect"])
        stack.callback(checker.close)
        checker.start()
        client = Client(servers)
        stack.callback(client.join)
        stack.callback(client.ends.set)
        client.start()
        fuzz = Fuzz(up, port, options.seed)
        began_s, began_cpu_s = time.monotonic(), cpu_seconds(up.pid)
        fuzz.run(options.frames)
        took_s, cpu_s = time.monotonic() - began_s, cpu_seconds(up.pid) - began_cpu_s
        client.ends.set()
        client.join()
        fuzz.settle()
        left = checker.what_is_left(checker.sweep(), range(BROKERS))
        failures = [*fuzz.failures, *client.errors, *checker.judge.violations, *left]
    sent = fuzz.lost.total() + fuzz.answered.total()
    print(f"frames: {sent}, {sent / took_s:.0f}/s, {1e6 * cpu_s / sent:.0f} us of CPU time each")
    for kind in sorted(fuzz.lost | fuzz.answered):
        print(f"  {kind}: {fuzz.lost[kind]} lost their connection, {fuzz.answered[kind]} answered")
    print(f"resources: {fuzz.samples[0]}; at most {max(fuzz.samples)}; {fuzz.samples[-1]}")
    lost = client.acknowledged - client.read.keys()
    print(
        f"client: {len(client.acknowledged)} of {client.sent} records acknowledged, {len(lost)} "
        f"lost; the slowest took {client.slowest_s:.1f} s"
    )
    if lost:
        failures.append(f"lost records: {sorted(lost)[:5]}")
    replayed = subprocess.run(
        [sys.executable, "-m", "klamm", "replay", "run", str(folder / "data" / "journal.jsonl")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if "No violations found." not in replayed.stdout:
        failures.append(f"the journal: {replayed.stdout[-2000:]} {replayed.stderr[-500:]}")
    return failures + tracebacks(folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz and print. Exit 1 if anything but the frames' connections was affected."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz_wire", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="that lose their connection")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--segments", action="store_true", help="klamm up --segments")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}, seed {options.seed}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="klamm-fuzz-wire-") as folder:
        failures = measure(options, Path(folder))
    for failure in failures[:20]:
        print(f"FAILURE {failure}")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
