"""Store implementation for a real ZooKeeper.

A batch of operations is combined into a few requests. KazooSession manages the connection, watches
and events. Writes are never sent twice. Mirrors kafka.zookeeper.ZooKeeperClient, which sends one
request per operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from klamm.zk.kazoo_pipeline import Wait, within
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_watches import set_watches, watch_for
from klamm.zk.kazoo_wire import Multi, MultiRead, SingleRead, ZooKeeperRequest, multi_reads
from klamm.zk.security import UNSECURED, ZooKeeperSecurity
from klamm.zk.store import (
    Exists,
    GetData,
    ReadOp,
    ReadResult,
    ResultCode,
    StoreListener,
    Transaction,
    TxnResult,
)

# Up to this many reads are faster as single requests, which arm their watches in one round trip.
_SINGLES_AT_MOST: Final = 2


class KazooStore:
    """Store that uses a KazooSession.

    Several stores may share a session; ``close`` ends the session for all of them. ``wait`` is the
    function with which every call waits for ZooKeeper's replies. The default is that of the
    session, which blocks the calling thread. Callers that run greenlets pass a function that lets
    other greenlets run.
    """

    def __init__(self, session: KazooSession, wait: Wait | None = None) -> None:
        self._session = session
        self._wait = wait or session.wait

    @property
    def session_id(self) -> int:
        """Id of the current session."""
        return self._session.session_id

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads. After a lost connection, the reads are sent again."""
        if len(ops) <= _SINGLES_AT_MOST or not self._probe():
            results = self._read_singly(ops)
            self._arm_where_absent(ops, results)
            return results
        # Taken before the reads are sent, so that no change between read and watch is missed.
        relative_zxid = self._session.last_zxid
        results = self._read_in_bulk(ops)
        self._arm(ops, results, relative_zxid)
        return results

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Execute a batch of transactions in order, each as one request.

        Raises OperationTooBig before anything is sent if a transaction exceeds ZooKeeper's maximum
        request size.
        """
        session = self._session
        requests = [
            Multi(ops, session.chroot, sets_acls=session.security.sets_acls) for ops in transactions
        ]
        session.run(requests, repeat=False, wait=self._wait)
        return [request.result() for request in requests]

    def add_listener(self, listener: StoreListener) -> None:
        """Call ``listener`` for every event of the session, on the connection's thread."""
        self._session.add_listener(listener)

    def remove_listener(self, listener: StoreListener) -> None:
        """Stop calling ``listener``."""
        self._session.remove_listener(listener)

    def reopen(self) -> None:
        """Open a new session if the old session has expired."""
        self._session.reopen(self._wait)

    def close(self) -> None:
        """End the session. ZooKeeper immediately deletes the session's ephemeral znodes."""
        self._session.close()

    def abandon(self) -> None:
        """Drop the connection as if the process had been killed: the session expires later."""
        self._session.abandon()

    def _probe(self) -> bool:
        """Return True if the server supports MultiRead.

        Afterwards, ``last_zxid`` comes from a reply in the current session. ZooKeeper before 3.6
        closes the connection when it receives a MultiRead, so only a single MultiRead is tried.
        """
        session = self._session
        if session.has_multi_read is None or not session.is_zxid_current:
            [request] = multi_reads([GetData("/")], session.chroot)
            session.run([request], repeat=True, wait=self._wait)
            if request.code is ResultCode.OK:
                session.has_multi_read = True
            elif request.code is ResultCode.MARSHALLINGERROR:
                session.has_multi_read = False
        return bool(session.has_multi_read)

    def _read_in_bulk(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        requests: list[MultiRead] = list(multi_reads(ops, self._session.chroot))
        self._session.run(requests, repeat=True, wait=self._wait)
        results: list[ReadResult] = []
        for request in requests:
            if request.reply is None:
                results += [ReadResult(_code(request)) for _ in range(request.count)]
            else:
                results += request.reply
        return results

    def _read_singly(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        session = self._session
        requests = [SingleRead(op, session.chroot, session.watches.read) for op in ops]
        session.run(requests, repeat=True, wait=self._wait)
        return [request.reply or ReadResult(_code(request)) for request in requests]

    def _arm(
        self, ops: Sequence[ReadOp], results: Sequence[ReadResult], relative_zxid: int
    ) -> None:
        wanted: dict[str, int] = {}
        for op, result in zip(ops, results, strict=True):
            if op.watch:
                watch = watch_for(op, result)
                if watch:
                    wanted[op.path] = wanted.get(op.path, 0) | watch
        session = self._session
        requests = list(set_watches(relative_zxid, wanted, session.chroot, session.watches))
        session.run(requests, repeat=True, wait=self._wait)

    def _arm_where_absent(self, ops: Sequence[ReadOp], results: Sequence[ReadResult]) -> None:
        """Set exist watches on znodes that a GetData with ``watch`` found missing.

        ZooKeeper sets no watch in that case. SetWatches needs no zxid here: an exist watch fires at
        once if the znode has been created in the meantime.
        """
        missed = [
            (op, result)
            for op, result in zip(ops, results, strict=True)
            if isinstance(op, GetData) and op.watch and result.code is ResultCode.NONODE
        ]
        self._arm([op for op, _ in missed], [result for _, result in missed], 0)


def newest_zxid(
    connect_string: str, timeout_ms: int, security: ZooKeeperSecurity = UNSECURED
) -> int:
    """Return ZooKeeper's newest zxid.

    This opens a session, which is a transaction and so makes the server return its newest zxid.
    Raises ZooKeeperUnavailable if no server accepts the session and responds in time.
    """
    hosts = connect_string.partition("/")[0]
    with contextlib.closing(KazooSession(hosts, timeout_ms, timeout_ms, security)) as session:
        KazooStore(session, within(timeout_ms / 1000)).read([Exists("/")])
        return session.last_zxid


def _code(request: ZooKeeperRequest) -> ResultCode:
    assert request.code is not None, "a finished request has no result code"
    return request.code
