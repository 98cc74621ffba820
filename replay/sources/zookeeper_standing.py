"""What the znodes of a snapshot say about a Kafka cluster: the last write of each.

One snapshot at a time, without Spark. What a single znode says is found in zookeeper_changes.py;
who wrote it a snapshot does not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cluster.journal import Kind
from replay.sources.zookeeper_changes import (
    CONTROLLER_CREATED,
    EPOCH_WRITTEN,
    Change,
    malformed,
    written,
)
from replay.sources.zookeeper_paths import BROKER, CONTROLLER, EPOCH, TOPIC, ZNode, znode_of
from zk.snapshot_file import SnapshotEntry
from zk.znodes import MalformedZNode, UnparsableJson

SNAPSHOT_DETAIL: Final = "snapshot"


class Standing(NamedTuple):
    """A change that a snapshot shows: what was written last, when and by which session.

    ``session_id`` is that of an ephemeral, else 0.
    """

    offset: int
    zxid: int
    t_ms: int
    session_id: int
    change: Change


def changes_in_snapshot(entries: Iterable[SnapshotEntry]) -> Iterator[Standing]:
    """The last write of each znode that is in a snapshot. Who wrote it is not in there."""
    controllers: dict[str, list[Standing]] = {}
    for entry in entries:
        znode = znode_of(entry.path)
        if znode is None:
            continue
        node = entry.node
        for change in _standing(znode, entry):
            at = (node.czxid, node.ctime_ms) if _is_at_creation(change) else _last_write(entry)
            row = Standing(entry.offset, *at, node.ephemeral_owner, change)
            if znode.what in (CONTROLLER, EPOCH):
                controllers.setdefault(znode.chroot, []).append(row)
            else:
                yield row
    for rows in controllers.values():
        yield from _election_in_snapshot(rows)


def _standing(znode: ZNode, entry: SnapshotEntry) -> Iterator[Change]:
    node = entry.node
    # The data at its creation is gone if it was written again.
    is_new = node.czxid == node.mzxid
    try:
        for change in written(
            znode, node.data, node.version, is_new or znode.what == BROKER, 0, None
        ):
            yield change._replace(detail=change.detail or SNAPSHOT_DETAIL)
    except (MalformedZNode, UnparsableJson) as error:
        yield malformed(znode, entry.path, str(error), node.version, 0, None)
    if znode.what == TOPIC and not is_new:
        yield Change(Kind.TOPIC_CREATED.value, 0, znode.chroot, znode.topic, detail=SNAPSHOT_DETAIL)


def _is_at_creation(change: Change) -> bool:
    return change.kind in (Kind.BROKER_ONLINE, Kind.TOPIC_CREATED, CONTROLLER_CREATED)


def _last_write(entry: SnapshotEntry) -> tuple[int, int]:
    return entry.node.mzxid, entry.node.mtime_ms


def _election_in_snapshot(rows: list[Standing]) -> Iterator[Standing]:
    """One multi wrote both znodes if they have one zxid."""
    by_kind = {row.change.kind: row for row in rows}
    created, epoch = by_kind.get(CONTROLLER_CREATED), by_kind.get(EPOCH_WRITTEN)
    if created is None or epoch is None or created.zxid != epoch.zxid:
        yield from rows
        return
    broker = created.change.broker
    elected = epoch.change._replace(kind=Kind.CONTROLLER_ELECTED.value, broker=broker)
    yield created._replace(change=elected)
