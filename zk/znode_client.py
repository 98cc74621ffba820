"""Reading and writing single znodes by a Store: what a caller means, made safe to repeat.

It gives back values, turns unexpected result codes into errors, and settles a write whose reply
was lost. It must not know what a znode holds. Mirrors the general part of kafka.zk.KafkaZkClient.
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
    """A znode that was to be created is there already, and it is not ours."""


def reason(code: ResultCode, path: str) -> str:
    """What ZooKeeper's KeeperException says, e.g. ``KeeperErrorCode = NoNode for /a``."""
    return f"KeeperErrorCode = {_TEXTS.get(code, code.name)} for {path}"


def store_error(code: ResultCode, path: str) -> StoreError:
    """The error for an unexpected result code."""
    kind = {ResultCode.SESSIONEXPIRED: SessionExpired, ResultCode.NODEEXISTS: NodeExists}
    return kind.get(code, StoreError)(
        reason(code, path),
        hint=_IDENTITY_HINT if code is ResultCode.NOAUTH else None,
        definite=code.is_definite,
        retriable=not code.is_definite,
    )


def missing_chroot(path: str) -> StoreError:
    """The error for a chroot that does not exist."""
    return StoreError(
        f"the chroot {path} does not exist",
        hint="klamm zk dump --zookeeper HOST:PORT, without a chroot, shows all znodes",
    )


def parent_path(path: str) -> str:
    """The path of the znode above; "/" for a znode at the top."""
    return path[: path.rindex("/")] or "/"


class ZNodeClient:
    """Reads and unfenced writes. Every method raises SessionExpired once the session is gone."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """A wave of reads, each OK or NONODE. Raises StoreError for any other code."""
        results = self.store.read(ops)
        for op, result in zip(ops, results, strict=True):
            if result.code is not ResultCode.OK and result.code is not ResultCode.NONODE:
                raise store_error(result.code, op.path)
        return results

    def get_data_and_stat(self, path: str, watch: bool = False) -> tuple[bytes | None, Stat] | None:
        """Data (None: null) and stat; None if the znode is absent."""
        result = self.read([GetData(path, watch)])[0]
        return None if result.stat is None else (result.data, result.stat)

    def get_children(self, path: str, watch: bool = False) -> list[str]:
        """Names of the children, sorted; none if the znode is absent."""
        return sorted(self.read([GetChildren(path, watch)])[0].children or ())

    def path_exists(self, path: str, watch: bool = False) -> bool:
        """True if the znode is there; with ``watch``, its change or creation will be told."""
        return self.paths_exist([path], watch)[0]

    def paths_exist(self, paths: Sequence[str], watch: bool = False) -> list[bool]:
        """Which znodes are there; with ``watch``, what happens to each will be told."""
        results = self.read([Exists(path, watch) for path in paths])
        return [result.code is ResultCode.OK for result in results]

    def create(self, path: str, data: bytes | None = None) -> bool:
        """Create a persistent znode; False if it is there. Raises StoreError, e.g. for NONODE."""
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
        """Create a znode, and with null data those above it; False if it is there."""
        result, lost = self._write(Create(path, data))
        if result.code is ResultCode.NONODE:
            self.create_recursive(parent_path(path))
            return self.create(path, data)
        return self._is_created(path, data, result, lost)

    def create_sequential(self, path: str, data: bytes | None) -> str:
        """Create a numbered znode and return its path; after a lost reply there may be two."""
        result, _ = self._write(Create(path, data, sequential=True))
        if result.code is not ResultCode.OK or result.path is None:
            raise store_error(result.code, path)
        return result.path

    def make_sure_persistent_paths_exist(self, paths: Sequence[str]) -> None:
        """Create what is absent of ``paths`` and above them, in this order, with null data."""
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
        """Replace the data, whatever its version; the new version, or None if it is absent."""
        result, _ = self._write(SetData(path, data))
        if result.code is ResultCode.OK:
            return result.version
        if result.code is ResultCode.NONODE:
            return None
        raise store_error(result.code, path)

    def conditional_update_path(self, path: str, data: bytes, version: int) -> bool:
        """Replace the data if it has this version; False if it has another, or is absent.

        After a lost reply it counts as replaced if it holds ``data``, so nobody else may write the
        same.
        """
        result, lost = self._write(SetData(path, data, version))
        if result.code is ResultCode.OK:
            return True
        if result.code not in (ResultCode.BADVERSION, ResultCode.NONODE):
            raise store_error(result.code, path)
        return lost and self._holds(path, data)

    def set_or_create(self, path: str, data: bytes | None) -> None:
        """Set the data, or create the znode and those above it; the last writer wins."""
        if self.set_data(path, data) is None and not self.create_recursive(path, data):
            self.set_data(path, data)

    def delete(self, path: str, version: int = ANY_VERSION) -> bool:
        """Delete a znode; False if it is absent. Raises StoreError for NOTEMPTY and BADVERSION."""
        result, lost = self._write(Delete(path, version))
        if result.code is ResultCode.NONODE:
            return lost
        if result.code is ResultCode.OK:
            return True
        raise store_error(result.code, path)

    def delete_recursive(self, path: str) -> bool:
        """Delete a znode and all below it; False if it is absent."""
        result = self.read([GetChildren(path)])[0]
        if result.children is None:
            return False
        for child in result.children:
            self.delete_recursive(f"{path}/{child}")
        self.delete(path)
        return True

    def _write(self, op: WriteOp) -> tuple[OpResult, bool]:
        """Write one operation until it has an answer; True if a reply was lost on the way."""
        lost = False
        while True:
            result = self.store.write([[op]])[0]
            if result.code is ResultCode.SESSIONEXPIRED:
                raise store_error(result.code, op.path)
            if result.code is not ResultCode.CONNECTIONLOSS:
                return (result.results[0] if result.results else OpResult(result.code)), lost
            lost = True
