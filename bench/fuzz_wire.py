"""``python -m bench.fuzz_wire``: malformed frames against the listeners of a real `klamm up`.

The fuzzer sends each frame on a separate connection and counts how klamm reacts. It ends when
FRAMES of them have cost their connection. Meanwhile a librdkafka producer and a consumer group work
on the same brokers. Memory, threads and file descriptors are sampled. In the end all records must
be there, the cluster healthy, and `klamm replay run` must find nothing in journal and ZooKeeper.
bench/wire_frames.py draws the frames.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.aftermath import tracebacks, transaction_logs, what_replay_finds
from bench.listeners import cpu_seconds, create_topic
from bench.machine import machine
from bench.steady_client import SteadyClient
from bench.usage import usage_of
from bench.wire_frames import Frame, Frames
from klamm.cluster.journal import JOURNAL_FILE
from klamm.zk.waiting import wait_until
from tests.listeners import BROKERS, free_ports
from tests.serving import klamm_up

AT_ONCE: Final = 48
"""Connections that are open at the same time."""
ANSWER_S: Final = 20.0
"""A broker must have answered a frame, or hung up, by then."""
REPORT_EVERY: Final = 20_000
SETTLED_S: Final = 60.0
MAX_RSS_MB: Final = 1_000
MAX_DESCRIPTORS: Final = 600


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

    def __init__(self, pid: int, port: int, seed: int) -> None:
        self._pid = pid
        self._places = [("127.0.0.1", port + broker_id) for broker_id in range(BROKERS)]
        self._frames = Frames(random.Random(seed))
        self.lost: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.samples = [usage_of(pid)]
        self.failures: list[str] = []

    def run(self, frames: int) -> None:
        """Send frames until ``frames`` of them have cost their connection."""
        reported = 0
        while self.lost.total() < frames:
            drawn = [self._frames.draw() for _ in range(AT_ONCE)]
            for kind, is_answered in send(self._places, drawn):
                (self.answered if is_answered else self.lost)[kind] += 1
            if self.lost.total() - reported >= REPORT_EVERY:
                reported = self.lost.total()
                self._sample()
                print(f"{reported} frames cost their connection, {self.samples[-1]}", flush=True)

    def settle(self) -> None:
        """Wait until the connections of all frames are closed; sample the resources."""
        most = self.samples[0].descriptors + 30
        if not wait_until(lambda: usage_of(self._pid).descriptors <= most, SETTLED_S):
            self.failures.append(f"connections leak: {self.samples[0]} {usage_of(self._pid)}")
        self._sample()

    def _sample(self) -> None:
        usage = usage_of(self._pid)
        self.samples.append(usage)
        if usage.rss_mb > MAX_RSS_MB or usage.descriptors > MAX_DESCRIPTORS:
            self.failures.append(f"too much: {usage}")


def measure(options: argparse.Namespace, folder: Path) -> list[str]:
    """Run the cluster and the fuzzer, print the figures and return the failures."""
    port = free_ports(BROKERS)
    arguments = [
        *("--brokers", str(BROKERS), "--listen", str(port)),
        *(("--segments",) if options.segments else ()),
        *("--max-partitions", "400", "--max-partitions-per-request", "60"),
        *("--session-timeout-ms", "6000"),
        *("--config", "auto.leader.rebalance.enable=false"),
        *("--config", "auto.create.topics.enable=false"),
    ]
    servers = ",".join(f"127.0.0.1:{port + broker_id}" for broker_id in range(BROKERS))
    client = SteadyClient(servers, ANSWER_S, loses_brokers=False)
    with klamm_up(folder, *arguments) as up:
        up.ok("status", "--wait", "60")
        create_topic(servers, 6)
        client.start()
        fuzz = Fuzz(up.process.pid, port, options.seed)
        began_s, began_cpu_s = time.monotonic(), cpu_seconds(up.process.pid)
        fuzz.run(options.frames)
        took_s, cpu_s = time.monotonic() - began_s, cpu_seconds(up.process.pid) - began_cpu_s
        client.ends.set()
        client.join()
        fuzz.settle()
        failures = fuzz.failures + client.findings()
        if (health := up.run("status", "--wait", "60")).returncode:
            failures.append(f"the cluster is not healthy: {health.stdout}")
        printed = up.end()
    sent = fuzz.lost.total() + fuzz.answered.total()
    print(f"frames: {sent}, {sent / took_s:.0f}/s, {1e6 * cpu_s / sent:.0f} us of CPU time each")
    for kind in sorted(fuzz.lost | fuzz.answered):
        print(f"  {kind}: {fuzz.lost[kind]} lost their connection, {fuzz.answered[kind]} answered")
    print(f"resources: {fuzz.samples[0]}; at most {max(fuzz.samples)}; {fuzz.samples[-1]}")
    print(
        f"client: {len(client.acknowledged)} of {client.sent} records acknowledged; the slowest "
        f"took {client.slowest_s:.1f} s"
    )
    if "Traceback" in printed:
        failures.append(printed)
    for logs in ([folder / JOURNAL_FILE], transaction_logs(folder)):
        failures += what_replay_finds(logs)
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
