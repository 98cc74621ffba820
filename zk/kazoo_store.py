"""Store on a real ZooKeeper, which combines a batch of operations into few requests.

KazooSession has the connection, watches and events. Writes are never repeated. Mirrors
kafka.zookeeper.ZooKeeperClient, which sends one request per operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from klamm.zk.kazoo_pipeline import Wait, within
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_watches import set_watches, watch_for
from klamm.zk.kazoo_wire import Multi, MultiRead, Request, SingleRead, multi_reads
from klamm.zk.security import UNSECURED, ZooKeeperSecurity
from klamm.zk.store import (
    Exists,
    GetData,
    Listener,
    ReadOp,
    ReadResult,
    ResultCode,
    Transaction,
    TxnResult,
)

# Up to this many reads are faster as single requests, which arm their watches in one round trip.
_SINGLES_AT_MOST: Final = 2


class KazooStore:
    """Store on a KazooSession, which several stores may share; ``close`` ends it for all of them.

    ``wait``: function that waits for a Completion, used by every call. The default is the
    session's, which blocks the calling thread; a greenlet hub passes its own.
    """

    def __init__(self, session: KazooSession, wait: Wait | None = None) -> None:
        self._session = session
        self._wait = wait or session.wait

    @property
    def session_id(self) -> int:
        """Id of the current session."""
        return self._session.session_id

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads; repeats them until the session is connected or over."""
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

        Raises OperationTooBig before anything is sent if one exceeds ZooKeeper's maximum size.
        """
        session = self._session
        requests = [
            Multi(ops, session.chroot, sets_acls=session.security.sets_acls) for ops in transactions
        ]
        session.run(requests, repeat=False, wait=self._wait)
        return [request.result() for request in requests]

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` for every event of the session, on the connection's own thread."""
        self._session.add_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._session.remove_listener(listener)

    def reopen(self) -> None:
        """Open a new session if the old one has expired."""
        self._session.reopen(self._wait)

    def close(self) -> None:
        """End the session; its ephemeral znodes are deleted at once."""
        self._session.close()

    def abandon(self) -> None:
        """Drop the connection like a killed process: the session lives until it times out."""
        self._session.abandon()

    def _probe(self) -> bool:
        """Return whether the server supports MultiRead; afterwards last_zxid is current.

        ZooKeeper before 3.6 closes the connection after such a request, so only one is tried.
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
        """Arm exist watches for the GetData operations on missing znodes, which arm no watch.

        The relative zxid is irrelevant for exist watches, which fire if the znode exists by now.
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
    """Open a session and return its zxid, which is newer than all committed transactions.

    Raises ZooKeeperUnavailable if no server accepts the session and answers in time.
    """
    hosts = connect_string.partition("/")[0]
    with contextlib.closing(KazooSession(hosts, timeout_ms, timeout_ms, security)) as session:
        KazooStore(session, within(timeout_ms / 1000)).read([Exists("/")])
        return session.last_zxid


def _code(request: Request) -> ResultCode:
    assert request.code is not None, "the batch is finished, so each request has its code"
    return request.code
