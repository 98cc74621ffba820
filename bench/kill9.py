"""``python -m bench.kill9``: kill -9 of a `klamm up` under load, again and again.

Each cycle starts `klamm up` on the same data directory, waits until the cluster is healthy, creates
and deletes topics, and kills it at a random moment: while it starts, serves, rotates its journal or
ends. After each kill, no process is left. A librdkafka producer and a group work on the listeners
throughout, and all their records are read at the end. lab/checks/admin_history.py judges the
topics, and `klamm replay run` the journal.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.aftermath import tracebacks, transaction_logs, what_replay_finds
from bench.listeners import create_topic
from bench.machine import machine
from bench.steady_client import SteadyClient
from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cli.client import ServerClient
from klamm.cli.connect import open_store
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError
from klamm.cluster.journal import JOURNAL_FILE
from klamm.cluster.requests import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from klamm.lab.checks.admin_history import AdminHistory
from klamm.server.admin_calls import http_admin
from klamm.zk.waiting import wait_until
from tests.listeners import BROKERS, free_ports
from tests.serving import Up, klamm_up, processes_naming, start_klamm

MOMENTS: Final = {"serving": 55, "startup": 20, "shutdown": 15, "rotation": 10}
HEALTHY_WITHIN_S: Final = 90
GONE_WITHIN_S: Final = 5.0
RECORD_WITHIN_S: Final = 30.0
_ROTATION_WITHIN_S: Final = 3.0
_REQUEST_TIMEOUT_MS: Final = 20_000
_DELETED_SHARE: Final = 0.4
_HALF: Final = 0.5
_PAUSE_S: Final = 0.02
_DOWN_S: Final = 240.0
"""So long may a record wait while klamm is killed and started several times in turn."""


class Kills:
    """All cycles on one data directory. ``failures``: what must not be."""

    def __init__(self, seed: int, data_dir: Path) -> None:
        self.failures: list[str] = []
        self.history = AdminHistory(lambda: time.monotonic() * 1000)
        self._random = random.Random(seed)
        self._data_dir = data_dir
        self._port = free_ports(BROKERS)
        self._options = (
            *("--brokers", str(BROKERS), "--listen", str(self._port), "--segments"),
            *("--session-timeout-ms", "1000", "--journal-segment-bytes", "32768"),
        )
        self._topics = 0
        self._start_s = 5.0

    def run(self, kills: int) -> None:
        """Kill it this many times, and end it once."""
        servers = ",".join(f"127.0.0.1:{self._port + number}" for number in range(BROKERS))
        client, done = SteadyClient(servers, _DOWN_S, loses_brokers=True), Counter[str]()
        with klamm_up(self._data_dir, *self._options) as up:
            self._check(up)
            create_topic(servers, 6)
            client.start()
            up.end()
        for number in range(1, kills + 1):
            (moment,) = self._random.choices(list(MOMENTS), list(MOMENTS.values()))
            self._kill_at(moment, client)
            done[moment] += 1
            print(f"{number} of {kills}: {moment}, {len(self.failures)} failures", flush=True)
        with klamm_up(self._data_dir, *self._options) as up:
            self._check(up)
            self._await_record(client)
            client.ends.set()
            client.join()
            self.failures += client.findings()
            up.end()
        if up.process.returncode != 128 + signal.SIGINT:
            self.failures.append(f"klamm up ended with {up.process.returncode}: {up.output()}")
        # A killed controller may have written a state to ZooKeeper, but not its row.
        self.failures += what_replay_finds([self._data_dir / JOURNAL_FILE], "lost_tails")
        self.failures += what_replay_finds(transaction_logs(self._data_dir))
        self.failures += tracebacks(self._data_dir)
        print(
            f"kills: {dict(done)}; topics created: {self._topics}; the last start took "
            f"{self._start_s:.1f} s; {len(client.acknowledged)} records acknowledged"
        )

    def _kill_at(self, moment: str, client: SteadyClient) -> None:
        if moment == "startup":
            process = start_klamm(self._data_dir, "up", "--port", "0", *self._options)
            time.sleep(self._random.uniform(0.0, 1.1 * self._start_s))
            process.kill()
            process.communicate()
        else:
            began_s = time.monotonic()
            with klamm_up(self._data_dir, *self._options) as up:
                self._start_s = time.monotonic() - began_s
                self._check(up)
                self._await_record(client)
                self._work(up, moment)
        left: Sequence[str] = ()

        def is_gone() -> bool:
            nonlocal left
            left = processes_naming(str(self._data_dir))
            return not left

        if not wait_until(is_gone, GONE_WITHIN_S):
            self.failures.append(f"left after {GONE_WITHIN_S:g} s: {left}")

    def _check(self, up: Up) -> None:
        """Wait until the cluster is healthy, and compare its topics with the history."""
        status = up.json("status", "--wait", str(HEALTHY_WITHIN_S))
        with open_store(status["zookeeper"]["connect"]) as store:
            self.failures += [found.text for found in self.history.check(store)]

    def _await_record(self, client: SteadyClient) -> None:
        before = len(client.acknowledged)
        if not wait_until(lambda: len(client.acknowledged) > before, RECORD_WITHIN_S):
            self.failures.append(f"no record was acknowledged within {RECORD_WITHIN_S:g} s")

    def _work(self, up: Up, moment: str) -> None:
        """Create and delete topics until a thread has killed the process."""
        killing = threading.Thread(target=self._kill, args=(up, moment, self._random.random()))
        killing.start()
        admin = http_admin(ServerClient(up.url).request)
        while killing.is_alive():
            called = self.history.call()
            request, response = self._draw_request(), None
            with contextlib.suppress(KlammError):
                response = _answer(admin, request)
            self.history.answered(called, request, response, is_current=False)
            killing.join(_PAUSE_S)

    def _kill(self, up: Up, moment: str, share: float) -> None:
        if moment == "rotation":
            before = self._journals()
            wait_until(lambda: self._journals() != before, _ROTATION_WITHIN_S)
        else:
            time.sleep(0.1 + 1.4 * share)
        if moment == "shutdown":
            up.process.send_signal(signal.SIGINT if share < _HALF else signal.SIGTERM)
            time.sleep(share * _HALF)
        up.process.kill()
        up.process.wait()

    def _journals(self) -> list[str]:
        return sorted(path.name for path in self._data_dir.glob(f"{JOURNAL_FILE}*"))

    def _draw_request(self) -> CreateTopicsRequest | DeleteTopicsRequest:
        rng = self._random
        if self._topics and rng.random() < _DELETED_SHARE:
            name = f"topic-{rng.randrange(self._topics)}"
            return DeleteTopicsRequest((name,), _REQUEST_TIMEOUT_MS)
        name, configs = f"topic-{self._topics}", {"retention.ms": str(rng.randrange(10**8, 10**9))}
        self._topics += 1
        topic = CreatableTopic(name, rng.randrange(1, 4), 2, configs=configs)
        return CreateTopicsRequest((topic,), _REQUEST_TIMEOUT_MS)


def _answer(
    admin: KafkaAdmin, request: CreateTopicsRequest | DeleteTopicsRequest
) -> CreateTopicsResponse | DeleteTopicsResponse:
    if isinstance(request, CreateTopicsRequest):
        return admin.create_topics(request)
    refused = admin.delete_topics(request.topics, request.timeout_ms)
    results = {
        name: refused[name].error if name in refused else Errors.NONE for name in request.topics
    }
    return DeleteTopicsResponse(tuple(map(DeletableTopicResult, results, results.values())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, print and judge. Exit 1 if anything was lost or left."""
    parser = argparse.ArgumentParser(prog="python -m bench.kill9", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)
    data_dir = Path(tempfile.mkdtemp(prefix="klamm-kill9-"))
    kills = Kills(options.seed, data_dir)
    kills.run(options.kills)
    for failure in kills.failures:
        print(f"FAILURE {failure}")
    print(f"{len(kills.failures)} failures")
    if kills.failures:
        print(f"data directory: {data_dir}")
    else:
        shutil.rmtree(data_dir)
    return 1 if kills.failures else 0


if __name__ == "__main__":
    sys.exit(main())
