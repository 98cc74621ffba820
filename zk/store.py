"""The Store: one narrow protocol over a ZooKeeper session, in whole waves.

``read`` and ``write`` take a wave of operations, are synchronous to the caller and pipelined
inside. Paths are relative to the session's chroot. Mirrors what kafka.zookeeper.ZooKeeperClient
offers, and states what it leaves out: no recursive helpers, no retries of writes, no decoding.

A read is repeated by the store until the session is connected again. A write whose reply was lost
comes back as CONNECTIONLOSS once the session is connected again: whether it took place is for the
caller to find out. After the session has expired every result is SESSIONEXPIRED until ``reopen``.
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
        """False if the server said nothing about the operation: it may have taken place."""
        unanswered = (
            ResultCode.CONNECTIONLOSS,
            ResultCode.OPERATIONTIMEOUT,
            ResultCode.SESSIONEXPIRED,
        )
        return self not in unanswered


class Stat(NamedTuple):
    """A znode's stat, in ZooKeeper's order of fields."""

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
    """Read a znode's data and stat; ``watch`` arms a data watch (an exist watch if absent)."""

    path: str
    watch: bool = False


class GetChildren(msgspec.Struct, frozen=True, gc=False):
    """List a znode's children; ``watch`` arms a child watch if the znode is there."""

    path: str
    watch: bool = False


class Exists(msgspec.Struct, frozen=True, gc=False):
    """Read a znode's stat; ``watch`` arms a data watch, or an exist watch if it is absent."""

    path: str
    watch: bool = False


ReadOp = GetData | GetChildren | Exists


class ReadResult(msgspec.Struct, gc=False):
    """Answer to one ReadOp: a code, and for OK what was asked. ``data`` None is a null znode."""

    code: ResultCode
    data: bytes | None = None
    stat: Stat | None = None
    children: list[str] | None = None


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create a znode; a sequential one gets ten digits behind its path."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False


class SetData(msgspec.Struct, frozen=True, gc=False):
    """Replace a znode's data if its version is ``version`` (-1: any)."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete a znode that has no children, if its version is ``version`` (-1: any)."""

    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True, gc=False):
    """Fail the transaction unless the znode's version is ``version``."""

    path: str
    version: int


WriteOp = Create | SetData | Delete | Check
Transaction = Sequence[WriteOp]


class OpResult(msgspec.Struct, gc=False):
    """What one operation of a transaction did: the path it created, the stat it left behind.

    ``version`` is the znode's data version after a Create (0) or SetData.
    """

    code: ResultCode
    path: str | None = None
    version: int = 0
    czxid: int = 0


class TxnResult(msgspec.Struct, gc=False):
    """Outcome of one transaction, all or nothing.

    ``failed_index`` is the first operation that failed (-1: none, or the whole request failed);
    ``results`` are per operation, empty when the whole request failed; ``zxid`` 0 if not written.
    """

    code: ResultCode
    results: list[OpResult]
    failed_index: int = -1
    zxid: int = 0


class WatchKind(Enum):
    """What a watch saw."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchEvent(msgspec.Struct, frozen=True):
    """A one-shot watch fired. One change of a znode is one event, whichever watches it had."""

    kind: WatchKind
    path: str


class SessionState(Enum):
    """What happened to the session."""

    CONNECTED = 1
    DISCONNECTED = 2
    EXPIRED = 3
    AUTH_FAILED = 4


class SessionEvent(msgspec.Struct, frozen=True):
    """The session's state changed."""

    state: SessionState


StoreEvent = WatchEvent | SessionEvent
Listener = Callable[[StoreEvent], None]


class Store(Protocol):
    """One ZooKeeper session."""

    @property
    def session_id(self) -> int:
        """The id of the current session, 0 before the first connection."""
        ...

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Do a wave of reads; one result per operation, in order."""
        ...

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Do a wave of transactions in order; one result each. A single operation is one too."""
        ...

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` for every event, from the store's own thread: it may only enqueue."""
        ...

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        ...

    def reopen(self) -> None:
        """Begin a new session after the old one expired. Watches of the old one are gone."""
        ...

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        ...

    def abandon(self) -> None:
        """Drop the connection as a killed process does: the session lives until it times out."""
        ...
