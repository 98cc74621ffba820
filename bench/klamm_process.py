"""``python -m bench.klamm_process CONNECT BROKERS FOLDER [--traced]``: klamm under measurement.

One process with a controller and its simulated brokers, as ``klamm up`` runs them: journal on,
state-change.log at INFO. It takes the commands that the fake brokers of Kafka's benchmark take, one
a line, and answers each with a line of JSON; at end of file it ends. It must not time anything but
the brokers' answers.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.context_size import context_alone_bytes
from bench.kafka.scenarios import FIRST_BROKER
from bench.klamm_applied import what_is_not_applied
from bench.klamm_traffic import CountedJournal, StoreBatches, Traffic
from klamm.brokers.broker import KafkaServer
from klamm.world import network
from klamm.world.clock import WallClock
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.kafka_logs import KafkaLogs
from klamm.world.real.cluster import RealCluster
from klamm.zk.waiting import wait_until

SESSION_TIMEOUT_MS = 30_000
ELECTION_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.01
JOURNAL = "journal.jsonl"
LOG_LEVEL = "INFO"
CONTROLLER = FIRST_BROKER
# What moves by itself would disturb the figures; Kafka's is told the same.
CONFIG = {"auto.leader.rebalance.enable": "false"}
# As the kernel is told, which cuts at 15 characters; what begins otherwise keeps its name.
_THREAD_NAMES = (
    ("controller-", "klamm-event"),
    ("broker-hub", "klamm-brokers"),
    ("klamm-zookeeper", "klamm-zk"),
)
_NO_CATCH_UP = network.LinkFault(only=network.Traffic.RECORDS, is_clogged=True)

Answer = dict[str, Any]


class Process:
    """The cluster and the commands on it: the first word is the name of a method."""

    def __init__(self, connect: str, brokers: int, folder: Path, stack: ExitStack) -> None:
        self._broker_ids = tuple(range(FIRST_BROKER, FIRST_BROKER + brokers))
        self._traffic = Traffic()
        self._batches = StoreBatches()
        self._journal = CountedJournal(folder / JOURNAL)
        stack.callback(self._journal.close)
        self._events_before = 0
        clock = WallClock()
        logs = KafkaLogs(folder, clock, LOG_LEVEL)
        stack.callback(logs.close)
        # One candidate, so that the same one is elected again: what Kafka's benchmark does as well.
        spec = ClusterSpec(
            broker_ids=self._broker_ids,
            candidates=(CONTROLLER,),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            config=CONFIG,
        )
        self._cluster = stack.enter_context(RealCluster(spec, connect, self._journal, logs))
        self._cluster.transport.add_tap(self._traffic.tap)
        for broker_id in self._broker_ids:
            self._cluster.start(broker_id)
        self._batches.count(self._cluster.nodes[CONTROLLER].session)
        self._wait_until_elected()
        _name_threads()

    def _wait_until_elected(self) -> None:
        def is_elected() -> bool:
            return self._cluster.active_controller is not None and self._cluster.is_idle

        if not wait_until(is_elected, ELECTION_TIMEOUT_S, POLL_INTERVAL_S):
            raise RuntimeError(f"no controller within {ELECTION_TIMEOUT_S:g} s")

    def reset(self) -> Answer:
        """Count from 0."""
        self._traffic.reset()
        self._batches.reset()
        self._events_before = self._journal.events
        return {}

    def stats(self) -> Answer:
        """What was counted since the last reset."""
        errors = self._cluster.errors + self._traffic.errors
        return {
            "requests": self._traffic.counts(),
            "errors": len(errors),
            "errors_shown": errors[:3],
            "pending_isr": self._pending_isr(),
            "store": {
                "events": self._journal.events - self._events_before,
                **self._batches.counts(),
            },
        }

    def drop(self, broker_id: str) -> Answer:
        """Close a broker's session."""
        at_s = time.time()
        self._cluster.shut_down(int(broker_id), drain=False)
        return {"at": at_s}

    def shutdown(self, broker_id: str) -> Answer:
        """Drain a broker's leaderships through the controller; it keeps running."""
        at_s = time.time()
        self._cluster.drain(int(broker_id))
        answered_at_s = time.time()
        shutdown = self._cluster.nodes[int(broker_id)].node.broker.controlled_shutdown
        return {
            "at": at_s,
            "answered": answered_at_s,
            "error": int(shutdown.error),
            "refused": len(shutdown.remaining),
        }

    def start(self, broker_id: str) -> Answer:
        """Start a broker again; after ``catchup off``, its followers wait for ``catchup on``."""
        started = self._cluster.begin_start(int(broker_id))
        started.result()
        at_s = time.time()
        _name_threads()
        return {"at": at_s}

    def catchup(self, word: str) -> Answer:
        """``off``: clog all messages with records from now on; ``on``: deliver them."""
        at_s = time.time()
        self._cluster.transport.faults = (_NO_CATCH_UP,) if word == "off" else ()
        return {"at": at_s}

    def applied(self) -> Answer:
        """Compare what every live broker holds with ZooKeeper."""
        with self._cluster.broker_thread_paused():
            return what_is_not_applied(self._cluster.store, self._brokers())

    def memory(self) -> Answer:
        """Bytes that Python has allocated: 0 unless traced."""
        gc.collect()
        return {"bytes": tracemalloc.get_traced_memory()[0]}

    def context(self) -> Answer:
        """Bytes of a second ControllerContext, loaded from ZooKeeper for this and dropped."""
        return context_alone_bytes(self._cluster.store)

    def _pending_isr(self) -> int:
        """Replicas that are about to join an ISR."""
        pending = sum(broker.alter_isr_manager.pending_count for broker in self._brokers())
        if self._cluster.transport.faults:
            return pending
        return pending + sum(broker.fetchers.partition_count for broker in self._brokers())

    def _brokers(self) -> list[KafkaServer]:
        return [running.node.broker for running in self._cluster.nodes.values()]


def _name_threads() -> None:
    """Tell the kernel, so that CPU can be told apart from outside."""
    for thread in threading.enumerate():
        for prefix, name in _THREAD_NAMES:
            if thread.name.startswith(prefix):
                comm = Path(f"/proc/self/task/{thread.native_id}/comm")
                comm.write_text(name)


@contextmanager
def _tracing(on: bool) -> Iterator[None]:
    if on:
        tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def serve(process: Process, lines: Iterator[str], answer: Callable[[Answer], None]) -> None:
    """Answer each line until there is none. What goes wrong is an answer as well."""
    answer({})
    for line in lines:
        name, *arguments = line.split()
        try:
            answer(getattr(process, name)(*arguments))
        except Exception as error:
            answer({"failed": f"{type(error).__name__}: {error}"})


def main() -> int:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("connect")
    parser.add_argument("brokers", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--traced", action="store_true", help="count the bytes of every object")
    options = parser.parse_args()
    with _tracing(options.traced), ExitStack() as stack:
        process = Process(options.connect, options.brokers, options.folder, stack)
        serve(process, sys.stdin, lambda value: print(json.dumps(value), flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
