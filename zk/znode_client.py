"""Client for reading and writing single znodes through a Store.

Unexpected result codes are raised as errors. If the reply to a write was lost, the client finds out
whether the write took effect. The contents of znodes are not interpreted. Mirrors the general part
of kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.cluster.errors import SessionExpired, StoreError
from klamm.zk.store import (
    ANY_VERSION,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    OpResult,
    ReadOp,
    ReadResult,
    ResultCode,
    SetData,
    Stat,
    Store,
    WriteOp,
)

_TEXTS: Final = {
    ResultCode.NONODE: "NoNode",
    ResultCode.NODEEXISTS: "NodeExists",
    ResultCode.BADVERSION: "BadVersion",
    ResultCode.NOTEMPTY: "Directory not empty",
    ResultCode.CONNECTIONLOSS: "ConnectionLoss",
    ResultCode.MARSHALLINGERROR: "MarshallingError (the write is too big)",
    ResultCode.SESSIONEXPIRED: "Session expired",
    ResultCode.NOCHILDRENFOREPHEMERALS: "NoChildrenForEphemerals",
    ResultCode.BADARGUMENTS: "BadArguments",
    ResultCode.NOAUTH: "NoAuth",
    ResultCode.INVALIDACL: "InvalidACL",
    ResultCode.AUTHFAILED: "AuthFailed",
    ResultCode.RUNTIMEINCONSISTENCY: "RuntimeInconsistency",
}
_IDENTITY_HINT: Final = (
    "the znode is protected: set KLAMM_ZK_DIGEST, or KLAMM_ZK_TLS_CERT and KLAMM_ZK_TLS_KEY, to "
    "credentials that its ACL accepts"
)
_PERHAPS_CREATED: Final = (ResultCode.OK, ResultCode.NODEEXISTS, ResultCode.CONNECTIONLOSS)


class NodeExists(StoreError):
    """The znode to create already exists, and not because of a write whose reply was lost."""


def keeper_text(code: ResultCode, path: str) -> str:
    """Return the text of ZooKeeper's KeeperException, e.g. ``KeeperErrorCode = NoNode for /a``."""
    return f"KeeperErrorCode = {_TEXTS.get(code, code.name)} for {path}"


def store_error(code: ResultCode, path: str) -> StoreError:
    """Return the error for an unexpected result code."""
    kind = {ResultCode.SESSIONEXPIRED: SessionExpired, ResultCode.NODEEXISTS: NodeExists}
    return kind.get(code, StoreError)(
        keeper_text(code, path),
        hint=_IDENTITY_HINT if code is ResultCode.NOAUTH else None,
        definite=code.is_definite,
        retriable=not code.is_definite,
    )


def missing_chroot(path: str) -> StoreError:
    """Return the error for a chroot that does not exist."""
    return StoreError(
        f"the chroot {path} does not exist",
        hint="klamm zk dump --zookeeper HOST:PORT, without a chroot, prints all znodes",
    )


def parent_path(path: str) -> str:
    """Return the path of a znode's parent, which is "/" for a top-level znode."""
    return path[: path.rindex("/")] or "/"


class ZNodeClient:
    """Client for reads and unfenced writes of znodes.

    All methods raise SessionExpired after the session has expired.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads. Raises StoreError for result codes other than OK and NONODE."""
        results = self.store.read(ops)
        for op, result in zip(ops, results, strict=True):
            if result.code is not ResultCode.OK and result.code is not ResultCode.NONODE:
                raise store_error(result.code, op.path)
        return results

    def get_data_and_stat(self, path: str, watch: bool = False) -> tuple[bytes | None, Stat] | None:
        """Return (data, stat) of a znode, or None if the znode does not exist."""
        result = self.read([GetData(path, watch)])[0]
        return None if result.stat is None else (result.data, result.stat)

    def get_children(self, path: str, watch: bool = False) -> list[str]:
        """Return the sorted names of the children. The list is empty if the znode is missing."""
        return sorted(self.read([GetChildren(path, watch)])[0].children or ())

    def path_exists(self, path: str, watch: bool = False) -> bool:
        """Return True if the znode exists. ``watch`` sets a data or exist watch."""
        return self.paths_exist([path], watch)[0]

    def paths_exist(self, paths: Sequence[str], watch: bool = False) -> list[bool]:
        """Return for each path whether the znode exists. ``watch`` sets a data or exist watch."""
        results = self.read([Exists(path, watch) for path in paths])
        return [result.code is ResultCode.OK for result in results]

    def create(self, path: str, data: bytes | None = None) -> bool:
        """Create a persistent znode. Return False if the znode already exists.

        Raises StoreError for other failures, e.g. if the parent does not exist (NONODE).
        """
        return self._is_created(path, data, *self._write(Create(path, data)))

    def _is_created(self, path: str, data: bytes | None, result: OpResult, lost: bool) -> bool:
        if result.code is ResultCode.OK:
            return True
        if result.code is not ResultCode.NODEEXISTS:
            raise store_error(result.code, path)
        return lost and self._holds(path, data)

    def _holds(self, path: str, data: bytes | None) -> bool:
        found = self.get_data_and_stat(path)
        return found is not None and found[0] == data

    def create_recursive(self, path: str, data: bytes | None = None) -> bool:
        """Create a znode, and missing parents with null data. Return False if the znode exists."""
        result, lost = self._write(Create(path, data))
        if result.code is ResultCode.NONODE:
            self.create_recursive(parent_path(path))
            return self.create(path, data)
        return self._is_created(path, data, result, lost)

    def create_sequential(self, path: str, data: bytes | None) -> str:
        """Create a sequential znode, and return its path.

        If the reply is lost, the write is repeated, so that two znodes may have been created.
        """
        result, _ = self._write(Create(path, data, sequential=True))
        if result.code is not ResultCode.OK or result.path is None:
            raise store_error(result.code, path)
        return result.path

    def make_sure_persistent_paths_exist(self, paths: Sequence[str]) -> None:
        """Create znodes and their parents, with null data, unless they already exist."""
        wanted: dict[str, None] = {}
        for path in paths:
            names = path.split("/")
            wanted.update(dict.fromkeys("/".join(names[:n]) for n in range(2, len(names) + 1)))
        absent = list(wanted)
        while absent:
            there = self.paths_exist(absent)
            absent = [path for path, exists in zip(absent, there, strict=True) if not exists]
            results = self.store.write([[Create(path, None)] for path in absent])
            for path, result in zip(absent, results, strict=True):
                if result.code not in _PERHAPS_CREATED:
                    raise store_error(result.code, path)
            absent = [
                path
                for path, result in zip(absent, results, strict=True)
                if result.code is ResultCode.CONNECTIONLOSS
            ]

    def set_data(self, path: str, data: bytes | None) -> int | None:
        """Overwrite a znode's data. Return the new version, or None if the znode is missing."""
        result, _ = self._write(SetData(path, data))
        if result.code is ResultCode.OK:
            return result.version
        if result.code is ResultCode.NONODE:
            return None
        raise store_error(result.code, path)

    def conditional_update_path(self, path: str, data: bytes, version: int) -> bool:
        """Replace a znode's data if the znode has version ``version``.

        Return False if the znode has another version or does not exist. If the reply was lost and
        the znode contains ``data``, return True; so other clients must not write the same data.
        """
        result, lost = self._write(SetData(path, data, version))
        if result.code is ResultCode.OK:
            return True
        if result.code not in (ResultCode.BADVERSION, ResultCode.NONODE):
            raise store_error(result.code, path)
        return lost and self._holds(path, data)

    def set_or_create(self, path: str, data: bytes | None) -> None:
        """Set a znode's data, or create the znode and missing parents. Versions are not checked."""
        if self.set_data(path, data) is None and not self.create_recursive(path, data):
            self.set_data(path, data)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode if it exists.

        Raises StoreError if the znode has children (NOTEMPTY) or another version (BADVERSION).
        """
        result, _ = self._write(Delete(path, version))
        if result.code not in (ResultCode.OK, ResultCode.NONODE):
            raise store_error(result.code, path)

    def delete_recursive(self, path: str) -> None:
        """Delete a znode, if it exists, and everything below it."""
        for child in self.get_children(path):
            self.delete_recursive(f"{path}/{child}")
        self.delete(path)

    def _write(self, op: WriteOp) -> tuple[OpResult, bool]:
        """Repeat a write until a reply arrives. Return its result, and whether a reply was lost."""
        lost = False
        while True:
            result = self.store.write([[op]])[0]
            if result.code is ResultCode.SESSIONEXPIRED:
                raise store_error(result.code, op.path)
            if result.code is not ResultCode.CONNECTIONLOSS:
                return (result.results[0] if result.results else OpResult(result.code)), lost
            lost = True
