"""Interprets ZooKeeper transactions as changes to a Kafka cluster.

Each transaction is interpreted on its own. Facts that depend on several transactions, such as which
broker owns a session, are derived in replay/sources/zookeeper_events.py. The znodes are those of
kafka.zk.ZkData; the transactions are those that kafka.zk.KafkaZkClient writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.journal import Kind
from klamm.cluster.types import TopicPartition
from klamm.replay.event_schema import (
    ADMIN_REQUEST,
    ASSIGNMENT_WRITTEN,
    LEADERSHIP_DELETED,
    LEADERSHIP_WRITTEN,
    SESSION_CLOSED_DETAIL,
    SESSION_EXPIRED_DETAIL,
    WRITE_REFUSED,
)
from klamm.statemachines.reassignment import reassignment_id
from klamm.zk.store import ResultCode
from klamm.zk.txn_log import Txn, TxnOp, TxnType
from klamm.zk.znodes import (
    ControllerEpochZNode,
    ControllerZNode,
    MalformedZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicZNode,
    UnparsableJson,
)


class ZNodePath(NamedTuple):
    """The meaning of a znode's path.

    - ``chroot``: "" for none.
    - ``what``: kind of znode, one of the constants below.
    - ``topic``: topic that the znode is about, or None.
    - ``number``: broker id or partition that the znode is about, -1 for none.
    """

    chroot: str
    what: str
    topic: str | None = None
    number: int = -1


BROKER, TOPIC, STATE, DELETE_TOPICS = "broker", "topic", "state", "delete_topics"
CONTROLLER, EPOCH = "controller", "controller_epoch"
REASSIGN, PREFERRED = "reassign_partitions", "preferred_replica_election"
_IDENTIFYING: Final = re.compile(
    r"""(?P<chroot>(?:/[^/]+)*?)/(?:
        brokers/ids/(?P<broker>[0-9]{1,9})
      | brokers/topics/(?P<topic>[^/]+)
        (?P<below>/partitions(?:/(?P<partition>[0-9]{1,9})(?P<state>/state)?)?)?
      | (?P<root>controller|controller_epoch)
      | admin/delete_topics/(?P<deleted>[^/]+)
      | admin/(?P<request>reassign_partitions|preferred_replica_election)
      | (?P<other>(?:config/(?:topics|clients|users|brokers|ips|changes)|consumers/[^/]+)
        /(?:.+/)?controller(?:_epoch)?)
    )""",
    re.VERBOSE,
)


@lru_cache(maxsize=65536)
def znode_of(path: str) -> ZNodePath | None:
    """Parse the path of a znode. Return None if a replay does not need this znode."""
    match = _IDENTIFYING.fullmatch(path)
    if match is None or match["other"]:
        return None
    chroot = match["chroot"]
    if match["topic"]:
        if match["state"]:
            return ZNodePath(chroot, STATE, match["topic"], int(match["partition"]))
        return None if match["below"] else ZNodePath(chroot, TOPIC, match["topic"])
    if match["broker"]:
        return ZNodePath(chroot, BROKER, None, int(match["broker"]))
    if match["deleted"]:
        return ZNodePath(chroot, DELETE_TOPICS, match["deleted"])
    return ZNodePath(chroot, match["root"] or match["request"])


EPOCH_WRITTEN: Final = "epoch_written"
"""/controller_epoch was written, but not in the same transaction as /controller."""
CONTROLLER_CREATED: Final = "controller_created"
"""/controller was created, but not in the same transaction as /controller_epoch was written."""
SESSION_CLOSED: Final = "session_closed"
_ERRORS: Final = {code.value: code.name for code in ResultCode}
_CAUSED_BY_ANOTHER: Final = (0, -2)
"""Error codes of operations that failed only because another operation in the same multi failed."""


class ClusterChange(msgspec.Struct, gc=False):
    """A change to a Kafka cluster, as far as a single transaction shows it.

    - ``kind``: one of event_schema.KINDS or of the constants above.
    - ``chroot``: "" for none; None if unknown, because a rejected multi may not contain the path.
    - ``epoch``: controller epoch in the znode's data.
    - ``fence``: version of /controller_epoch that the transaction checks; None without a check.
    - ``op_index``: index of the operation in its multi.
    """

    kind: str
    chroot: str | None = None
    topic: str | None = None
    partition: int = -1
    broker: int = -1
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    epoch: int | None = None
    zk_version: int | None = None
    fence: int | None = None
    reassignment: str | None = None
    outcome: str | None = None
    detail: str | None = None
    op_index: int = 0


def changes_of(txn: Txn) -> list[ClusterChange]:
    """Return the changes to Kafka clusters that a transaction makes, in order.

    Most transactions make no such change.
    """
    if not txn.is_multi:
        (op,) = txn.ops
        if op.type is TxnType.CLOSE_SESSION:
            return list(_closed(txn, op))
        return list(_changes_of_op(op, 0, None))
    if txn.is_rejected:
        return [_refused(txn)]
    fence = _fence(txn.ops)
    changes = [
        change
        for index, op in enumerate(txn.ops)
        if op.type is not TxnType.CHECK
        for change in _changes_of_op(op, index, fence)
    ]
    return _registered(changes) if len(changes) > 1 else changes


def _fence(ops: Iterable[TxnOp]) -> int | None:
    for op in ops:
        if op.type is TxnType.CHECK:
            znode = znode_of(op.path)
            if znode is not None and znode.what == EPOCH:
                # The log stores the version plus one.
                return op.version - 1
    return None


def _registered(changes: list[ClusterChange]) -> list[ClusterChange]:
    """Replace the two changes of a controller election or broker registration with a single one."""
    first, second, *rest = changes
    if first.chroot == second.chroot:
        if (first.kind, second.kind) == (CONTROLLER_CREATED, EPOCH_WRITTEN):
            elected = Kind.CONTROLLER_ELECTED.value
            second.kind, second.op_index, second.broker = elected, first.op_index, first.broker
            return [second, *rest]
        if (first.kind, second.kind) == (Kind.BROKER_ONLINE, Kind.BROKER_MODIFIED):
            return [first, *rest]
    return changes


def _refused(txn: Txn) -> ClusterChange:
    numbers = [op.number for op in txn.ops if op.type is TxnType.ERROR]
    number = next((number for number in numbers if number not in _CAUSED_BY_ANOTHER), numbers[0])
    outcome = _ERRORS.get(number, str(number))
    # Operations before the failed one are logged with their paths.
    for op in txn.ops:
        znode = znode_of(op.path) if op.path else None
        if znode is not None:
            fence = _fence(txn.ops)
            return ClusterChange(WRITE_REFUSED, chroot=znode.chroot, fence=fence, outcome=outcome)
    return ClusterChange(WRITE_REFUSED, outcome=outcome)


def _closed(txn: Txn, op: TxnOp) -> Iterator[ClusterChange]:
    # Only a request of the client has a number: ZooKeeper itself closes expired sessions.
    detail = SESSION_CLOSED_DETAIL if txn.cxid else SESSION_EXPIRED_DETAIL
    yield ClusterChange(SESSION_CLOSED, detail=detail)
    for path in op.paths or ():
        if znode := znode_of(path):
            yield from _deleted(znode, detail)


def _changes_of_op(op: TxnOp, index: int, fence: int | None) -> Iterator[ClusterChange]:
    znode = znode_of(op.path)
    if znode is None:
        return
    changes: Iterable[ClusterChange] = ()
    if op.type is TxnType.DELETE:
        changes = _deleted(znode)
    elif op.type in (TxnType.CREATE, TxnType.SET_DATA):
        is_new = op.type is TxnType.CREATE
        changes = written(znode, op.path, op.data, 0 if is_new else op.version, is_new)
    for change in changes:
        change.op_index = index
        if change.kind in _FENCED:
            change.fence = fence
        yield change


def _deleted(znode: ZNodePath, detail: str | None = None) -> Iterator[ClusterChange]:
    kind = _DELETIONS.get(znode.what)
    if kind is not None:
        partition = znode.number if znode.what == STATE else -1
        broker = znode.number if znode.what == BROKER else -1
        yield ClusterChange(kind, znode.chroot, znode.topic, partition, broker, detail=detail)


_DELETIONS: Final = {
    BROKER: Kind.BROKER_OFFLINE.value,
    CONTROLLER: Kind.CONTROLLER_RESIGNED.value,
    TOPIC: Kind.TOPIC_DELETED.value,
    STATE: LEADERSHIP_DELETED,
}
_FENCED: Final = frozenset(
    {LEADERSHIP_WRITTEN, ASSIGNMENT_WRITTEN, Kind.ZNODE_MALFORMED.value, *_DELETIONS.values()}
)
"""The kinds of changes that have the fence of their transaction."""


def written(
    znode: ZNodePath, path: str, data: bytes | None, version: int, is_new: bool
) -> Iterator[ClusterChange]:
    """Yield the changes that result from writing data to a znode.

    If a part of the data is invalid, yields the changes in the valid part, and then one that tells
    what is malformed.
    """
    try:
        yield from _valid_changes(znode, data, version, is_new)
    except (MalformedZNode, UnparsableJson) as error:
        yield ClusterChange(
            Kind.ZNODE_MALFORMED.value,
            znode.chroot,
            znode.topic,
            znode.number if znode.what == STATE else -1,
            zk_version=version,
            outcome=str(error),
            detail=path.removeprefix(znode.chroot),
        )


def _valid_changes(
    znode: ZNodePath, data: bytes | None, version: int, is_new: bool
) -> Iterator[ClusterChange]:
    chroot = znode.chroot
    match znode.what:
        case "state":
            yield _leadership(znode, data, version)
        case "topic":
            yield from _topic(znode, data, version, is_new)
        case "broker":
            kind = Kind.BROKER_ONLINE if is_new else Kind.BROKER_MODIFIED
            yield ClusterChange(kind.value, chroot, broker=znode.number)
        case "controller":
            broker = ControllerZNode.decode(data)
            if broker is None:
                raise UnparsableJson("not JSON")
            yield ClusterChange(CONTROLLER_CREATED, chroot, broker=broker)
        case "controller_epoch":
            epoch = ControllerEpochZNode.decode(data)
            yield ClusterChange(EPOCH_WRITTEN, chroot, epoch=epoch, zk_version=version)
        case _:
            yield from _requests(znode, data)


def _leadership(znode: ZNodePath, data: bytes | None, version: int) -> ClusterChange:
    found = TopicPartitionStateZNode.decode(data, version)
    if found is None:
        raise UnparsableJson("not JSON")
    state = found.leader_and_isr
    return ClusterChange(
        *(LEADERSHIP_WRITTEN, znode.chroot, znode.topic, znode.number, -1),
        *(state.leader, state.leader_epoch, state.isr, found.controller_epoch, version),
    )


def _topic(
    znode: ZNodePath, data: bytes | None, version: int, is_new: bool
) -> Iterator[ClusterChange]:
    topic = znode.topic or ""
    assignment = TopicZNode.decode(topic, data).assignment
    if is_new:
        detail = f"{len(assignment)} partitions"
        kind = Kind.TOPIC_CREATED.value
        yield ClusterChange(kind, znode.chroot, topic, zk_version=version, detail=detail)
    if not assignment:
        raise MalformedZNode("no partitions")
    for tp, replicas in assignment.items():
        yield ClusterChange(
            *(ASSIGNMENT_WRITTEN, znode.chroot, topic, tp.partition),
            zk_version=version,
            reassignment=reassignment_id(tp, replicas) if replicas.is_being_reassigned else None,
            detail=str(replicas),
        )


def _requests(znode: ZNodePath, data: bytes | None) -> Iterator[ClusterChange]:
    asked: Iterable[tuple[TopicPartition, str]] = ()
    if znode.what == REASSIGN:
        targets = ReassignPartitionsZNode.decode(data)
        asked = [(tp, f"{REASSIGN} {','.join(map(str, to or ()))}") for tp, to in targets.items()]
    elif znode.what == PREFERRED:
        asked = [(tp, PREFERRED) for tp in PreferredReplicaElectionZNode.decode(data)]
    else:
        yield ClusterChange(ADMIN_REQUEST, znode.chroot, znode.topic, detail=znode.what)
    for tp, detail in asked:
        yield ClusterChange(ADMIN_REQUEST, znode.chroot, *tp, detail=detail)
