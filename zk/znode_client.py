"""Reading and writing single znodes through a Store, with errors and resolved lost replies.

Unexpected result codes become errors. If the reply to a write was lost, its outcome is resolved.
The contents of znodes are not interpreted. Mirrors the general part of kafka.zk.KafkaZkClient.
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
    "the identity that created it"
)
_PERHAPS_CREATED: Final = (ResultCode.OK, ResultCode.NODEEXISTS, ResultCode.CONNECTIONLOSS)


class NodeExists(StoreError):
    """A znode to create already exists, and this client did not create it."""


def reason(code: ResultCode, path: str) -> str:
    """Return the text of ZooKeeper's KeeperException: ``KeeperErrorCode = NoNode for /a``."""
    return f"KeeperErrorCode = {_TEXTS.get(code, code.name)} for {path}"


def store_error(code: ResultCode, path: str) -> StoreError:
    """Return the error for an unexpected result code."""
    kind = {ResultCode.SESSIONEXPIRED: SessionExpired, ResultCode.NODEEXISTS: NodeExists}
    return kind.get(code, StoreError)(
        reason(code, path),
        hint=_IDENTITY_HINT if code is ResultCode.NOAUTH else None,
        definite=code.is_definite,
        retriable=not code.is_definite,
    )


def missing_chroot(path: str) -> StoreError:
    """Return the error for a chroot that does not exist."""
    return StoreError(
        f"the chroot {path} does not exist",
        hint="klamm zk dump --zookeeper HOST:PORT, without a chroot, shows all znodes",
    )


def parent_path(path: str) -> str:
    """Return the path of the parent; "/" for a top-level znode."""
    return path[: path.rindex("/")] or "/"


class ZNodeClient:
    """Reads and unfenced writes. All methods raise SessionExpired after the session expired."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads, each OK or NONODE. Raises StoreError for other codes."""
        results = self.store.read(ops)
        for op, result in zip(ops, results, strict=True):
            if result.code is not ResultCode.OK and result.code is not ResultCode.NONODE:
                raise store_error(result.code, op.path)
        return results

    def get_data_and_stat(self, path: str, watch: bool = False) -> tuple[bytes | None, Stat] | None:
        """Return (data, stat) of a znode; None if it does not exist."""
        result = self.read([GetData(path, watch)])[0]
        return None if result.stat is None else (result.data, result.stat)

    def get_children(self, path: str, watch: bool = False) -> list[str]:
        """Return the names of the children, sorted; empty if the znode does not exist."""
        return sorted(self.read([GetChildren(path, watch)])[0].children or ())

    def path_exists(self, path: str, watch: bool = False) -> bool:
        """Return True if the znode exists; ``watch`` also arms a data or exist watch."""
        return self.paths_exist([path], watch)[0]

    def paths_exist(self, paths: Sequence[str], watch: bool = False) -> list[bool]:
        """Return whether each znode exists; ``watch`` also arms a data or exist watch of each."""
        results = self.read([Exists(path, watch) for path in paths])
        return [result.code is ResultCode.OK for result in results]

    def create(self, path: str, data: bytes | None = None) -> bool:
        """Create a persistent znode; return False if it exists. Raises StoreError, e.g. NONODE."""
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
        """Create a znode and its missing parents, with null data; return False if it exists."""
        result, lost = self._write(Create(path, data))
        if result.code is ResultCode.NONODE:
            self.create_recursive(parent_path(path))
            return self.create(path, data)
        return self._is_created(path, data, result, lost)

    def create_sequential(self, path: str, data: bytes | None) -> str:
        """Create a sequential znode; return its path. After a lost reply there may be two."""
        result, _ = self._write(Create(path, data, sequential=True))
        if result.code is not ResultCode.OK or result.path is None:
            raise store_error(result.code, path)
        return result.path

    def make_sure_persistent_paths_exist(self, paths: Sequence[str]) -> None:
        """Create the missing ones of ``paths`` and of their parents, with null data."""
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
        """Overwrite the data; return the new version, or None if the znode does not exist."""
        result, _ = self._write(SetData(path, data))
        if result.code is ResultCode.OK:
            return result.version
        if result.code is ResultCode.NONODE:
            return None
        raise store_error(result.code, path)

    def conditional_update_path(self, path: str, data: bytes, version: int) -> bool:
        """Replace the data if the znode has this version; return False if not, or if missing.

        After a lost reply the write counts as done if the znode contains ``data``, so other clients
        must not write the same data.
        """
        result, lost = self._write(SetData(path, data, version))
        if result.code is ResultCode.OK:
            return True
        if result.code not in (ResultCode.BADVERSION, ResultCode.NONODE):
            raise store_error(result.code, path)
        return lost and self._holds(path, data)

    def set_or_create(self, path: str, data: bytes | None) -> None:
        """Set the data, or create the znode and its missing parents; the last writer wins."""
        if self.set_data(path, data) is None and not self.create_recursive(path, data):
            self.set_data(path, data)

    def delete(self, path: str, version: int = ANY_VERSION) -> bool:
        """Delete a znode; return False if missing. Raises StoreError for NOTEMPTY, BADVERSION."""
        result, lost = self._write(Delete(path, version))
        if result.code is ResultCode.NONODE:
            return lost
        if result.code is ResultCode.OK:
            return True
        raise store_error(result.code, path)

    def delete_recursive(self, path: str) -> bool:
        """Delete a znode and all below it; return False if it does not exist."""
        result = self.read([GetChildren(path)])[0]
        if result.children is None:
            return False
        for child in result.children:
            self.delete_recursive(f"{path}/{child}")
        self.delete(path)
        return True

    def _write(self, op: WriteOp) -> tuple[OpResult, bool]:
        """Repeat a write until it has a reply; return the result and whether a reply was lost."""
        lost = False
        while True:
            result = self.store.write([[op]])[0]
            if result.code is ResultCode.SESSIONEXPIRED:
                raise store_error(result.code, op.path)
            if result.code is not ResultCode.CONNECTIONLOSS:
                return (result.results[0] if result.results else OpResult(result.code)), lost
            lost = True
