"""In-memory tree of znodes, with ZooKeeper's rules for every type of write.

Callers pass in the transaction id and the time. Sessions and watches are in memory_server.py.
Mirrors org.apache.zookeeper.server.{DataTree,PrepRequestProcessor}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from klamm.zk.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    OpResult,
    ResultCode,
    SetData,
    Stat,
    Transaction,
    TxnResult,
    WatchKind,
    WriteOp,
)

_OK: Final = ResultCode.OK
_NOT_EPHEMERAL: Final = 0


class DataNode:
    """A znode of the in-memory tree.

    ``creations`` is the number of children ever created. ``owner`` is the id of the session that
    owns an ephemeral znode, or 0.
    """

    __slots__ = (
        "children",
        "creations",
        "ctime_ms",
        "czxid",
        "data",
        "mtime_ms",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, zxid: int, now_ms: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = now_ms
        self.version = 0
        self.creations = 0
        self.owner = owner
        self.children: set[str] | None = None

    def copy(self) -> DataNode:
        """Return an independent copy of the znode."""
        other = DataNode.__new__(DataNode)
        for name in DataNode.__slots__:
            setattr(other, name, getattr(self, name))
        if self.children is not None:
            other.children = set(self.children)
        return other

    def stat(self) -> Stat:
        """Return the znode's stat; its ``cversion`` counts creations and deletions of children."""
        count = len(self.children) if self.children else 0
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            2 * self.creations - count,
            0,
            self.owner,
            len(self.data) if self.data is not None else 0,
            count,
            self.pzxid,
        )


class TreeChange(NamedTuple):
    """Change to one znode: its creation, its deletion, or a change to its data."""

    kind: WatchKind
    path: str


class _Context(NamedTuple):
    session_id: int
    zxid: int
    now_ms: int
    changes: list[TreeChange]
    undo: list[tuple[Any, ...]] | None


def split(path: str) -> tuple[str, str]:
    """Split a path into the parent's path and the znode's name."""
    slash = path.rindex("/")
    return path[:slash] or "/", path[slash + 1 :]


def is_valid(path: str) -> bool:
    """Return True if the path is valid according to org.apache.zookeeper.common.PathUtils."""
    if not path.startswith("/"):
        return False
    if path == "/":
        return True
    if path.endswith("/") or "//" in path or "\0" in path:
        return False
    if "/." in path and any(name in (".", "..") for name in path.split("/")):
        return False
    return path.isprintable() or not any(_is_forbidden(char) for char in path)


def _is_forbidden(char: str) -> bool:
    return (
        char <= "\x1f"
        or "\x7f" <= char <= "\x9f"
        or "\ud800" <= char <= "\uf8ff"
        or "\ufff0" <= char <= "\uffff"
    )


class DataTree:
    """In-memory tree of znodes. ``ephemerals``: the ephemeral znodes of each session."""

    def __init__(self) -> None:
        self.nodes: dict[str, DataNode] = {"/": DataNode(b"", 0, 0, _NOT_EPHEMERAL)}
        self.ephemerals: dict[int, dict[str, None]] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> DataTree:
        other = DataTree.__new__(DataTree)
        other.nodes = {path: node.copy() for path, node in self.nodes.items()}
        other.ephemerals = {owner: dict(paths) for owner, paths in self.ephemerals.items()}
        return other

    def items(self) -> Iterator[tuple[str, DataNode]]:
        """Return all (path, znode) pairs, sorted by path."""
        return ((path, self.nodes[path]) for path in sorted(self.nodes))

    def apply(
        self, transaction: Transaction, session_id: int, zxid: int, now_ms: int
    ) -> tuple[TxnResult, list[TreeChange]]:
        """Apply a transaction atomically. Each operation sees the effects of earlier operations.

        If an operation fails, nothing is changed. As in ZooKeeper, the operations before the failed
        operation then have the result OK, and those after it RUNTIMEINCONSISTENCY.
        """
        changes: list[TreeChange] = []
        undo: list[tuple[Any, ...]] | None = [] if len(transaction) > 1 else None
        context = _Context(session_id, zxid, now_ms, changes, undo)
        results: list[OpResult] = []
        for index, op in enumerate(transaction):
            result = _APPLY[type(op)](self, op, context)
            if result.code is not _OK:
                self._roll_back(undo)
                return _failed(result.code, index, len(transaction)), []
            results.append(result)
        return TxnResult(_OK, results, -1, zxid), changes

    def remove_ephemerals(self, session_id: int, zxid: int) -> list[TreeChange]:
        """Delete the ephemeral znodes of a session that has ended."""
        changes: list[TreeChange] = []
        context = _Context(session_id, zxid, 0, changes, None)
        for path in list(self.ephemerals.get(session_id, ())):
            self._delete(Delete(path), context)
        return changes

    def _create(self, op: WriteOp, context: _Context) -> OpResult:
        assert isinstance(op, Create)
        path = op.path
        if path.rfind("/") < 0:
            return OpResult(ResultCode.BADARGUMENTS)
        parent_path, name = split(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return OpResult(ResultCode.NONODE)
        if op.sequential:
            number = f"{parent.creations:010d}"
            path, name = path + number, name + number
        if not is_valid(path):
            return OpResult(ResultCode.BADARGUMENTS)
        if path in self.nodes:
            return OpResult(ResultCode.NODEEXISTS)
        if parent.owner:
            return OpResult(ResultCode.NOCHILDRENFOREPHEMERALS)
        zxid = context.zxid
        if context.undo is not None:
            context.undo.append((_Undo.create, path, parent, name, parent.pzxid))
        owner = context.session_id if op.ephemeral else _NOT_EPHEMERAL
        self.nodes[path] = DataNode(op.data, zxid, context.now_ms, owner)
        if owner:
            self.ephemerals.setdefault(owner, {})[path] = None
        if parent.children is None:
            parent.children = {name}
        else:
            parent.children.add(name)
        parent.creations += 1
        parent.pzxid = zxid
        context.changes.append(TreeChange(WatchKind.CREATED, path))
        return OpResult(_OK, path, 0, zxid)

    def _set_data(self, op: WriteOp, context: _Context) -> OpResult:
        assert isinstance(op, SetData)
        node = self.nodes.get(op.path)
        if node is None:
            return OpResult(ResultCode.NONODE)
        if op.version != ANY_VERSION and op.version != node.version:
            return OpResult(ResultCode.BADVERSION)
        if context.undo is not None:
            context.undo.append((_Undo.set_data, node, node.data, node.mzxid, node.mtime_ms))
        node.data = op.data
        node.mzxid = context.zxid
        node.mtime_ms = context.now_ms
        node.version += 1
        context.changes.append(TreeChange(WatchKind.DATA_CHANGED, op.path))
        return OpResult(_OK, op.path, node.version, node.czxid)

    def _delete(self, op: WriteOp, context: _Context) -> OpResult:
        assert isinstance(op, Delete)
        path = op.path
        if path == "/" or "/" not in path:
            return OpResult(ResultCode.BADARGUMENTS)
        node = self.nodes.get(path)
        if node is None:
            return OpResult(ResultCode.NONODE)
        if op.version != ANY_VERSION and op.version != node.version:
            return OpResult(ResultCode.BADVERSION)
        if node.children:
            return OpResult(ResultCode.NOTEMPTY)
        parent_path, name = split(path)
        parent = self.nodes[parent_path]
        if context.undo is not None:
            context.undo.append((_Undo.delete, path, node, parent, name, parent.pzxid))
        assert parent.children is not None
        parent.children.remove(name)
        parent.pzxid = context.zxid
        del self.nodes[path]
        if node.owner:
            self._forget_ephemeral(node.owner, path)
        context.changes.append(TreeChange(WatchKind.DELETED, path))
        return OpResult(_OK, path)

    def _check(self, op: WriteOp, context: _Context) -> OpResult:
        assert isinstance(op, Check)
        node = self.nodes.get(op.path)
        if node is None:
            return OpResult(ResultCode.NONODE)
        if op.version != ANY_VERSION and op.version != node.version:
            return OpResult(ResultCode.BADVERSION)
        return OpResult(_OK, op.path)

    def _forget_ephemeral(self, owner: int, path: str) -> None:
        paths = self.ephemerals[owner]
        del paths[path]
        if not paths:
            del self.ephemerals[owner]

    def _roll_back(self, undo: list[tuple[Any, ...]] | None) -> None:
        for step in reversed(undo or ()):
            step[0](self, *step[1:])


class _Undo:
    """Functions for rolling back a failed transaction; each function undoes one change."""

    @staticmethod
    def create(tree: DataTree, path: str, parent: DataNode, name: str, pzxid: int) -> None:
        node = tree.nodes.pop(path)
        if node.owner:
            tree._forget_ephemeral(node.owner, path)
        assert parent.children is not None
        parent.children.remove(name)
        parent.creations -= 1
        parent.pzxid = pzxid

    @staticmethod
    def set_data(
        tree: DataTree, node: DataNode, data: bytes | None, mzxid: int, mtime_ms: int
    ) -> None:
        node.data, node.mzxid, node.mtime_ms = data, mzxid, mtime_ms
        node.version -= 1

    @staticmethod
    def delete(
        tree: DataTree, path: str, node: DataNode, parent: DataNode, name: str, pzxid: int
    ) -> None:
        tree.nodes[path] = node
        if node.owner:
            tree.ephemerals.setdefault(node.owner, {})[path] = None
        assert parent.children is not None
        parent.children.add(name)
        parent.pzxid = pzxid


def _failed(code: ResultCode, index: int, count: int) -> TxnResult:
    results = [OpResult(_OK)] * index + [OpResult(code)]
    results += [OpResult(ResultCode.RUNTIMEINCONSISTENCY)] * (count - index - 1)
    return TxnResult(code, results, index, 0)


_APPLY: Final = {
    Create: DataTree._create,
    SetData: DataTree._set_data,
    Delete: DataTree._delete,
    Check: DataTree._check,
}
