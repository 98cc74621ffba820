"""What the store does on the same znodes with no controller: what klamm could reach at most.

Grouped creates, sets and reads, as large as klamm's own and as many in flight, from one thread.
Nothing is decided, decoded, journalled or sent to a broker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from bench.kafka.cpu import process_cpu_s
from bench.kafka.peer import Peer
from bench.kafka.scenarios import Partition
from bench.kafka.steps import Result
from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.types import LeaderAndIsr
from klamm.zk.fenced_writes import GROUP_SIZE
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.request_size import GROUP_BYTES, op_size
from klamm.zk.store import Create, GetData, ResultCode, SetData, WriteOp
from klamm.zk.znodes import TopicPartitionStateZNode

PRODUCT = "raw store"
ROOT = "/raw"
SESSION_TIMEOUT_MS = 30_000
CONTROLLER_EPOCH = 1


def raw_store_rates(peer: Peer) -> Iterator[Result]:
    """Create the znodes of all of ``peer``'s partitions below /raw, set the states, read them.

    ``n`` is partitions each time. Raises EnvironmentProblem when the server refuses any.
    """
    partitions = peer.partitions
    states = [state_of(partition) for partition in partitions]
    session = KazooSession(peer.zookeeper.connect_string, SESSION_TIMEOUT_MS)
    store = KazooStore(session)
    try:
        _write(store, [Create(ROOT, None)])
        plain = KazooSession(f"{peer.zookeeper.connect_string}{ROOT}", SESSION_TIMEOUT_MS)
        below = KazooStore(plain)
        try:
            _write(below, _parents(partitions))
            creates = list(_creates(partitions, states))
            sets = [
                SetData(partition.state_path, state, 0)
                for partition, state in zip(partitions, states, strict=True)
            ]
            reads = [GetData(partition.state_path) for partition in partitions]
            yield _timed(peer, "create", lambda: _write(below, creates))
            yield _timed(peer, "set", lambda: _write(below, sets))
            yield _timed(peer, "read", lambda: _require_ok(r.code for r in below.read(reads)))
        finally:
            below.close()
    finally:
        store.close()


def state_of(partition: Partition) -> bytes:
    """The state znode of a new partition."""
    state = LeaderAndIsr(partition.replicas[0], 0, partition.replicas)
    return TopicPartitionStateZNode.encode(state, CONTROLLER_EPOCH)


def grouped(ops: Iterable[WriteOp]) -> list[list[WriteOp]]:
    """Transactions as large as klamm's."""
    groups: list[list[WriteOp]] = [[]]
    size = 0
    for op in ops:
        size += op_size(op)
        if len(groups[-1]) == GROUP_SIZE or (groups[-1] and size > GROUP_BYTES):
            groups.append([])
            size = op_size(op)
        groups[-1].append(op)
    return groups


def _parents(partitions: Sequence[Partition]) -> list[WriteOp]:
    """What tools create before the controller comes in."""
    topics = dict.fromkeys(f"/brokers/topics/{partition.topic}" for partition in partitions)
    return [Create(path, None) for path in ("/brokers", "/brokers/topics", *topics)]


def _creates(partitions: Sequence[Partition], states: Sequence[bytes]) -> Iterator[WriteOp]:
    """What the controller creates: three levels, each after the one above."""
    for topic in dict.fromkeys(partition.topic for partition in partitions):
        yield Create(f"/brokers/topics/{topic}/partitions", None)
    for partition in partitions:
        yield Create(partition.state_path.removesuffix("/state"), None)
    for partition, state in zip(partitions, states, strict=True):
        yield Create(partition.state_path, state)


def _write(store: KazooStore, ops: Iterable[WriteOp]) -> None:
    _require_ok(result.code for result in store.write(grouped(ops)))


def _require_ok(codes: Iterable[ResultCode]) -> None:
    for code in codes:
        if code is not ResultCode.OK:
            raise EnvironmentProblem(f"the raw store rate: {code.name}")


def _timed(peer: Peer, step: str, job: Callable[[], None]) -> Result:
    packets = peer.client.counters()
    bench_s, zookeeper_s = process_cpu_s(os.getpid()), process_cpu_s(peer.zookeeper_pid)
    started_s = time.time()
    job()
    wall_s = time.time() - started_s
    n = len(peer.partitions)
    after = peer.client.counters()
    return {
        "product": PRODUCT,
        "step": step,
        "at": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started_s)),
        "partitions": peer.options.partitions,
        "partitions_per_topic": peer.options.partitions_per_topic,
        "brokers": peer.options.brokers,
        "cluster_partitions": n,
        "n": n,
        "wall_s": round(wall_s, 3),
        "per_s": round(n / wall_s, 1),
        "cpu_controller_s": round(process_cpu_s(os.getpid()) - bench_s, 3),
        "cpu_zookeeper_s": round(process_cpu_s(peer.zookeeper_pid) - zookeeper_s, 3),
        "zookeeper_packets": int(after["zk_packets_received"] - packets["zk_packets_received"]),
        "verified": True,
        "timed_out": False,
        "errors": 0,
    }
