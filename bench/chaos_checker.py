"""Samples ZooKeeper with a plain kazoo session while a cluster runs, and judges every sweep.

It uses the paths and the JSON of Kafka 2.8's znodes and no klamm module. One session reads
everything, so that a later read never shows an older state than an earlier one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from bench.chaos_judge import Epoch, Holder, Judge, State, Sweep, Topic, what_is_not_converged

SWEEP_INTERVAL_S = 0.15
READ_TIMEOUT_S = 15.0
ENSEMBLE_PATIENCE = 30
"""Sweeps; together more than a session timeout of the brokers."""
SESSION_TIMEOUT_S = 10.0


# kazoo logs every broken connection, which are many; failed sweeps are counted instead.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class Znode(NamedTuple):
    """Decoded data and stat."""

    value: Any
    stat: Any


class Reader:
    """Reads sweeps. Raises KazooException or KazooTimeoutError while ZooKeeper is away."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def sweep(self) -> Sweep:
        """Read everything once."""
        epoch_before, holder_before = self._epoch(), self._holder()
        ids = [int(name) for name in self._children("/brokers/ids")]
        stats = self._existing([f"/brokers/ids/{id_}" for id_ in ids])
        names = self._children("/brokers/topics")
        topics = {
            name: _topic(znode)
            for name, znode in zip(names, self._get(_topic_paths(names)), strict=True)
            if znode is not None
        }
        partitions = [(name, number) for name, topic in topics.items() for number in topic.replicas]
        states = self._get(
            [f"/brokers/topics/{name}/partitions/{number}/state" for name, number in partitions]
        )
        after = self._existing(_topic_paths(topics))
        holder_after, epoch_after = self._holder(), self._epoch()
        return Sweep(
            epoch_before,
            holder_before,
            {
                id_: stat.ephemeralOwner
                for id_, stat in zip(ids, stats, strict=True)
                if stat is not None
            },
            topics,
            {
                partition: _state(znode)
                for partition, znode in zip(partitions, states, strict=True)
                if znode is not None
            },
            {name: stat.mzxid for name, stat in zip(topics, after, strict=True) if stat},
            holder_after,
            epoch_after,
        )

    def work_left(self) -> list[str]:
        """Znodes of admin work that is under way."""
        left = [f"{name} is to be deleted" for name in self._children("/admin/delete_topics")]
        for path in ("/admin/reassign_partitions", "/admin/preferred_replica_election"):
            if self._existing([path])[0] is not None:
                left.append(f"{path} is there")
        return left

    def _epoch(self) -> Epoch | None:
        (znode,) = self._get(["/controller_epoch"])
        return None if znode is None else Epoch(znode.value, znode.stat.version, znode.stat.mzxid)

    def _holder(self) -> Holder | None:
        (znode,) = self._get(["/controller"])
        if znode is None:
            return None
        return Holder(znode.value["brokerid"], znode.stat.ephemeralOwner, znode.stat.czxid)

    def _children(self, path: str) -> list[str]:
        with contextlib.suppress(NoNodeError):
            return sorted(self.client.get_children_async(path).get(timeout=READ_TIMEOUT_S))
        return []

    def _get(self, paths: Sequence[str]) -> list[Znode | None]:
        asked = [self.client.get_async(path) for path in paths]
        found: list[Znode | None] = []
        for one in asked:
            try:
                data, stat = one.get(timeout=READ_TIMEOUT_S)
            except NoNodeError:
                found.append(None)
            else:
                found.append(Znode(json.loads(data), stat))
        return found

    def _existing(self, paths: Sequence[str]) -> list[Any]:
        asked = [self.client.exists_async(path) for path in paths]
        return [one.get(timeout=READ_TIMEOUT_S) for one in asked]


def _topic_paths(names: Any) -> list[str]:
    return [f"/brokers/topics/{name}" for name in names]


def _topic(znode: Znode) -> Topic:
    def by_number(name: str) -> dict[int, tuple[int, ...]]:
        found = znode.value.get(name) or {}
        return {int(number): tuple(replicas) for number, replicas in found.items()}

    return Topic(
        by_number("partitions"),
        by_number("adding_replicas"),
        by_number("removing_replicas"),
        znode.stat.mzxid,
    )


def _state(znode: Znode) -> State:
    value, stat = znode
    return State(
        value["leader"],
        tuple(value["isr"]),
        value["leader_epoch"],
        value["controller_epoch"],
        stat.version,
        stat.mzxid,
        stat.czxid,
    )


class Checker:
    """Sweeps on a thread until it is closed. ``blind_sweeps``: those ZooKeeper did not answer.

    A ``judge`` continues from its earlier samples, such as before a restart.
    """

    def __init__(
        self,
        connect: str,
        on_violation: Callable[[str], None] = lambda _: None,
        judge: Judge | None = None,
    ) -> None:
        self.judge = judge or Judge(ENSEMBLE_PATIENCE if "," in connect else 0)
        self.blind_sweeps = 0
        self.failure: str | None = None
        self._on_violation = on_violation
        self._client = KazooClient(
            hosts=connect,
            timeout=SESSION_TIMEOUT_S,
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
        )
        self.reader = Reader(self._client)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def start(self) -> None:
        """Connect and start."""
        self._client.start(timeout=30.0)
        self._thread.start()

    def close(self) -> None:
        """End the thread and the session."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(READ_TIMEOUT_S + 5.0)
        self._client.stop()
        self._client.close()

    def sweep(self) -> Sweep | None:
        """Take and judge one sweep now; None while ZooKeeper does not answer."""
        with self._lock:
            try:
                sweep = self.reader.sweep()
            except (KazooException, KazooTimeoutError):
                self.blind_sweeps += 1
                return None
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self.judge.report("a znode that cannot be read", repr(error))
                return None
            for line in self.judge.judge(sweep):
                self._on_violation(line)
            return sweep

    def what_is_left(self, sweep: Sweep | None, brokers: Iterable[int]) -> list[str]:
        """Return what a cluster with all ``brokers`` alive still lacks or has to do."""
        if sweep is None:
            return ["ZooKeeper does not answer"]
        with self._lock:
            try:
                return what_is_not_converged(sweep, brokers) + self.reader.work_left()
            except (KazooException, KazooTimeoutError) as error:
                return [f"ZooKeeper does not answer: {error!r}"]

    def plant(self, path: str, change: Callable[[Any], Any]) -> None:
        """Write a changed value: a fault that the judge must find."""
        data, _ = self._client.get(path)
        self._client.set(path, json.dumps(change(json.loads(data))).encode())

    def _run(self) -> None:
        try:
            while not self._closed.wait(SWEEP_INTERVAL_S):
                self.sweep()
        except Exception as error:
            # A checker that has failed must not look like one that found no violation.
            self.failure = f"the checker ended: {error!r}"
            self._on_violation(self.failure)
