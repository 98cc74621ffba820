"""Store: a narrow protocol over a ZooKeeper session, with pipelined batches of operations.

``read`` and ``write`` take a batch of operations and block until all have results; the requests are
pipelined. Paths are relative to the session's chroot. Mirrors kafka.zookeeper.ZooKeeperClient,
without recursive helpers, retries of writes, and decoding.

The store repeats a read until the session is connected again. A write that lost its reply returns
CONNECTIONLOSS when the session is connected again, and the caller must find out whether it took
effect. After the session has expired every result is SESSIONEXPIRED until ``reopen``.
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
        """False if the server did not answer: the operation may have taken effect."""
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
    """Read a znode's data and stat; ``watch`` arms a data watch (an exist watch if absent)."""

    path: str
    watch: bool = False


class GetChildren(msgspec.Struct, frozen=True, gc=False):
    """List a znode's children; ``watch`` arms a child watch if the znode exists."""

    path: str
    watch: bool = False


class Exists(msgspec.Struct, frozen=True, gc=False):
    """Read a znode's stat; ``watch`` arms a data watch, or an exist watch if it is absent."""

    path: str
    watch: bool = False


ReadOp = GetData | GetChildren | Exists


class ReadResult(msgspec.Struct, gc=False):
    """Result of one ReadOp: a code and, if it is OK, the values. ``data`` None: null data."""

    code: ResultCode
    data: bytes | None = None
    stat: Stat | None = None
    children: list[str] | None = None


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create a znode; a sequential one gets a number of ten digits appended to its path."""

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
    """Result of one operation of a transaction, with the path and stat of its znode.

    ``version``: data version of the znode after a Create (0) or SetData.
    """

    code: ResultCode
    path: str | None = None
    version: int = 0
    czxid: int = 0


class TxnResult(msgspec.Struct, gc=False):
    """Outcome of one transaction, which is atomic.

    ``failed_index``: the first operation that failed (-1: none, or the whole request failed).
    ``results``: one per operation, empty if the whole request failed. ``zxid``: 0 if not written.
    """

    code: ResultCode
    results: list[OpResult]
    failed_index: int = -1
    zxid: int = 0


class WatchKind(Enum):
    """Type of change that fired a watch."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchEvent(msgspec.Struct, frozen=True):
    """A fired one-shot watch. One change of a znode is one event, even with several watches."""

    kind: WatchKind
    path: str


class SessionState(Enum):
    """State of a session."""

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
        """Id of the current session, 0 before the first connection."""
        ...

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads; return one result per operation, in order."""
        ...

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Execute a batch of transactions in order; return one result per transaction.

        A transaction may consist of a single operation.
        """
        ...

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` for every event, from the store's own thread: it may only enqueue."""
        ...

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        ...

    def reopen(self) -> None:
        """Open a new session after the old one expired; watches of the old one are lost."""
        ...

    def close(self) -> None:
        """End the session; its ephemeral znodes are deleted at once."""
        ...

    def abandon(self) -> None:
        """Drop the connection like a killed process: the session lives until it times out."""
        ...
