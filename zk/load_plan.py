"""Plans the load of a dump written by `klamm zk dump`: which znodes to create, and which to omit.

The plan depends only on the dump. dump_load.py carries it out. Kafka has no such tool.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.errors import UsageError
from klamm.zk.dump import DumpedZNode
from klamm.zk.dump_text import data_of, is_ephemeral, is_unreadable
from klamm.zk.request_size import MAX_TRANSACTION_BYTES, transaction_size
from klamm.zk.store import Create, SetData
from klamm.zk.znode_client import parent_path

LOADING_PATH: Final = "/klamm-loading"
"""Znode that marks an unfinished load: it is created first and deleted last."""
ADVANCE_AT_MOST: Final = 100_000
ZOOKEEPERS_OWN: Final = "/zookeeper"
_NUMBERED: Final = re.compile(r"(?<=[^/\d])(\d{10})$", re.ASCII)


class LoadPlan(NamedTuple):
    """The znodes that a load writes, and those that it omits.

    - ``creates``: the znodes to create, parents before children.
    - ``root``: data of the chroot itself, or UNSET if the dump does not contain the chroot.
    - ``ephemeral`` and ``unreadable``: paths of znodes that are omitted because they are ephemeral,
      or because the dump could not read them.
    - ``added``: parents that are missing from the dump but have to be created.
    - ``counters``: (path, number of temporary children) pairs. The temporary children are created
      and deleted, so that the next sequential znode gets a higher number than the existing ones.
    - ``digest``: SHA-256 of ``creates``.
    """

    creates: tuple[Create, ...]
    root: bytes | msgspec.UnsetType | None
    ephemeral: tuple[str, ...]
    unreadable: tuple[str, ...]
    added: tuple[str, ...]
    counters: tuple[tuple[str, int], ...]
    digest: str


def plan_load(znodes: Sequence[DumpedZNode], without: frozenset[str] = frozenset()) -> LoadPlan:
    """Plan the load of ``znodes``, except ZooKeeper's internal znodes and the paths in ``without``.

    Raises UsageError if a znode exceeds the maximum request size or has an ephemeral parent.
    """
    root: bytes | msgspec.UnsetType | None = msgspec.UNSET
    creates: dict[str, Create] = {}
    ephemeral, unreadable, added = [], [], []
    for znode in sorted(znodes, key=lambda znode: znode.path.split("/")):
        path = znode.path
        if path == "/":
            if not is_unreadable(znode):
                root = data_of(znode)
                _check_size(SetData("/", root))
        elif f"{path}/".startswith(f"{ZOOKEEPERS_OWN}/") or path in without:
            continue
        elif path == LOADING_PATH:
            raise UsageError(f"the dump contains {path}: it was made during an unfinished load")
        elif is_ephemeral(znode):
            ephemeral.append(path)
        elif is_unreadable(znode):
            unreadable.append(path)
        else:
            for missing in _missing_above(path, creates):
                added.append(missing)
                creates[missing] = Create(missing, None)
            creates[path] = Create(path, data_of(znode))
            _check_size(creates[path])
    for path in ephemeral:
        if path in added:
            raise UsageError(f"the dump has znodes below {path}, which is ephemeral")
    ordered = tuple(creates.values())
    digest = hashlib.sha256()
    for op in ordered:
        size = -1 if op.data is None else len(op.data)
        digest.update(b"%b\0%d\0%b" % (op.path.encode(), size, op.data or b""))
    return LoadPlan(
        ordered,
        root,
        tuple(ephemeral),
        tuple(unreadable),
        tuple(added),
        _counters(ordered),
        digest.hexdigest(),
    )


def _missing_above(path: str, creates: dict[str, Create]) -> list[str]:
    missing = []
    above = parent_path(path)
    while above != "/" and above not in creates:
        missing.append(above)
        above = parent_path(above)
    return missing[::-1]


def _check_size(op: Create | SetData) -> None:
    if transaction_size([op]) > MAX_TRANSACTION_BYTES:
        size = len(op.data or b"")
        raise UsageError(
            f"{op.path} has {size} bytes, which exceeds ZooKeeper's maximum request size"
        )


def _counters(creates: Sequence[Create]) -> tuple[tuple[str, int], ...]:
    children: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for op in creates:
        above = parent_path(op.path)
        children[above] = children.get(above, 0) + 1
        if (found := _NUMBERED.search(op.path)) is not None:
            numbers[above] = max(numbers.get(above, 0), int(found[1]))
    ahead = {path: number + 1 - children[path] for path, number in numbers.items()}
    return tuple((path, count) for path, count in ahead.items() if 0 < count <= ADVANCE_AT_MOST)
