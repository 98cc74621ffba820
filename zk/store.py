"""Store: a small interface to a ZooKeeper session, with pipelined batches of operations.

``read`` and ``write`` send a batch of operations as pipelined requests, and block until all
operations have results. Paths are relative to the session's chroot. Mirrors
kafka.zookeeper.ZooKeeperClient, but has no recursive helpers, retries of writes, or decoding.

After a lost connection, reads are sent again when the session is reconnected. A write whose reply
was lost returns CONNECTIONLOSS once the session is reconnected, and the caller must find out
whether the write took effect. After the session has expired, every result is SESSIONEXPIRED until
``reopen`` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Final, NamedTuple, Protocol

import msgspec

ANY_VERSION: Final = -1


class ResultCode(IntEnum):
    """ZooKeeper's result codes (org.apache.zookeeper.KeeperException.Code)."""

    OK = 0
    SYSTEMERROR = -1
    RUNTIMEINCONSISTENCY = -2
    CONNECTIONLOSS = -4
    MARSHALLINGERROR = -5
    OPERATIONTIMEOUT = -7
    BADARGUMENTS = -8
    NONODE = -101
    NOAUTH = -102
    BADVERSION = -103
    NOCHILDRENFOREPHEMERALS = -108
    NODEEXISTS = -110
    NOTEMPTY = -111
    SESSIONEXPIRED = -112
    INVALIDACL = -114
    AUTHFAILED = -115

    @property
    def is_definite(self) -> bool:
        """False if the outcome of the operation is unknown, because the server did not respond."""
        unanswered = (
            ResultCode.CONNECTIONLOSS,
            ResultCode.OPERATIONTIMEOUT,
            ResultCode.SESSIONEXPIRED,
        )
        return self not in unanswered


class Stat(NamedTuple):
    """Stat of a znode, with the fields in ZooKeeper's order."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class GetData(msgspec.Struct, frozen=True, gc=False):
    """Read a znode's data and stat. ``watch``: also set a data watch.

    If the znode is missing, an exist watch is set instead."""

    path: str
    watch: bool = False


class GetChildren(msgspec.Struct, frozen=True, gc=False):
    """List a znode's children. ``watch``: also set a child watch if the znode exists."""

    path: str
    watch: bool = False


class Exists(msgspec.Struct, frozen=True, gc=False):
    """Read a znode's stat. ``watch``: also set a data watch.

    If the znode is missing, an exist watch is set instead."""

    path: str
    watch: bool = False


ReadOp = GetData | GetChildren | Exists


class ReadResult(msgspec.Struct, gc=False):
    """Result of one ReadOp. Unless ``code`` is OK, only ``code`` is set.

    ``data`` is None if the znode has null data.
    """

    code: ResultCode
    data: bytes | None = None
    stat: Stat | None = None
    children: list[str] | None = None


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create a znode. If it is sequential, ZooKeeper appends a ten-digit number to the path."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False


class SetData(msgspec.Struct, frozen=True, gc=False):
    """Replace a znode's data if the znode has version ``version``; -1 matches any version."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete a childless znode if it has version ``version``; -1 matches any version."""

    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True, gc=False):
    """Make the transaction fail unless the znode has version ``version``."""

    path: str
    version: int


WriteOp = Create | SetData | Delete | Check
Transaction = Sequence[WriteOp]


class OpResult(msgspec.Struct, gc=False):
    """Result of one operation of a transaction, with the path and stat of the znode.

    ``version`` is the data version of the znode after a SetData, or 0 after a Create.
    """

    code: ResultCode
    path: str | None = None
    version: int = 0
    czxid: int = 0


class TxnResult(msgspec.Struct, gc=False):
    """Outcome of one transaction, which is atomic.

    - ``failed_index``: index of the first failed operation, or -1 if none failed or the request
      failed as a whole.
    - ``results``: one result per operation; empty if the request failed as a whole.
    - ``zxid``: the transaction's zxid, or 0 if nothing was written.
    """

    code: ResultCode
    results: list[OpResult]
    failed_index: int = -1
    zxid: int = 0


class WatchKind(Enum):
    """The kind of change that fired a watch."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchEvent(msgspec.Struct, frozen=True):
    """A one-shot watch fired. A session gets one event per change, even with several watches."""

    kind: WatchKind
    path: str


class SessionState(Enum):
    """State of a ZooKeeper session."""

    CONNECTED = 1
    DISCONNECTED = 2
    EXPIRED = 3
    AUTH_FAILED = 4


class SessionEvent(msgspec.Struct, frozen=True):
    """The state of the ZooKeeper session changed."""

    state: SessionState


StoreEvent = WatchEvent | SessionEvent
StoreListener = Callable[[StoreEvent], None]


class Store(Protocol):
    """Protocol for reading and writing znodes in one ZooKeeper session."""

    @property
    def session_id(self) -> int:
        """Id of the current session, or 0 before the first connection."""
        ...

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads, and return one result per operation, in order."""
        ...

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Execute a batch of transactions in order, and return one result per transaction.

        A transaction may consist of a single operation.
        """
        ...

    def add_listener(self, listener: StoreListener) -> None:
        """Call ``listener`` on the store's thread for every event.

        The listener must only enqueue work.
        """
        ...

    def remove_listener(self, listener: StoreListener) -> None:
        """Stop calling ``listener``."""
        ...

    def reopen(self) -> None:
        """Open a new session after the old session expired. Watches of the old session are lost."""
        ...

    def close(self) -> None:
        """End the session. ZooKeeper immediately deletes the session's ephemeral znodes."""
        ...

    def abandon(self) -> None:
        """Drop the connection as if the process had been killed: the session expires later."""
        ...
