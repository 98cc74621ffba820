"""Dumps all znodes at and below a path without loss, for `klamm zk dump`.

The tree is read level by level in pipelined batches. The dump is not a consistent snapshot: changes
made by other clients during the dump may be missing. Kafka has no such tool; zookeeper-shell shows
one znode at a time.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import msgspec

from klamm.cluster.errors import StoreError
from klamm.zk.store import GetChildren, GetData, ReadOp, ResultCode, Stat, Store
from klamm.zk.znode_client import missing_chroot, store_error

ZNODES_PER_BATCH: Final = 5_000
_GONE: Final = (ResultCode.NONODE, ResultCode.NOAUTH)


class DumpedZNode(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A znode in a dump.

    - ``data``: the data as text; None for null data, "" for empty data.
    - ``base64``: set instead of ``data`` if the data is not valid UTF-8.
    - ``ephemeral_owner``: id of the owning session, in hex as ZooKeeper prints it.
    - ``unreadable``: the error code if the data could not be read.
    """

    path: str
    data: str | msgspec.UnsetType | None = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET
    version: int | msgspec.UnsetType = msgspec.UNSET
    cversion: int | msgspec.UnsetType = msgspec.UNSET
    aversion: int | msgspec.UnsetType = msgspec.UNSET
    czxid: int | msgspec.UnsetType = msgspec.UNSET
    mzxid: int | msgspec.UnsetType = msgspec.UNSET
    pzxid: int | msgspec.UnsetType = msgspec.UNSET
    ctime_ms: int | msgspec.UnsetType = msgspec.UNSET
    mtime_ms: int | msgspec.UnsetType = msgspec.UNSET
    ephemeral_owner: str | msgspec.UnsetType = msgspec.UNSET
    unreadable: str | msgspec.UnsetType = msgspec.UNSET


STAT_FIELDS: Final = sorted(
    {*DumpedZNode.__struct_fields__} & {*Stat._fields} - {"ephemeral_owner"}
)
"""Fields of ZooKeeper's Stat that are copied to the dump unchanged."""


def dump(store: Store, path: str = "/", chroot: str = "") -> list[DumpedZNode]:
    """Return the znode at ``path`` and all znodes below it, parents first and siblings by name.

    A znode without read permission has ``unreadable`` set and no data. ``chroot`` is the chroot of
    ``store``, for use in error messages. Raises StoreError if ``path`` does not exist or a read
    fails.
    """
    found: dict[str, DumpedZNode] = {}
    level = [path]
    while level:
        below: list[str] = []
        for start in range(0, len(level), ZNODES_PER_BATCH):
            below += _read(store, level[start : start + ZNODES_PER_BATCH], found)
        level = below
    if path not in found and path == "/":
        raise missing_chroot(chroot)
    if path not in found:
        raise StoreError(
            f"znode {path} does not exist", hint="to see all znodes, run klamm zk dump /"
        )
    return [found[key] for key in sorted(found, key=_sort_key)]


def _read(store: Store, paths: Sequence[str], found: dict[str, DumpedZNode]) -> list[str]:
    """Read the znodes at ``paths`` into ``found``, and return the paths of all their children."""
    ops: list[ReadOp] = [GetData(path) for path in paths]
    ops += [GetChildren(path) for path in paths]
    results = store.read(ops)
    below: list[str] = []
    for path, data, children in zip(paths, results, results[len(paths) :], strict=False):
        for result in (data, children):
            if result.code is not ResultCode.OK and result.code not in _GONE:
                raise store_error(result.code, path)
        if data.stat is not None:
            found[path] = _znode(path, data.data, data.stat)
        elif data.code is ResultCode.NOAUTH:
            found[path] = DumpedZNode(path, unreadable=data.code.name)
        prefix = "" if path == "/" else path
        below += [f"{prefix}/{name}" for name in children.children or ()]
    return below


def _znode(path: str, data: bytes | None, stat: Stat) -> DumpedZNode:
    text, encoded = _text(data)
    return DumpedZNode(
        path=path,
        data=text,
        base64=encoded,
        **{name: getattr(stat, name) for name in STAT_FIELDS},
        ephemeral_owner=f"0x{stat.ephemeral_owner & (2**64 - 1):x}",
    )


def _text(
    data: bytes | None,
) -> tuple[str | msgspec.UnsetType | None, str | msgspec.UnsetType]:
    if data is None:
        return None, msgspec.UNSET
    try:
        return data.decode(), msgspec.UNSET
    except UnicodeDecodeError:
        return msgspec.UNSET, base64.b64encode(data).decode()


def _sort_key(path: str) -> list[str]:
    return path.split("/") if path != "/" else [""]
